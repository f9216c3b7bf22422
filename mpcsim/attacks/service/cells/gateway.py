"""Attacks by the gateway on requests that pass it: signing, vaults, seal keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import (
    CURVE,
    WANTED,
    AttackEnvironment,
    Strings,
    check_forgery,
)
from mpcsim.attacks.service.cells import outside
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, succeed_if
from mpcsim.attacks.service.hostile import Call
from mpcsim.crypto.rng import SystemRng
from mpcsim.ids import CLIENT, MPC_NODES, PartyId
from mpcsim.protocols import frost
from mpcsim.protocols.engine import Send
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.rpc import wire
from mpcsim.service.vault import HALF_BYTES, ReplyKey, SealKey, SecretStore
from mpcsim.service.vault.halves import seal_halves
from mpcsim.service.vault.strings import KEY_BYTES
from mpcsim.service.vault.use import sha256_each

# ------------------------------------------------------------------ the client's side


@entry("silent recovery by the gateway", weakened_builds.sign_with_any_share)
def silent_recovery(env: AttackEnvironment) -> Finding:
    """Recover with an issued token, without activation, and ask the node to sign with its share."""
    _, key = env.user_with_key()
    thief = env.stolen_credentials(env.service.gateway.token("alice"))
    share = thief.recover_unactivated()
    env.make_gateway_accept(share)  # what the gateway itself would ask is no obstacle to it
    signature = thief.sign_with(share, WANTED, env.me)
    return check_forgery(CURVE, key["public_key"], signature, "with shares that are not in force")


# ------------------------------------------------------------------ the vault


@entry("a reply key of its own", weakened_builds.skip_use_check)
def reply_key_of_its_own(env: AttackEnvironment) -> Finding:
    """Insert the gateway's reply key into a user's request that opens the vault."""
    return _opened_with(env)


@entry("a request without a proof", weakened_builds.skip_use_check)
def request_without_proof(env: AttackEnvironment) -> Finding:
    """Insert the gateway's reply key, and leave out the proof of use."""
    return _opened_with(env, proven_use=False)


def _opened_with(env: AttackEnvironment, *, proven_use: bool = True) -> Finding:
    proxy, alice = env.intercept_gateway(), env.user()
    key = alice.generate()
    mine = ReplyKey(SystemRng())
    boots = {party: env.node(party).hello().boot for party in MPC_NODES}
    none = {party: wire.UseProof(boot, bytes(32)) for party, boot in boots.items()}

    def substitute(call: Call) -> None:
        if call.verb == "open":
            body = replace(wire.OpenVault.from_bytes(call.body), reply_key=mine.public)
            call.body = (body if proven_use else replace(body, proofs=none)).to_bytes()
        elif call.verb == "sign" and (asked := wire.Sign.from_bytes(call.body)).vault is not None:
            vault = replace(asked.vault, reply_key=mine.public)
            call.body = replace(asked, vault=vault).to_bytes()
            if not proven_use:
                call.path = wire.PREFIX + "open"
                body = wire.OpenVault(asked.key_id, mine.public, vault.halves, none)
                call.body = body.to_bytes()

    proxy.before = substitute
    with suppress(Refusal):
        alice.sign(key)
    answer = (proxy.calls_of("open") or proxy.calls_of("sign"))[0]
    if answer.status != 200:
        raise Refusal(f"{answer.status} {json.loads(answer.reply)['error']}")
    if answer.verb == "open":
        opened = wire.VaultOpened.from_bytes(answer.reply)
    else:
        opened = wire.SignReply.from_bytes(answer.reply).vault or wire.VaultOpened({}, b"")
    secret = bytes(mine.combine(opened.halves, env.seal_keys()).secret)
    store = SecretStore.from_text(key["secret_store"])
    return succeed_if(
        weakened_builds.confirms(store, secret), "pw_key and pepper of the user's vault", "nothing"
    )


@entry("seal keys of its own", weakened_builds.trust_any_seal_key)
def seal_keys_of_its_own(env: AttackEnvironment) -> Finding:
    """Hand out seal keys of the gateway's own for the user's new vault."""
    proxy, alice = env.intercept_gateway(), env.user()
    mine = {party: SealKey.generate(SystemRng()) for party in MPC_NODES}

    def substitute(call: Call) -> None:
        if call.path == "/mpc/v1/nodes":
            said = json.loads(call.reply)
            for entry in said.values():
                entry["seal_key"] = mine[entry["identifier"]].public.hex()
            call.reply = json.dumps(said).encode()

    proxy.after = substitute
    return _opened_by(env, alice.generate(), mine)


