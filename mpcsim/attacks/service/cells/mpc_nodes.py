"""Attacks by an MPC node: alone, with the database, with a token, and both together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import (
    CURVE,
    HONEST,
    PASSWORD,
    SETTLING_MS,
    WANTED,
    AttackEnvironment,
    check_forgery,
    check_key_recovery,
    matching_guess,
    verifies,
)
from mpcsim.attacks.service.builds import ResearchBuild
from mpcsim.attacks.service.cells.direct_calls import (
    access_with,
    client_share,
    corrupt_node_after_use,
    first_success,
    run_recovery,
    vault_key,
)
from mpcsim.attacks.service.cells.outside import count_accepted
from mpcsim.attacks.service.findings import Finding, Refusal, succeed_if
from mpcsim.attacks.service.hostile import Call, RecordedRequest
from mpcsim.attacks.service.model import ServiceAttack
from mpcsim.attacks.service.table import Goal
from mpcsim.crypto.groups.curves import curve
from mpcsim.crypto.rng import SystemRng
from mpcsim.errors import MpcError
from mpcsim.ids import CLIENT, HOLDERS, MPC_NODES
from mpcsim.protocols import reshare
from mpcsim.protocols.engine import Send
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.errors import CONFLICT, Refused
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import session_keys, wire
from mpcsim.service.rpc.activation_messages import (
    AbortEpoch,
    AbortEpochReply,
    ActivationState,
    ShareInfo,
    ShareInfoPage,
)
from mpcsim.service.rpc.session_keys import SessionKey
from mpcsim.service.rpc.statements import (
    HeldShare,
    KeyRecord,
    LogHead,
    SealKeyStatement,
    SignedRecord,
    Vote,
)
from mpcsim.service.vault import EncryptedShare, SecretStore, VaultKey, open_share
from mpcsim.service.vault.strings import KEY_BYTES

LOOK_UPS = ("user", "keys", "wallet", "token?id={key_id}")
"""At the gateway, below /wallet/v1/."""


# ------------------------------------------------------------------ alone


def client_side(env: AttackEnvironment) -> Finding:
    """Play the client's side of a recovery at the gateway, with credentials that the node has
    seen."""
    hostile, public_key, _ = corrupt_node_after_use(env)

    def use(credential: Any) -> KeyShare:
        env.get_registered("/wallet/v1/user", credential)
        return env.stolen_credentials(credential).recover_unactivated()

    share = first_success({asked.credential for asked in hostile.requests}, use)
    mine = env.shares(env.me)[share.record.epoch.hex()]
    return check_key_recovery(
        (share, mine), public_key, "one ordinary call, then a recovery unactivated"
    )


def replay_everywhere(env: AttackEnvironment) -> Finding:
    """Replay every credential that the node has seen at gateway and other MPC node, at every verb.

    One that the other node accepts is used for a recovery between the two, without the gateway.
    """
    hostile, public_key, key = corrupt_node_after_use(env)
    tries: list[Callable[[], Any]] = []
    for asked in hostile.requests:
        tries += [_at_other(env, asked, verb) for verb in env.node_verbs()]
        tries += [_at_gateway(env, asked, verb) for verb in env.gateway_verbs()]
        tries += [_look_up(env, asked, path.format(**key)) for path in LOOK_UPS]

    def use(asked: RecordedRequest) -> list[KeyShare]:
        (mine,) = env.shares(env.me).values()
        asks = {env.other: access_with(env, env.other, asked.credential)}
        return run_recovery(env, mine.record, asks, mine).shares

    accepted = count_accepted(tries)
    env.service.wait(SETTLING_MS)
    shares = first_success(hostile.requests, use)
    return check_key_recovery(
        shares, public_key, f"{accepted} replays accepted; a recovery between the two"
    )


def _at_other(env: AttackEnvironment, asked: RecordedRequest, verb: str) -> Callable[[], Any]:
    ask = access_with(env, env.other, asked.credential)
    return lambda: ask(verb, _Raw(asked.body))


def _at_gateway(env: AttackEnvironment, asked: RecordedRequest, verb: str) -> Callable[[], Any]:
    return lambda: env.ask_gateway(verb, asked.body, asked.credential)


def _look_up(env: AttackEnvironment, asked: RecordedRequest, path: str) -> Callable[[], Any]:
    return lambda: env.get_registered(f"/wallet/v1/{path}", asked.credential)


class _Raw(wire.Body):
    """Body of a request, replayed byte by byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def to_bytes(self) -> bytes:
        return self._data


