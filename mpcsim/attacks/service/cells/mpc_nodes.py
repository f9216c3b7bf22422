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
from mpcsim.attacks.service.cells.direct_calls import (
    access_with,
    client_share,
    corrupt_node_after_use,
    first_success,
    run_recovery,
    vault_key,
)
from mpcsim.attacks.service.cells.outside import count_accepted
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, refusal_of, succeed_if
from mpcsim.attacks.service.hostile import Call, RecordedRequest
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


@entry("the client's side of a recovery", weakened_builds.forward_tokens)
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


@entry("replays everywhere", weakened_builds.accept_any_grant)
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


@entry("a vote for a key of its own")
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


@entry("a stranger's word", weakened_builds.introduce_once)
def a_strangers_word(env: AttackEnvironment) -> Finding:
    """Claim another identity once, as the gateway starts; then tell the truth."""
    hostile, alice = env.corrupt_node(), env.user()
    alice.generate()
    true, other = env.node(env.me).hello(), Identity.generate(SystemRng())
    signature = other.sign(SealKeyStatement(env.me, true.seal_key, true.seal_number))
    forged = replace(true, identity=other.public, signature=signature)
    hostile.hello = lambda: forged  # type: ignore[method-assign]
    env.restart_gateway()
    hostile.hello = lambda: true  # type: ignore[method-assign]
    env.service.wait(SETTLING_MS)
    said = refusal_of(lambda: alice.sign(alice.recover()))
    return succeed_if(
        bool(said),
        f"no key is made any more: {said}",
        "a stranger is refused, and forgotten: the key is recovered, and signs",
    )


@entry("half of the vault")
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


@entry("holdings that cannot be", weakened_builds.trust_holdings_at_start)
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


@entry("a vote after the abort", weakened_builds.believe_other_nodes_votes)
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
    said = refusal_of(alice.recover)
    hostile.lies = {}
    of_no_use = refusal_of(lambda: alice.sign(key, signer=env.other))
    return succeed_if(
        bool(of_no_use),
        f"the key is of no use any more: {of_no_use}",
        f"{said}; the key signs, once the node behaves",
    )


# ------------------------------------------------------------------ with the database


@entry("the other half of the vault", weakened_builds.accept_any_grant)
def open_with_replay(env: AttackEnvironment) -> Finding:
    """Open the other half of stolen strings with credentials that the node has seen, for the
    key."""
    hostile, public_key, key = corrupt_node_after_use(env)
    shares = (client_share(env, hostile, key), env.shares(env.me)[key["key_id"]])
    return check_key_recovery(
        shares, public_key, "the client's share out of the vault, and the node's own"
    )


@entry("the other half, with a forwarded token", weakened_builds.forward_tokens)
def passwords_with_replay(env: AttackEnvironment) -> Finding:
    """Open the other half of stolen strings with credentials that the node has seen, for the
    password."""
    hostile, _, key = corrupt_node_after_use(env)
    found = matching_guess(vault_key(env, hostile, key)[:KEY_BYTES], key["secret_store"])
    return succeed_if(found == PASSWORD, f"the password is {found!r}", "no guess fits")


@entry("the whole vault, with policy signer")
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


@entry("the password, with policy signer")
def password_of_whole(env: AttackEnvironment) -> Finding:
    """Open the stolen store alone, with policy ``signer``, and try passwords on its secret."""
    _, key = env.user_with_key()
    opened = env.own_half(SecretStore.from_text(key["secret_store"]))
    found = matching_guess(opened[:KEY_BYTES], key["secret_store"])
    return succeed_if(found == PASSWORD, f"the password is {found!r}", "no guess fits")


@entry("a key that only the other MPC node has suspended", weakened_builds.skip_attestation_check)
def suspended_elsewhere(env: AttackEnvironment) -> Finding:
    """Sign with a key that only the other node has suspended: with policy ``signer`` this node
    opens the vault alone, and the gateway has forgotten the suspension."""
    alice, key = env.user_with_key()
    env.node(env.other).store.suspend(key["key_id"], "seen cheating")
    signature = alice.sign(key, WANTED.hex(), env.me)
    return check_forgery(CURVE, key["public_key"], signature, "with a key that is suspended")


@entry("another child key")
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


@entry(
    "a share that is not retired", weakened_builds.accept_any_grant, weakened_builds.open_any_epoch
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


@entry("inside the user's recovery")
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


@entry("recovery with a token")
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


@entry("two of three")
def two_of_three(env: AttackEnvironment) -> Finding:
    """Combine both MPC nodes' shares."""
    _, key = env.user_with_key()
    shares = [env.shares(party)[key["key_id"]] for party in MPC_NODES]
    return check_key_recovery(shares, key["public_key"], "both MPC nodes' shares")


@entry("both halves")
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
