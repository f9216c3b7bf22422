"""Attacks by the gateway's answers: MPC nodes, keys and records of its own; and with the
database."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import replace

from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import (
    CURVE,
    WANTED,
    AttackEnvironment,
    check_forgery,
    check_key_recovery,
)
from mpcsim.attacks.service.cells import outside
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, succeed_if
from mpcsim.attacks.service.hostile import Call
from mpcsim.attacks.service.rogue_service import RogueService
from mpcsim.service.rpc.statements import SignedRecord

# ------------------------------------------------------------------ MPC nodes of its own


@entry("MPC nodes of its own at generate", weakened_builds.trust_any_node)
@entry("MPC nodes of its own at generate, identities not known")
def own_nodes_at_generate(env: AttackEnvironment) -> Finding:
    """Play both MPC nodes, as the gateway, while the user generates a key."""
    proxy, alice = env.intercept_gateway(), env.user()
    rogue = RogueService(env, proxy, alice)
    alice.generate()
    return check_key_recovery(
        rogue.shares(), alice.shown_public_key(), "the real MPC nodes never hear of the user"
    )


@entry(
    "first messages of others at generate",
    weakened_builds.accept_unsigned_messages,
    weakened_builds.accept_any_record,
)
def first_messages_at_generate(env: AttackEnvironment) -> Finding:
    """Play both MPC nodes at generation, but show the true identities: only the first messages,
    which nothing seals yet, are of others."""
    proxy, alice = env.intercept_gateway(), env.user()
    rogue = RogueService(env, proxy, alice, introduced=False)
    alice.generate()
    return check_key_recovery(
        rogue.shares(), alice.shown_public_key(), "the real MPC nodes never hear of the user"
    )


@entry("MPC nodes of its own at recover", weakened_builds.trust_any_node)
@entry("MPC nodes of its own at recover, identities not known")
def own_nodes_at_recover(env: AttackEnvironment) -> Finding:
    """Play both MPC nodes while the user recovers: a key of the gateway's own."""
    proxy, alice = env.intercept_gateway(), env.user()
    alice.generate()
    rogue = RogueService(env, proxy, alice)
    rogue.plant_key()
    env.restart_node()
    new = alice.recover()
    return check_key_recovery(rogue.shares(), new["public_key"], "in the place of the user's key")


@entry("MPC nodes of its own later")
def own_nodes_later(env: AttackEnvironment) -> Finding:
    """Play both MPC nodes when the user signs, after an honest generation and a restart of the REST
    node."""
    proxy, alice = env.intercept_gateway(), env.user()
    key = alice.generate()
    env.restart_node()
    rogue = RogueService(env, proxy, alice)
    rogue.plant_key()
    signature = alice.sign(key)
    return succeed_if(bool(signature), "the user signs with MPC nodes of the gateway's", "nothing")


@entry("a wallet of its own later")
def own_wallet_later(env: AttackEnvironment) -> Finding:
    """Play both MPC nodes when the user reads its wallet, which takes no strings; but the user has
    stored its public key, and compares."""
    proxy, alice = env.intercept_gateway(), env.user()
    key = alice.generate()
    env.restart_node()
    rogue = RogueService(env, proxy, alice)
    planted = rogue.plant_key()
    with suppress(Refusal):
        alice.public_key(key)
        return succeed_if(True, "the strings open at MPC nodes of the gateway's", "")
    seen = alice.shown_public_key()
    return succeed_if(
        seen == planted["public_key"] == key["public_key"],
        "the user adopts another key",
        "the wallet shows another key than the user has stored",
    )


# ------------------------------------------------------------------ records