def vote_of_its_own(env: AttackEnvironment) -> Finding:
    """Vote for a record with a public key of the node's own, in place of the key that all three
    made."""
    hostile, alice = env.corrupt_node(), env.user()
    group = curve(CURVE)
    secret = group.random_scalar(SystemRng())
    mine = group.base(secret).encode()
    identity = env.node(env.me)._context.identity

    def answer(verb: str, credential: Any, body: bytes) -> bytes:
        reply: bytes = hostile.honest.handle(verb, credential, body)
        if verb != "vote":
            return reply
        signed = SignedRecord.from_bytes(reply)
        forged = replace(signed.record, public_key=mine)
        signature = identity.sign(Vote(forged, signed.heads[env.me], signed.seal_numbers[env.me]))
        return replace(signed, record=forged, signatures={env.me: signature}).to_bytes()

    hostile.answer = answer  # type: ignore[method-assign]
    key = alice.generate()
    return succeed_if(key["public_key"] == f"0x{mine.hex()}", "the user adopts the node's key", "")


def a_strangers_word(env: AttackEnvironment) -> Finding:
    """Claim another identity once, as the gateway starts; then tell the truth."""
    hostile, alice = env.corrupt_node(), env.user()
    key = alice.generate()
    true, other = env.node(env.me).hello(), Identity.generate(SystemRng())
    signature = other.sign(SealKeyStatement(env.me, true.seal_key, true.seal_number))
    forged = replace(true, identity=other.public, signature=signature)
    hostile.hello = lambda: forged  # type: ignore[method-assign]
    env.restart_gateway()
    hostile.hello = lambda: true  # type: ignore[method-assign]
    env.service.wait(SETTLING_MS)
    try:
        key = alice.recover()
    except Refusal as refusal:
        return succeed_if(True, f"no key is made any more: {refusal}", "")
    alice.sign(key)
    raise Refusal("a stranger is refused, and forgotten: the key is recovered, and signs")


def half_of_the_vault(env: AttackEnvironment) -> Finding:
    """Try passwords on the node's own half of a store."""
    _, _, key = corrupt_node_after_use(env)
    store = SecretStore.from_text(key["secret_store"])
    half = env.own_half(store)
    found = matching_guess(half[:KEY_BYTES], key["secret_store"])
    found = found or ("" if weakened_builds.confirms(store, half) else None)
    return succeed_if(
        found is not None, f"the password is {found!r}", "one half is random: no guess fits"
    )


def holdings_that_cannot_be(env: AttackEnvironment) -> Finding:
    """Report impossible or unreadable holdings at the gateway's start; the user signs with the
    other node."""
    alice, key = env.user_with_key()
    honest = ShareInfoPage.of([ShareInfo("ab" * 32, alice.user_id, CURVE, bytes(32), "voted", 0)])
    shown = [b"?", ShareInfoPage(honest.rows * 2).to_bytes(), honest.to_bytes()]
    hostile, activation = env.corrupt_node(), env.service.gateway.gateway.activation
    record = KeyRecord(alice.user_id, CURVE, bytes(32), bytes(32), None, 0, bytes(32), {})
    held = HeldShare(bytes(32), bytes(32), 0, SignedRecord(record, {}, {}, {}))
    claimed = ActivationState(held, None).to_bytes()
    for page in shown:
        hostile.lies = {"holdings": page, "standing": claimed}
        try:
            env.run(activation.resolve_at_start())
        except Refused:
            pass  # it is tried again, and the gateway runs
        except MpcError as error:
            return succeed_if(True, f"the gateway does not start: {type(error).__name__}", "")
    alice.sign(key, signer=env.other)
    raise Refusal("the gateway starts, and the user signs with the other MPC node")


