"""Attacks by the gateway on activation: replacing a key in force, activating twice or at one node.

The gateway asks the MPC nodes itself, with genuine grants and without its own rules.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import (
    CURVE,
    Ask,
    AttackEnvironment,
    Strings,
    User,
    random_id,
)
from mpcsim.attacks.service.builds import Part, ResearchBuild
from mpcsim.attacks.service.cells.direct_calls import SessionShares, run_generation, run_recovery
from mpcsim.attacks.service.findings import Finding, Refusal, succeed_if
from mpcsim.attacks.service.model import ServiceAttack
from mpcsim.attacks.service.table import Goal
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.errors import no_such_session
from mpcsim.service.mpc_node.store import StaleUpdate, StoredShare
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import AbortEpoch, AbortEpochReply, DropShare
from mpcsim.service.rpc.statements import Abort, LogHead, SignedRecord

Asks = dict[PartyId, Ask]

# ------------------------------------------------------------------ without the checks


@weakened_builds.for_both_nodes
def _obey_gateway(node: Any) -> None:
    """Make a node vote for any share it has, and activate and drop shares on the gateway's word."""
    store = node.store

    def vote(grant: Any, data: bytes) -> SignedRecord:
        share = store.find(wire.Activate.from_bytes(data).key_id.hex())
        if share is None:
            raise no_such_session()
        with store._database.transaction() as cursor:
            keep = "UPDATE shares SET state = 'voted' WHERE key_id = ? AND state = 'prepared'"
            cursor.execute(keep, (share.key_id,))
        vote = node._voting._vote_signer(share)(share, LogHead(0, bytes(32)))
        return SignedRecord.from_bytes(vote)

    def activate(grant: Any, data: bytes) -> None:
        record = SignedRecord.from_bytes(data).record
        with store._database.transaction() as cursor:
            cursor.execute(
                "DELETE FROM shares WHERE state = 'active' AND user_id = ? AND curve = ?"
                " AND key_id != ?",
                (record.user_id, record.curve_name, record.key_id),
            )
            cursor.execute(
                "UPDATE shares SET state = 'active', record = ? WHERE key_id = ?",
                (data, record.key_id),
            )

    def forget(grant: Any, data: bytes) -> None:
        abort = DropShare.from_bytes(data).abort
        store.drop(abort.user_id, abort.curve_name, abort.epoch.hex())

    node._verbs = {**node._verbs, "vote": vote, "activate": activate, "drop": forget}


@weakened_builds.for_both_nodes
def _sign_any_abort(node: Any) -> None:
    def abort(grant: Any, data: bytes) -> AbortEpochReply:
        return AbortEpochReply(node._context.identity.sign(AbortEpoch.from_bytes(data).abort), None)

    node._verbs = {**node._verbs, "abort": abort}


@weakened_builds.for_both_nodes
def _skip_vote_check(node: Any) -> None:
    node._voting._voted_for = lambda body: True


@weakened_builds.for_both_nodes
def _abort_own_shares_only(node: Any) -> None:
    store = node.store
    honest = store.abort

    def abort(user_id: str, curve: str, key_id: str, **keywords: Any) -> StoredShare | None:
        share = store.find(key_id)
        if share is not None and (share.user_id, share.curve) != (user_id, curve):
            raise StaleUpdate("the share is of another user or curve")
        found: StoredShare | None = honest(user_id, curve, key_id, **keywords)
        return found

    store.abort = abort


ON_THE_GATEWAYS_WORD: Final = Part(
    "MPC nodes that put in force what the gateway says",
    _obey_gateway,
)
ABORTS_ANYTHING: Final = Part("MPC nodes that sign any abort", _sign_any_abort)
ABORTS_UNSEEN: Final = Part(
    "MPC nodes that abort what neither has a share of",
    _skip_vote_check,
)
MINDS_WHOSE: Final = Part(
    "MPC nodes that abort nothing of which they hold another user's share",
    _abort_own_shares_only,
)


# ------------------------------------------------------------------ what the gateway asks


def _access_to_nodes(env: AttackEnvironment, user: User) -> Asks:
    return {party: env.gateway_access(party, user.user_id) for party in MPC_NODES}