@entry("seal keys that were replaced", weakened_builds.skip_seal_key_check)
def replaced_seal_keys(env: AttackEnvironment) -> Finding:
    """Show leaked seal keys, replaced since but signed as they once were, to a REST node that has
    just been started."""
    proxy, alice = env.intercept_gateway(), env.user()
    alice.generate()
    leaked, shown = dict[PartyId, SealKey](), dict[int, wire.Hello]()
    for party in MPC_NODES:
        node = env.node(party)
        leaked[party], shown[party] = node._boot.seal_key, node.hello()
        with node.store.database.transaction() as cursor:
            cursor.execute("DELETE FROM secrets WHERE name = 'seal_key'")
        node.store.keys.replace_seal_key(SystemRng())
        node._boot.seal_key = node.store.keys.seal_key(SystemRng())
        node.restart()

    def substitute(call: Call) -> None:
        if call.path == "/mpc/v1/nodes":
            said = json.loads(call.reply)
            for entry in said.values():
                old = shown[entry["identifier"]]
                entry["seal_number"] = old.seal_number
                entry |= {"seal_key": old.seal_key.hex(), "signature": old.signature.hex()}
            call.reply = json.dumps(said).encode()

    proxy.after = substitute
    env.restart_node()
    return _opened_by(env, alice.recover(), leaked)


def _opened_by(
    env: AttackEnvironment, key: Strings, seal_keys: Mapping[PartyId, SealKey]
) -> Finding:
    """Return success if the secret of the store is sealed to these keys."""
    store = SecretStore.from_text(key["secret_store"])
    halves = [env.open_half(store, party, seal_keys[party]) for party in MPC_NODES]
    secret = bytes(a ^ b for a, b in zip(*halves, strict=True))
    return succeed_if(
        weakened_builds.confirms(store, secret), "pw_key and pepper of the user's vault", "nothing"
    )


def _sign_changed(
    env: AttackEnvironment,
    change: Callable[[wire.Sign], wire.Sign],
    curve: str = CURVE,
    path: str | None = None,
) -> tuple[Strings, bytes, wire.SignReply]:
    """Change a user's request to sign; return the key, the signature if any, and the answer.

    Raises:
        Refusal: an MPC node, or the gateway, refuses the changed request.
    """
    proxy, alice = env.intercept_gateway(), env.user()
    key = alice.generate(curve)

    def substitute(call: Call) -> None:
        if call.verb == "sign":
            call.body = change(wire.Sign.from_bytes(call.body)).to_bytes()

    proxy.before = substitute
    signature = b""
    with suppress(Refusal):
        signature = alice.sign(key, path=path)
    (asked, *_) = proxy.calls_of("sign")
    if asked.status != 200:
        raise Refusal(f"{asked.status} {json.loads(asked.reply)['error']}")
    return key, signature, wire.SignReply.from_bytes(asked.reply)


@entry("a message of its own")
def message_of_its_own(env: AttackEnvironment) -> Finding:
    """Insert another message into a user's request to sign."""
    key, signature, _ = _sign_changed(env, lambda body: replace(body, message=WANTED))
    return check_forgery(CURVE, key["public_key"], signature, "the user's share of the signature")


@entry("a path of its own", weakened_builds.skip_use_check)
def path_of_its_own(env: AttackEnvironment) -> Finding:
    """Insert another path into a user's request to sign with a child key."""
    _, _, answer = _sign_changed(env, lambda body: replace(body, path=(8,)), "secp256k1", "m/7")
    return succeed_if(
        len(answer.messages) > 0, "the MPC node signs with a child that nobody asked for", "nothing"
    )


@entry("first messages of its own", weakened_builds.skip_use_check)
def first_messages_of_its_own(env: AttackEnvironment) -> Finding:
    """Replace the client's first messages by another client's, about another message.

    With a signature share of the MPC node for a message of its own, the gateway would lack the
    client's; it never comes to that.
    """

    def another_client(body: wire.Sign) -> wire.Sign:
        (share,) = env.shares(env.me).values()
        party = stand_in(share, body.session_id, PartyId(body.signer))
        return replace(body, message=WANTED, messages=party, first=sha256_each(party))

    _, _, answer = _sign_changed(env, another_client)
    return succeed_if(
        len(answer.messages) > 0, "the MPC node signs with a client that is none", "nothing"
    )


@entry("halves sealed by a stranger", weakened_builds.skip_use_check)
def strangers_halves(env: AttackEnvironment) -> Finding:
    """Seal halves as a stranger, and have them opened with an issued token."""
    alice, key = env.user_with_key()
    secret = SystemRng().bytes(HALF_BYTES)
    thief = env.stolen_credentials(env.service.gateway.token("alice"))
    store = SecretStore.from_text(key["secret_store"])
    halves = seal_halves(
        bytearray(secret), env.seal_keys(), store.key_id, alice.user_id, SystemRng()
    )
    own = {party: SystemRng().bytes(KEY_BYTES) for party in MPC_NODES}
    forged_store = replace(store, halves=halves, auth_keys=own)
    opened = thief.open_vault({**key, "secret_store": forged_store.to_text()})
    return succeed_if(opened == secret, "the MPC nodes open what a stranger has sealed", "")


def stand_in(share: KeyShare, session_id: bytes, signer: PartyId) -> tuple[bytes, ...]:
    """Return first messages of a made-up client, with a share that nobody has dealt."""
    peers = {signer: next(iter(share.peers.values()))}
    made = replace(share, identifier=CLIENT, peers=peers)
    party = frost.party(frost.setup(made, (CLIENT, signer), WANTED), session_id=session_id)
    return tuple(output.data for output in party.start() if isinstance(output, Send))


entry("recovery with an issued token")(outside.recovery)