def late_vote(env: AttackEnvironment) -> Finding:
    """Sign the abort of a recovery, on which the other node drops its new share; vote for it
    afterwards, and show both votes. Then behave."""
    hostile, alice = env.corrupt_node(), env.user()
    key = alice.generate()
    identity, records = env.node(env.me)._context.identity, list[SignedRecord]()

    def aborting(verb: str, credential: Any, body: bytes) -> bytes:
        if verb == "vote":
            raise Refused(CONFLICT, "not now")
        if verb == "abort":
            end = AbortEpoch.from_bytes(body)
            records.extend([end.vote] if end.vote else [])
            return AbortEpochReply(identity.sign(end.abort), None).to_bytes()
        reply: bytes = hostile.honest.handle(verb, credential, body)
        return reply

    hostile.answer = aborting  # type: ignore[method-assign]
    with suppress(Refusal):
        alice.recover()
    (theirs,) = records
    head = LogHead(0, bytes(32))
    mine = identity.sign(Vote(theirs.record, head, 0))
    vote = SignedRecord(theirs.record, {env.me: head}, {env.me: mine}, {env.me: 0})
    both = theirs.with_vote(vote)
    held = HeldShare(both.record.epoch, both.record.public_key, both.record.number, both)
    del hostile.answer
    hostile.lies = {"standing": ActivationState(held, None).to_bytes(), "activate": b""}
    said = ""
    try:
        alice.recover()
    except Refusal as refusal:
        said = str(refusal)
    hostile.lies = {}
    try:
        alice.sign(key, signer=env.other)
    except Refusal as refusal:
        return succeed_if(True, f"the key is of no use any more: {refusal}", "")
    raise Refusal(f"{said}; the key signs, once the node behaves")


# ------------------------------------------------------------------ with the database


def open_with_replay(env: AttackEnvironment) -> Finding:
    """Open the other half of stolen strings with credentials that the node has seen, for the
    key."""
    hostile, public_key, key = corrupt_node_after_use(env)
    shares = (client_share(env, hostile, key), env.shares(env.me)[key["key_id"]])
    return check_key_recovery(
        shares, public_key, "the client's share out of the vault, and the node's own"
    )


def passwords_with_replay(env: AttackEnvironment) -> Finding:
    """Open the other half of stolen strings with credentials that the node has seen, for the
    password."""
    hostile, _, key = corrupt_node_after_use(env)
    found = matching_guess(vault_key(env, hostile, key)[:KEY_BYTES], key["secret_store"])
    return succeed_if(found == PASSWORD, f"the password is {found!r}", "no guess fits")


def whole_vault(env: AttackEnvironment) -> Finding:
    """Open the stolen store alone, which policy ``signer`` seals to one node, and combine the
    client's share with the node's own."""
    alice, key = env.user_with_key()
    store = SecretStore.from_text(key["secret_store"])
    sealed = EncryptedShare.from_text(key["encrypted_share"])
    secret = VaultKey(bytearray(env.own_half(store)))
    share = KeyShare.from_bytes(open_share(sealed, store, secret, alice.user_id))
    return check_key_recovery(
        (share, env.shares(env.me)[key["key_id"]]), key["public_key"], "two shares of three"
    )


def password_of_whole(env: AttackEnvironment) -> Finding:
    """Open the stolen store alone, with policy ``signer``, and try passwords on its secret."""
    _, key = env.user_with_key()
    opened = env.own_half(SecretStore.from_text(key["secret_store"]))
    found = matching_guess(opened[:KEY_BYTES], key["secret_store"])
    return succeed_if(found == PASSWORD, f"the password is {found!r}", "no guess fits")