def _collect_votes(asks: Asks, made: SessionShares, *parties: PartyId) -> SignedRecord:
    """Collect votes of some nodes for a session's shares, and combine them."""
    body = wire.Activate(made.session_id, bytes.fromhex(made.key_id))
    votes = [SignedRecord.from_bytes(asks[party]("vote", body)) for party in parties]
    return reduce(SignedRecord.with_vote, votes)


def _close_sessions(asks: Asks, made: SessionShares) -> None:
    for ask in asks.values():
        with suppress(Refusal):
            ask("close", wire.Close(made.session_id))


def _holds_share(env: AttackEnvironment, party: PartyId, key: Strings) -> bool:
    return key["key_id"] in env.shares(party)


# ------------------------------------------------------------------ another key in its place


def generation_on_the_side(env: AttackEnvironment) -> Finding:
    """Begin a generation at the MPC nodes before the user has a key; when it has one, ask both
    nodes to vote for the other."""
    alice = env.user()
    asks = _access_to_nodes(env, alice)
    planted = run_generation(env, asks, CURVE)
    key = alice.generate()
    signed = _collect_votes(asks, planted, *MPC_NODES)
    for party in MPC_NODES:
        asks[party]("activate", signed)
    public_key = planted.shares[0].public_key.encode().hex()
    held = {env.shares(party)[planted.key_id].public_key.encode().hex() for party in MPC_NODES}
    return succeed_if(
        held == {public_key} and not any(_holds_share(env, party, key) for party in MPC_NODES),
        "a generation on the side has replaced the key in force",
        "the key in force is still there",
    )


def recovery_on_the_side(env: AttackEnvironment) -> Finding:
    """Get one MPC node's vote for a recovery that comes to nothing; after the user has recovered,
    try to replace the newer share by the older."""
    alice, key = env.user_with_key()
    asks = _access_to_nodes(env, alice)
    record = env.shares(env.me)[key["key_id"]].record
    planted = run_recovery(env, record, asks)
    half = _collect_votes(asks, planted, env.me)
    _close_sessions(asks, planted)
    new = alice.recover()
    asks[env.me]("activate", half)
    return succeed_if(
        not _holds_share(env, env.me, new),
        "a recovery on the side has replaced the share in force",
        "the share in force is still there",
    )


# ------------------------------------------------------------------ half and half


def two_recoveries(env: AttackEnvironment) -> Finding:
    """Settle two recoveries from one epoch, one at each MPC node, so that no two shares fit
    together."""
    alice, key = env.user_with_key()
    asks = _access_to_nodes(env, alice)
    record = env.shares(MPC_NODES[0])[key["key_id"]].record
    halves = {}
    for party in MPC_NODES:
        made = run_recovery(env, record, asks)
        halves[party] = _collect_votes(asks, made, party)
        _close_sessions(asks, made)
    said = []
    for party, half in halves.items():
        try:
            asks[party]("activate", half)
        except Refusal as refusal:
            said.append(str(refusal))
    alice = env.user()
    try:
        alice.sign(key)
    except Refusal:
        with suppress(Refusal):
            alice.sign(alice.recover())
            raise Refusal("; ".join(said)) from None
        return succeed_if(True, "no two shares of the key fit together any more", "")
    raise Refusal("; ".join(said) or "the key still signs")


def one_session_for_two(env: AttackEnvironment) -> Finding:
    """Run one generation in one user's name at one MPC node and in another's at the other, with
    both votes. Neither can ever be activated: they are to keep both users from having a key."""
    alice, bob = env.user(), env.user("bob")
    asks = {
        env.me: env.gateway_access(env.me, alice.user_id),
        env.other: env.gateway_access(env.other, bob.user_id),
    }
    made = run_generation(env, asks, CURVE)
    for party in MPC_NODES:
        _collect_votes(asks, made, party)
    _close_sessions(asks, made)
    try:
        for user in (alice, bob):
            user.sign(user.generate())
    except Refusal as refusal:
        return succeed_if(True, f"a user can have no key: {refusal}", "")
    raise Refusal("both votes are aborted: each user makes a key, and signs")