@entry("another public key", weakened_builds.accept_any_record)
def another_public_key(env: AttackEnvironment) -> Finding:
    """Answer with a public key of the gateway's own wherever the user's is asked for, and put it
    into the record with both MPC nodes' signatures."""
    proxy, alice, mallory = env.intercept_gateway(), env.user(), env.user("mallory")
    key, other = alice.generate(), mallory.generate()
    mine, theirs = (bytes.fromhex(each["public_key"][2:]) for each in (other, key))

    def recorded(text: str) -> str:
        signed = SignedRecord.from_bytes(urlsafe_b64decode(text))
        if signed.record.public_key == theirs:
            signed = replace(signed, record=replace(signed.record, public_key=mine))
        return urlsafe_b64encode(signed.to_bytes()).decode()

    def substitute(call: Call) -> None:
        if call.path.startswith("/wallet/"):
            answer = json.loads(call.reply.replace(theirs.hex().encode(), mine.hex().encode()))
            wallets = [wallet["key"] for wallet in answer.get("wallets", [])]
            for each in answer.get("keys", wallets):
                each["record"] = recorded(each["record"])
            call.reply = json.dumps(answer).encode()

    proxy.after = substitute
    return succeed_if(
        alice.shown_public_key() == other["public_key"],
        "the user's wallet shows another key",
        "the user's wallet shows the user's key",
    )


@entry("another chain code", weakened_builds.accept_any_record)
def another_chain_code(env: AttackEnvironment) -> Finding:
    """Answer a user that asks for an address with one whose key nobody has shares of."""
    proxy, alice = env.intercept_gateway(), env.user()
    key = alice.generate("secp256k1")
    true = alice.child(key, "m/7")

    def substitute(call: Call) -> None:
        if call.path.startswith("/wallet/v1/wallet"):
            answer = json.loads(call.reply)
            for wallet in answer["wallets"]:
                data = urlsafe_b64decode(wallet["key"]["record"])
                signed = SignedRecord.from_bytes(data)
                lie = replace(signed, record=replace(signed.record, chain_code=bytes(32)))
                wallet["key"]["record"] = urlsafe_b64encode(lie.to_bytes()).decode()
            call.reply = json.dumps(answer).encode()

    proxy.after = substitute
    (wallet,) = alice.ask("?path=m/7")["wallets"]
    return succeed_if(
        wallet["key"]["public_key"] != true,
        "the user's wallet shows an address that nobody can sign for",
        "the user's wallet shows the user's child key",
    )


@entry("an older epoch's record")
def older_epochs_record(env: AttackEnvironment) -> Finding:
    """Answer with the record from before a recovery, so that the retired strings pass for the
    present ones."""
    proxy, alice = env.intercept_gateway(), env.user()
    key = alice.generate()
    alice.ask("key")
    old = proxy.calls[-1].reply
    alice.recover()

    def older(call: Call) -> None:
        if call.path.startswith("/wallet/v1/keys"):
            call.reply = old

    proxy.after = older
    env.make_gateway_accept(env.shares(env.me).popitem()[1])
    return succeed_if(bool(alice.public_key(key)), "retired strings pass for the present ones", "")


@entry("another user's record", weakened_builds.accept_any_record)
def another_users_record(env: AttackEnvironment) -> Finding:
    """Answer with another user's key and record."""
    proxy, alice, mallory = env.intercept_gateway(), env.user(), env.user("mallory")
    alice.generate()
    other = mallory.generate()

    def divert(call: Call) -> None:
        if call.path.startswith("/wallet/"):
            call.headers = {**call.headers, "authorization": f"Bearer {mallory.token}"}

    def rename(call: Call) -> None:
        if call.path.startswith("/wallet/"):
            call.reply = call.reply.replace(mallory.user_id.encode(), alice.user_id.encode())

    proxy.before, proxy.after = divert, rename
    return succeed_if(
        alice.shown_public_key() == other["public_key"],
        "the user's wallet shows another user's key",
        "the user's wallet shows the user's key",
    )


# ------------------------------------------------------------------ with the database


@entry("the stored public key")
def stored_public_key(env: AttackEnvironment) -> Finding:
    """Replace the public key that the caller's backend has stored by the attacker's."""
    alice, mallory = env.user(), env.user("mallory")
    key, other = alice.generate(), mallory.generate()
    key["public_key"] = other["public_key"]
    signature = mallory.sign(other, WANTED.hex())
    return check_forgery(
        CURVE, key["public_key"], signature, "the key that the user's backend has stored"
    )


entry("what passes the gateway")(outside.password_recorded)
entry("issued token and stolen strings")(outside.open_with_token)
entry("issued token and the vault")(outside.password_of_vault)