def suspended_elsewhere(env: AttackEnvironment) -> Finding:
    """Sign with a key that only the other node has suspended: with policy ``signer`` this node
    opens the vault alone, and the gateway has forgotten the suspension."""
    alice, key = env.user_with_key()
    env.node(env.other).store.suspend(key["key_id"], "seen cheating")
    signature = alice.sign(key, WANTED.hex(), env.me)
    return check_forgery(CURVE, key["public_key"], signature, "with a key that is suspended")


def another_child(env: AttackEnvironment) -> Finding:
    """Sign with the key itself when asked to sign with a child key."""
    alice, key = env.user_with_key("secp256k1")
    node = env.node(env.me)
    honest = node._signing.signer
    node._signing.signer = lambda share, body: honest(share, replace(body, path=()))
    signature = alice.sign(key, signer=env.me, path="m/7")
    return succeed_if(
        verifies("secp256k1", key["public_key"], bytes.fromhex(HONEST), signature),
        "the user gets a signature of another key than asked for",
        "it is of the key that was asked for",
    )


def never_retiring(env: AttackEnvironment) -> Finding:
    """Keep the node's old share after a recovery; with the old strings out of a database backup,
    the client's old share would make the key."""
    hostile, alice = env.corrupt_node(), env.user()
    old = alice.generate()
    alice.sign(old)
    kept = env.shares(env.me)[old["key_id"]]
    alice.recover()
    shares = (client_share(env, hostile, old), kept)
    return check_key_recovery(shares, old["public_key"], "two shares of a retired epoch")


# ------------------------------------------------------------------ with a token


def inside_a_recovery(env: AttackEnvironment) -> Finding:
    """Read a recovery's session id at the MPC node, and speak for the client before the client
    does."""
    alice, node, proxy = env.user(), env.corrupt_node(), env.intercept_gateway()
    alice.generate()
    said: list[int] = []

    async def first(call: Call) -> None:
        if call.verb != "exchange" or said:
            return
        begun = next(asked for asked in node.requests if asked.verb == "recover")
        session_id = wire.Recover.from_bytes(begun.body).session_id
        share = next(iter(env.shares(env.me).values()))
        agreed = reshare.setup(share.record, MPC_NODES, receivers=HOLDERS)
        party = reshare.party(agreed, CLIENT, session_id=session_id)
        messages = tuple(out.data for out in party.start() if isinstance(out, Send))
        for key in (None, SessionKey()):
            sent = messages if key is None else key.sign_messages(messages)
            body = wire.Exchange(session_id, sent).to_bytes()
            headers = {**call.headers, "authorization": f"Bearer {alice.token}"}
            headers.pop(session_keys.HEADER.lower(), None)
            if key is not None:
                headers[session_keys.HEADER] = key.proof("exchange", body)
            headers["content-length"] = str(len(body))
            mine = Call("POST", call.path, headers, body)
            await proxy.forward(mine)
            said.append(mine.status)

    proxy.before = first
    alice.recover()
    return succeed_if(
        any(status < 400 for status in said),
        "the thief speaks for the client in a session that the user began",
        f"no such session, to whoever has not opened it; the user's recovery goes on ({said})",
    )


def recovery_with_token(env: AttackEnvironment) -> Finding:
    """Run a recovery with the thief as client and the node as itself; never activate it."""
    alice, key = env.user_with_key()
    before = env.events(env.other)
    share = env.stolen_credentials(alice.token).recover_unactivated()
    mine = env.shares(env.me)[share.record.epoch.hex()]
    found = check_key_recovery((share, mine), key["public_key"], "a recovery that is not activated")
    alice.sign(key)
    logged = env.events(env.other)[len(before) :]
    return replace(found, shown=f"{found.shown}; the other node's log: {', '.join(logged)}")


# ------------------------------------------------------------------ both


