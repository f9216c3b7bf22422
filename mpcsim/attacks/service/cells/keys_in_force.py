"""Attacks by the gateway on activation: replacing a key in force, activating twice or at one node.

The gateway asks the MPC nodes itself, with genuine grants and without its own rules.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from mpcsim.attacks.service.attack_environment import (
    CURVE,
    Ask,
    AttackEnvironment,
    Strings,
    User,
    random_id,
)
from mpcsim.attacks.service.builds import node_part
from mpcsim.attacks.service.cells.direct_calls import SessionShares, run_generation, run_recovery
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, refusal_of, succeed_if
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.errors import no_such_session
from mpcsim.service.mpc_node.store import StaleUpdate, StoredShare
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import AbortEpoch, AbortEpochReply, DropShare
from mpcsim.service.rpc.statements import Abort, LogHead, SignedRecord

Asks = dict[PartyId, Ask]

# ------------------------------------------------------------------ without the checks


@node_part("MPC nodes that put in force what the gateway says")
def obey_gateway(node: Any) -> None:
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


@node_part("MPC nodes that sign any abort")
def sign_any_abort(node: Any) -> None:
    def abort(grant: Any, data: bytes) -> AbortEpochReply:
        return AbortEpochReply(node._context.identity.sign(AbortEpoch.from_bytes(data).abort), None)

    node._verbs = {**node._verbs, "abort": abort}


@node_part("MPC nodes that abort what neither has a share of")
def skip_vote_check(node: Any) -> None:
    node._voting._voted_for = lambda body: True


@node_part("MPC nodes that abort nothing of which they hold another user's share")
def abort_own_shares_only(node: Any) -> None:
    store = node.store
    honest = store.abort

    def abort(user_id: str, curve: str, key_id: str, **keywords: Any) -> StoredShare | None:
        share = store.find(key_id)
        if share is not None and (share.user_id, share.curve) != (user_id, curve):
            raise StaleUpdate("the share is of another user or curve")
        found: StoredShare | None = honest(user_id, curve, key_id, **keywords)
        return found

    store.abort = abort


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


@entry("a generation on the side, at the MPC nodes", obey_gateway)
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


@entry("a recovery on the side, at the MPC nodes")
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


@entry("two recoveries, one at either node", obey_gateway)
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
    refusals = [
        refusal_of(partial(asks[party], "activate", half)) for party, half in halves.items()
    ]
    said = "; ".join(filter(None, refusals))
    alice = env.user()
    if not refusal_of(lambda: alice.sign(key)):
        raise Refusal(said or "the key still signs")
    return succeed_if(
        bool(refusal_of(lambda: alice.sign(alice.recover()))),
        "no two shares of the key fit together any more",
        said,
    )


@entry("one session for two users", abort_own_shares_only)
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

    def make_and_sign(user: User) -> bytes:
        return user.sign(user.generate())

    said = refusal_of(partial(make_and_sign, alice)) or refusal_of(partial(make_and_sign, bob))
    return succeed_if(
        bool(said),
        f"a user can have no key: {said}",
        "both votes are aborted: each user makes a key, and signs",
    )


@entry("a vote and an abort", sign_any_abort)
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


@entry("one node's vote, twice", obey_gateway)
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


@entry("another epoch's abort", obey_gateway)
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


@entry("an epoch of nobody's", skip_vote_check)
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


@entry("an abort of what is yet to be made", skip_vote_check)
def abort_without_a_vote(env: AttackEnvironment) -> Finding:
    """Ask an MPC node to abort an epoch that neither node holds, with a vote for another."""
    alice = env.user()
    asks = _access_to_nodes(env, alice)
    made = run_generation(env, asks, CURVE)
    vote = _collect_votes(asks, made, env.other)
    end = AbortEpoch(Abort(alice.user_id, CURVE, random_id()), vote)
    ended = AbortEpochReply.from_bytes(asks[env.me]("abort", end))
    return succeed_if(ended.signature is not None, "the abort of an epoch yet to be made", "")