def vote_and_abort(env: AttackEnvironment) -> Finding:
    """Get both a vote and an abort for one epoch, in either order: enough to settle it both
    ways."""
    alice = env.user()
    asks = _access_to_nodes(env, alice)
    made = run_generation(env, asks, CURVE)
    abort = AbortEpoch(Abort(alice.user_id, CURVE, bytes.fromhex(made.key_id)), None)
    ask = asks[env.me]
    _collect_votes(asks, made, env.me)
    ended = AbortEpochReply.from_bytes(ask("abort", abort))
    if ended.signature is not None:
        return succeed_if(True, "one epoch has the node's vote and its abort", "")
    other_user = env.user("bob")
    asks = _access_to_nodes(env, other_user)
    other = run_generation(env, asks, CURVE)
    abort = AbortEpoch(Abort(other_user.user_id, CURVE, bytes.fromhex(other.key_id)), None)
    ended = AbortEpochReply.from_bytes(asks[env.me]("abort", abort))
    _collect_votes(asks, other, env.me)
    return succeed_if(
        ended.signature is not None, "one epoch has the node's abort and its vote", ""
    )


def votes_of_one(env: AttackEnvironment) -> Finding:
    """Activate a record with one MPC node's vote in both places."""
    alice = env.user()
    alice.generate()
    asks = _access_to_nodes(env, alice)
    record = next(iter(env.shares(env.me).values())).record
    made = run_recovery(env, record, asks)
    half = _collect_votes(asks, made, env.me)
    mine = half.signatures[env.me]
    doubled = replace(
        half,
        heads=dict.fromkeys(MPC_NODES, half.heads[env.me]),
        signatures=dict.fromkeys(MPC_NODES, mine),
        seal_numbers=dict.fromkeys(MPC_NODES, 0),
    )
    asks[env.me]("activate", doubled)
    return succeed_if(
        made.key_id in env.shares(env.me),
        f"the {ROLES[env.me]} has replaced its share, the other has not",
        "nothing has come into force",
    )


def another_epochs_abort(env: AttackEnvironment) -> Finding:
    """Make a node drop a share that it has voted for, on another epoch's abort."""
    alice = env.user()
    asks = _access_to_nodes(env, alice)
    made = run_generation(env, asks, CURVE)
    _collect_votes(asks, made, env.me)
    epoch = bytes.fromhex(made.key_id)
    aside = run_generation(env, asks, CURVE)
    other = Abort(alice.user_id, CURVE, bytes.fromhex(aside.key_id))
    ended = AbortEpochReply.from_bytes(asks[env.other]("abort", AbortEpoch(other, None)))
    drop = DropShare(replace(other, epoch=epoch), ended.signature or bytes(64))
    asks[env.me]("drop", drop)
    return succeed_if(
        made.key_id not in env.shares(env.me),
        "a share with a vote is dropped without the other node's abort",
        "the share is still there",
    )


def epoch_of_nobodys(env: AttackEnvironment) -> Finding:
    """Activate, with a user's token, an epoch that its session has not made, so that the MPC nodes
    sign, and store for good, that they never vote for it."""
    alice = env.user()
    thief = env.stolen_credentials(alice.token)
    thief.generate_unactivated()
    epoch, said = random_id(), ""
    with suppress(Refusal):
        thief.activate(epoch, alice.token)
    for party in MPC_NODES:
        rows = env.node(party).store._database.rows("SELECT key_id, what FROM signed")
        if (epoch.hex(), "abort") not in rows:
            said = f"the {ROLES[party]} keeps no abort of it"
    return succeed_if(not said, "both MPC nodes keep an abort of whatever a caller names", said)


def abort_without_a_vote(env: AttackEnvironment) -> Finding:
    """Ask an MPC node to abort an epoch that neither node holds, with a vote for another."""
    alice = env.user()
    asks = _access_to_nodes(env, alice)
    made = run_generation(env, asks, CURVE)
    vote = _collect_votes(asks, made, env.other)
    end = AbortEpoch(Abort(alice.user_id, CURVE, random_id()), vote)
    ended = AbortEpochReply.from_bytes(asks[env.me]("abort", end))
    return succeed_if(ended.signature is not None, "the abort of an epoch yet to be made", "")


