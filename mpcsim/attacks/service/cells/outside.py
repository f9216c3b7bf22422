"""Attacks from outside: on the network, with the caller's database, with a user's token."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from mpcsim.attacks.service import weakened_builds
from mpcsim.attacks.service.attack_environment import (
    CURVE,
    GUESSES,
    PASSWORD,
    SETTLING_MS,
    WANTED,
    AttackEnvironment,
    check_forgery,
    matching_guess,
    random_id,
)
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, Refusal, refusal_of, succeed_if
from mpcsim.ids import MPC_NODES, OPERATOR
from mpcsim.protocols.engine.channel import unseal
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.service.rpc import wire
from mpcsim.service.vault import SecretStore, password_key
from mpcsim.service.vault.strings import KEY_BYTES

HOUR_MS = 3_600_000
SESSIONS_WITHOUT_SHARE: Final = 16


def count_accepted(tries: Iterable[Callable[[], object]]) -> int:
    """Return how many attempts are not refused."""
    return sum(not refusal_of(attempt) for attempt in tries)


# ------------------------------------------------------------------ the network


@entry("recorded token", weakened_builds.never_expire_tokens)
def token_recorded(env: AttackEnvironment) -> Finding:
    """Read a token out of recorded traffic, once it is old, and recover the key with it."""
    proxy, alice = env.intercept_gateway(), env.user()
    key = alice.generate()
    alice.sign(key)
    (token,) = {call.token for call in proxy.calls if call.token}
    env.service.wait(2 * HOUR_MS)
    stolen = env.impersonate(token)
    new = stolen.recover()
    signature = stolen.sign(new, WANTED.hex())
    return check_forgery(CURVE, key["public_key"], signature, "with a recorded token")


@entry("lost activation")
def cut_at_activation(env: AttackEnvironment) -> Finding:
    """Drop the answer to the activation, so that the user does not know its key."""
    proxy, alice = env.intercept_gateway(), env.user()

    def cut(call: object) -> None:
        if getattr(call, "verb", "") == "activate":
            call.status, call.reply = 503, b'{"error": "cut"}'  # type: ignore[attr-defined]

    proxy.after = cut
    with suppress(Refusal):
        alice.generate()
    seen = alice.shown_public_key()
    held = [
        f"0x{share.public_key.encode().hex()}"
        for party in MPC_NODES
        for share in env.shares(party).values()
    ]
    return succeed_if(
        held != [seen, seen],
        "the user takes another key for its own than the MPC nodes hold",
        "the user finds the key that both MPC nodes hold",
    )


@entry("recorded password")
def password_recorded(env: AttackEnvironment) -> Finding:
    """Search all recorded traffic for something to try passwords on."""
    proxy, alice = env.intercept_gateway(), env.user()
    nodes = [env.corrupt_node(party) for party in MPC_NODES]
    key = alice.generate()
    alice.sign(key)
    alice.public_key(key)
    passed = [part for call in proxy.calls for part in (call.body, call.reply)]
    passed += [
        part
        for node in nodes
        for asked in node.requests
        for part in (asked.body, asked.reply or b"")
    ]
    store = SecretStore.from_text(key["secret_store"])
    pw_key = bytes(password_key(PASSWORD, store.salt, store.cost))
    telling = [store.salt, pw_key, store.confirmation, PASSWORD.encode()]
    return succeed_if(
        any(secret in part for secret in telling for part in passed),
        f"{len(passed)} messages give the password away",
        "salt, pw_key and confirmation are in nothing that passes between the sites",
    )


# ------------------------------------------------------------------ the caller's database


@entry("strings without a token", weakened_builds.accept_no_token)
def strings_without_token(env: AttackEnvironment) -> Finding:
    """Ask for both stolen strings to be opened, without a token."""
    _, key = env.user_with_key()
    signature = env.impersonate("").sign(key, WANTED.hex())
    return check_forgery(CURVE, key["public_key"], signature, "with both strings and no token")


@entry("strings without the pepper", weakened_builds.use_known_pepper)
def strings_without_pepper(env: AttackEnvironment) -> Finding:
    """Try passwords on both stolen strings, with every part of them as pepper."""
    _, key = env.user_with_key()
    store = SecretStore.from_text(key["secret_store"])
    known = store.to_text().encode() + bytes(KEY_BYTES)
    windows = {known[i : i + KEY_BYTES] for i in range(len(known) - KEY_BYTES + 1)}
    for guess in GUESSES:
        pw_key = password_key(guess, store.salt, store.cost)
        for pepper in (weakened_builds.KNOWN, *windows):
            if weakened_builds.confirms(store, bytes(pw_key) + pepper):
                return succeed_if(guess == PASSWORD, f"the password is {guess!r}", "")
    raise Refusal("every guess lacks the pepper: the confirmation agrees with none")


# ------------------------------------------------------------------ a user's token


@entry("recovery by a token thief")
def recovery(env: AttackEnvironment) -> Finding:
    """Recover the key under a password of the thief's own."""
    alice, key = env.user_with_key()
    stolen = env.impersonate(alice.token)
    new = stolen.recover(password="mine now")
    signature = stolen.sign(new, WANTED.hex())
    found = check_forgery(CURVE, key["public_key"], signature, "by an activated recovery")
    said = refusal_of(lambda: alice.sign(key))
    if not said:
        raise Refusal("the user's share still signs: the recovery does not show")
    if not all("recovered" in env.events(party) for party in MPC_NODES):
        raise Refusal("the recovery is not in both MPC nodes' logs")
    shown = f"{found.shown}; it shows in both MPC nodes' logs, and at the user's next signature"
    return Finding(found.verdict, f"{shown} ({said})")