def two_of_three(env: AttackEnvironment) -> Finding:
    """Combine both MPC nodes' shares."""
    _, key = env.user_with_key()
    shares = [env.shares(party)[key["key_id"]] for party in MPC_NODES]
    return check_key_recovery(shares, key["public_key"], "both MPC nodes' shares")


def halves_without_strings(env: AttackEnvironment) -> Finding:
    """Open both halves at both MPC nodes; there is no salt to try passwords with."""
    nodes = [env.corrupt_node(party) for party in MPC_NODES]
    alice, key = env.user_with_key()
    alice.sign(key)
    salt = SecretStore.from_text(key["secret_store"]).salt
    passed = [asked.body + (asked.reply or b"") for node in nodes for asked in node.requests]
    return succeed_if(
        any(salt in data for data in passed), "the salt passes", "the salt never leaves the node"
    )


K, W, P, X = Goal.K, Goal.W, Goal.P, Goal.X
NODE, WITH_DATABASE = "mpc node", "mpc node + database"
WITH_WHOLE = "mpc node + database, signer"

ENTRIES = (
    ServiceAttack(
        id="the whole vault, with policy signer",
        cells=((WITH_WHOLE, K),),
        name="opens the stolen strings alone, and puts two shares together",
        run=whole_vault,
        policy="signer",
        each_node=True,
    ),
    ServiceAttack(
        id="the password, with policy signer",
        cells=((WITH_WHOLE, P),),
        name="opens the stolen strings alone, and tries passwords",
        run=password_of_whole,
        policy="signer",
        each_node=True,
    ),
    ServiceAttack(
        id="a key that only the other MPC node has suspended",
        cells=(("gateway", X),),
        name="forgets a suspension that one MPC node knows of, and has the other open the vault",
        run=suspended_elsewhere,
        check="whoever opens a vault alone demands the other's list of suspended keys",
        says="this key is suspended at the",
        research=lambda: ResearchBuild(weakened_builds.ATTESTED_UNSEEN),
        policy="signer",
        each_node=True,
        both_ways=True,
    ),
    ServiceAttack(
        id="another child key",
        cells=((NODE, K), (WITH_DATABASE, K)),
        name="signs with another key than that at the path",
        run=another_child,
        check="path and key are compared before anything depends on them",
        says="parties disagree on what the session is about",
        each_node=True,
        both_ways=True,
        covers=("substituted paths",),
    ),
    ServiceAttack(
        id="the client's side of a recovery",
        cells=((NODE, K), (WITH_DATABASE, K)),
        name="plays the client in a recovery, with what the gateway has shown it",
        run=client_side,
        check="what an MPC node is shown is of no use at the gateway",
        says="JWT_INVALID",
        research=lambda: ResearchBuild(weakened_builds.FORWARDED_TOKENS),
        each_node=True,
        covers=("the client's side of a recovery by an MPC node",),
    ),
    ServiceAttack(
        id="replays everywhere",
        cells=((NODE, K), (WITH_DATABASE, K)),
        name="replays what it has been shown at every other recipient and verb",
        run=replay_everywhere,
        check="a grant is good at one MPC node, once, for one thing",
        says="the grant is not the gateway's",
        research=lambda: ResearchBuild(weakened_builds.ANY_GRANT),
        each_node=True,
        covers=("token replay at every other recipient and verb",),
    ),
    ServiceAttack(
        id="a vote for a key of its own",
        cells=((NODE, W), (WITH_DATABASE, W)),
        name="votes for a record with another public key than was made",
        run=vote_of_its_own,
        check="both MPC nodes vote for the same record, or none is in force",
        says="do not vote for the same record",
        each_node=True,
        covers=("substituted records: signed by one node only",),
    ),
    ServiceAttack(
        id="a stranger's word",
        cells=((NODE, X), (WITH_DATABASE, X)),
        name="says once, as the gateway starts, that it is somebody else",
        run=a_strangers_word,
        check="an identity is pinned, and what else an MPC node says of itself is asked again",
        says="a stranger is refused, and forgotten",
        research=lambda: ResearchBuild(weakened_builds.INTRODUCES_ONCE),
        each_node=True,
        covers=("an MPC node that says once that it is another",),
    ),
    ServiceAttack(
        id="holdings that cannot be",
        cells=((NODE, X),),
        name="says at the gateway's start what cannot be",
        run=holdings_that_cannot_be,
        check="what a node cannot have said is that node's failure, and nobody else's",
        says="the gateway starts",
        research=lambda: ResearchBuild(weakened_builds.TRUSTING_START),
        each_node=True,
    ),
    ServiceAttack(
        id="a vote after the abort",
        cells=((NODE, X), (WITH_DATABASE, X)),
        name=(
            "signs the abort of an epoch, votes for it when the other has dropped it, shows both"
        ),
        run=late_vote,
        check="what both have voted for is in force when both say so themselves",
        says="the key signs, once the node behaves",
        research=lambda: ResearchBuild(weakened_builds.HEARSAY),
        each_node=True,
        covers=("a vote and an abort for one epoch",),
    ),
    ServiceAttack(
        id="half of the vault",
        cells=((NODE, P), (WITH_DATABASE, P), ("mpc node + token", P)),
        name="tries passwords on its half",
        run=half_of_the_vault,
        check="the halves are one-time pads of each other",
        says="one half is random",
        each_node=True,
        covers=("a database thief with one seal key", "guessing passwords from each position"),
    ),
    ServiceAttack(
        id="the other half of the vault",
        cells=((WITH_DATABASE, K),),
        name="opens its half of the stolen strings, and has the other opened",
        run=open_with_replay,
        check="a grant is good at one MPC node",
        says="the grant is not the gateway's",
        research=lambda: ResearchBuild(weakened_builds.ANY_GRANT),
        each_node=True,
        covers=("a database thief with one seal key",),
    ),
    ServiceAttack(
        id="the other half, with a forwarded token",
        cells=((WITH_DATABASE, K), (WITH_DATABASE, P)),
        name="the same, then tries passwords on it",
        run=passwords_with_replay,
        check="a grant is good at one MPC node; a caller's token stops at the gateway",
        says="the grant is not the gateway's",
        research=lambda: ResearchBuild(weakened_builds.FORWARDED_TOKENS),
        each_node=True,
        covers=("guessing passwords from each position",),
    ),
    ServiceAttack(
        id="a share that is not retired",
        cells=((WITH_DATABASE, K),),
        name="keeps its old share, and has the other half of the old strings opened",
        run=never_retiring,
        check="a grant is good at one MPC node; and a half opens for the epoch in force alone",
        says="the grant is not the gateway's",
        research=lambda: ResearchBuild(weakened_builds.ANY_GRANT, weakened_builds.ANY_EPOCH_OPENS),
        each_node=True,
        covers=("an MPC node that never retires",),
    ),
    ServiceAttack(
        id="inside the user's recovery",
        cells=(("mpc node + token", K), ("token", K)),
        name="speaks for the client in a recovery that the user has begun",
        run=inside_a_recovery,
        check="a session belongs to whoever opened it: its id is the key that later calls are "
        "signed with",
        says="no such session",
        each_node=True,
    ),
    ServiceAttack(
        id="recovery with a token",
        cells=(("mpc node + token", K), ("gateway + mpc node", K)),
        name="client's and MPC node's side of a recovery, which is never activated",
        run=recovery_with_token,
        each_node=True,
        covers=("the client's side of a recovery, not activated, with an MPC node",),
    ),
    ServiceAttack(
        id="two of three",
        cells=(("mpc nodes", K), ("mpc nodes", W)),
        name="put their shares together",
        run=two_of_three,
    ),
    ServiceAttack(
        id="both halves",
        cells=(("mpc nodes", P),),
        name="open every half they are sent",
        run=halves_without_strings,
        check="the salt is in the database alone",
        says="the salt never leaves the node",
        covers=("guessing passwords from each position",),
    ),
)