K, W, P, X = Goal.K, Goal.W, Goal.P, Goal.X
BOTH = ("gateway", "gateway, not pinned")
AT_NODES = tuple((row, X) for row in BOTH)

ENTRIES = (
    ServiceAttack(
        id="a generation on the side, at the MPC nodes",
        cells=(*((row, W) for row in BOTH), *AT_NODES),
        name="prepares a key before the user has one, and has it voted for afterwards",
        run=generation_on_the_side,
        check="what comes into force ends what else was prepared; a first key replaces nothing",
        says="no such session",
        research=lambda: ResearchBuild(ON_THE_GATEWAYS_WORD),
        covers=("a generation on the side that tries to replace a key in force",),
    ),
    ServiceAttack(
        id="a recovery on the side, at the MPC nodes",
        cells=AT_NODES,
        name="has one node's vote for a recovery, and uses it after another one",
        run=recovery_on_the_side,
        check="an old share goes only against both nodes' votes for one epoch",
        says="has not signed this record",
        each_node=True,
        covers=("a recovery on the side that tries to replace a key in force",),
    ),
    ServiceAttack(
        id="two recoveries, one at either node",
        cells=AT_NODES,
        name="settles another recovery at each MPC node",
        run=two_recoveries,
        check="an old share goes only against both nodes' votes for one epoch",
        says="has not signed this record",
        research=lambda: ResearchBuild(ON_THE_GATEWAYS_WORD),
        covers=("two recoveries from one epoch, each settled at one node",),
    ),
    ServiceAttack(
        id="one session for two users",
        cells=AT_NODES,
        name="passes one session off as one user's here and as another's there",
        run=one_session_for_two,
        check=(
            "a node signs the abort of whatever the other has voted for, unless it has voted, too"
        ),
        says="both votes are aborted",
        research=lambda: ResearchBuild(MINDS_WHOSE),
        each_node=True,
        covers=("a vote and an abort for one epoch",),
    ),
    ServiceAttack(
        id="a vote and an abort",
        cells=AT_NODES,
        name="gets both from one MPC node for one epoch",
        run=vote_and_abort,
        check=(
            "a node signs for an epoch a vote or an abort, never both, and forgets what it aborts"
        ),
        says="no such session",
        research=lambda: ResearchBuild(ABORTS_ANYTHING),
        each_node=True,
        covers=("a vote and an abort for one epoch",),
    ),
    ServiceAttack(
        id="one node's vote, twice",
        cells=AT_NODES,
        name="has a share replaced with one MPC node's vote in both places",
        run=votes_of_one,
        check="both signatures are checked under both identities",
        says="has not signed this record",
        research=lambda: ResearchBuild(ON_THE_GATEWAYS_WORD),
        each_node=True,
        covers=("substituted records: signed by one node only",),
    ),
    ServiceAttack(
        id="another epoch's abort",
        cells=AT_NODES,
        name="has a share with a vote dropped by an abort of something else",
        run=another_epochs_abort,
        check="the abort names its epoch, and is signed",
        says="has not signed this abort",
        research=lambda: ResearchBuild(ON_THE_GATEWAYS_WORD),
        each_node=True,
        covers=("a vote and an abort for one epoch",),
    ),
    ServiceAttack(
        id="an epoch of nobody's",
        cells=(("token", X),),
        name="asks to put an epoch in force that nobody has made",
        run=epoch_of_nobodys,
        check="a node signs no abort of what neither holds a share of: callers fill no store",
        says="keeps no abort of it",
        research=lambda: ResearchBuild(ABORTS_UNSEEN),
    ),
    ServiceAttack(
        id="an abort of what is yet to be made",
        cells=(*AT_NODES, ("mpc node", X)),
        name="has an MPC node abort an epoch, with the other's vote for something else",
        run=abort_without_a_vote,
        check="the vote that is shown is for that epoch",
        says="neither node has such a share",
        research=lambda: ResearchBuild(ABORTS_UNSEEN),
        each_node=True,
    ),
)