@entry("silent recovery by a token thief", weakened_builds.sign_with_any_share)
def silent_recovery(env: AttackEnvironment) -> Finding:
    """Play the client's side of a recovery without activation, so that the user notices nothing."""
    alice, key = env.user_with_key()
    thief = env.stolen_credentials(alice.token)
    share = thief.recover_unactivated()
    signature = thief.sign_with(share, WANTED, OPERATOR)
    return check_forgery(CURVE, key["public_key"], signature, "by a recovery that is not in force")


@entry("first key")
def first_key(env: AttackEnvironment) -> Finding:
    """Generate the user's first key on a curve."""
    alice = env.user()
    stolen = env.impersonate(alice.token)
    planted = stolen.generate(password="mine")
    adopted = alice.shown_public_key()
    signature = stolen.sign(planted, WANTED.hex())
    return check_forgery(CURVE, adopted, signature, "the user adopts the thief's key")


@entry("second key")
def second_key(env: AttackEnvironment) -> Finding:
    """Generate another key where the user has one."""
    alice, key = env.user_with_key()
    planted = env.impersonate(alice.token).generate(password="mine")
    return succeed_if(
        alice.shown_public_key() == planted["public_key"] != key["public_key"],
        "a generation replaces the key in force",
        "the user's key is still the one in force",
    )


@entry("generation on the side")
def generation_on_the_side(env: AttackEnvironment) -> Finding:
    """Begin a generation before the user has a key, and activate it when it has one."""
    alice = env.user()
    thief = env.stolen_credentials(alice.token)
    planted = thief.generate_unactivated()
    env.service.wait(10_000)  # the thief is silent: the user's generation takes its place
    key = alice.generate()
    thief.activate(planted.record.epoch, alice.token)
    return succeed_if(
        alice.shown_public_key() != key["public_key"],
        "a generation on the side replaces the key in force",
        "the user's key is still the one in force",
    )


@entry("signing as the user")
def open_with_token(env: AttackEnvironment) -> Finding:
    """Sign as the user, with both strings and a token."""
    alice, key = env.user_with_key()
    signature = env.impersonate(alice.token).sign(key, WANTED.hex())
    return check_forgery(
        CURVE, key["public_key"], signature, "as the user, until the token expires"
    )


@entry("sessions of whoever cannot open the share")
def store_without_share(env: AttackEnvironment) -> Finding:
    """Begin to sign with secret store and token, but without the encrypted share, again and again,
    and search the MPC node's answers for the rest of a signature."""
    alice, key = env.user_with_key()
    thief, answered = env.stolen_credentials(alice.token), 0
    store = SecretStore.from_text(key["secret_store"])
    known = [*store.auth_keys.values(), thief.open_vault(key)[:KEY_BYTES]]
    for _ in range(SESSIONS_WITHOUT_SHARE):
        reply = thief.start_signing(key, WANTED)
        answered += len(reply.messages)
        for data in reply.messages:
            envelope = Envelope.decode(data)
            for secret in known:
                if opened := unseal(secret, envelope):
                    return check_forgery(
                        CURVE, key["public_key"], opened[-64:], "without the share"
                    )
    raise Refusal(
        f"{answered} answers of the MPC node are sealed with what only the two shares give, and "
        "would be one part of two"
    )


@entry("password of an opened vault")
def password_of_vault(env: AttackEnvironment) -> Finding:
    """Open the vault with both strings and a token, then try passwords without asking anyone."""
    alice, key = env.user_with_key()
    opened = env.stolen_credentials(alice.token).open_vault(key)
    found = matching_guess(opened[:KEY_BYTES], key["secret_store"])
    return succeed_if(found == PASSWORD, f"the password is {found!r}", "no guess fits")


@entry("a key token", weakened_builds.accept_key_tokens)
def key_token(env: AttackEnvironment) -> Finding:
    """Try a key token wherever an access token is accepted."""
    alice, key = env.user_with_key()
    token = alice.ask(f"token?id={key['key_id']}")["token"]
    stolen = env.impersonate(token)
    bodies = {
        "generate": wire.Generate(random_id(), CURVE, ()),
        "recover": wire.Recover(random_id(), CURVE),
        "activate": wire.Activate(random_id(), random_id()),
    }
    paths = ("user", "keys", "wallet", f"token?id={key['key_id']}")
    tries: list[Callable[[], object]] = [
        *(partial(stolen.ask, path) for path in ("", "key", "user")),
        *(stolen.generate, stolen.recover, partial(stolen.sign, key)),
        *(partial(env.get_registered, f"/wallet/v1/{path}", token) for path in paths),
        *(partial(env.ask_gateway, verb, body, token) for verb, body in bodies.items()),
    ]
    accepted = count_accepted(tries)
    env.service.wait(SETTLING_MS)
    thief = env.stolen_credentials(token)
    share = thief.recover_unactivated()
    thief.activate(share.record.epoch, token)
    signature = thief.sign_with(share, WANTED, OPERATOR)
    how = f"with a key token, accepted in {accepted} of {len(tries)} places"
    return check_forgery(CURVE, key["public_key"], signature, how)


@entry("another user's strings")
def another_users_strings(env: AttackEnvironment) -> Finding:
    """Replace the strings in the database by those of the thief's own key."""
    alice, mallory = env.user(), env.user("mallory")
    key, other = alice.generate(), mallory.generate()
    swapped = {**key, **{name: other[name] for name in ("encrypted_share", "secret_store")}}
    for strings in (swapped, other):
        with suppress(Refusal):
            seen = alice.public_key(strings)
            return succeed_if(seen == other["public_key"], "the user adopts the thief's key", "")
    alice.public_key(other)
    raise Refusal("the user's key is still the user's")
