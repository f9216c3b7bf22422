"""Attacks by the REST node, while it serves a user: the whole user is in its hands."""

from __future__ import annotations

from typing import Any

from mpcsim.attacks.service.attack_environment import (
    CURVE,
    PASSWORD,
    WANTED,
    AttackEnvironment,
    check_forgery,
)
from mpcsim.attacks.service.entries import entry
from mpcsim.attacks.service.findings import Finding, succeed_if
from mpcsim.ids import OPERATOR
from node.models import StoredShare


class HostileWallet:
    """Wallet of a corrupt REST node: the honest one, with a record of every call's arguments."""

    def __init__(self, honest: Any) -> None:
        self._honest = honest
        self.seen: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._honest, name)

        def remembering(*arguments: Any, **keywords: Any) -> Any:
            self.seen |= {"caller": arguments[0] if arguments else None, **keywords}
            self.seen["arguments"] = arguments
            return method(*arguments, **keywords)

        return remembering if callable(method) else method


def _corrupt(env: AttackEnvironment) -> HostileWallet:
    state = env.service.app.state
    state.wallet = HostileWallet(state.wallet)
    found: HostileWallet = state.wallet
    return found


@entry("another message")
def another_message(env: AttackEnvironment) -> Finding:
    """Sign once more with the strings and the token of a call."""
    wallet, alice = _corrupt(env), env.user()
    key = alice.generate()
    alice.sign(key)
    stolen = env.impersonate(wallet.seen["caller"].token)
    _, stored = wallet.seen["arguments"]
    strings = stored.model_dump(include=StoredShare.model_fields.keys())
    signature = stolen.sign(strings, WANTED.hex(), OPERATOR)
    return check_forgery(
        CURVE, key["public_key"], signature, "strings and token of an ordinary call"
    )


@entry("another key")
def another_key(env: AttackEnvironment) -> Finding:
    """Answer with a key of the node's own."""
    mallory = env.user("mallory")
    other = mallory.generate()
    signature = mallory.sign(other, WANTED.hex())
    return check_forgery(
        CURVE, other["public_key"], signature, "the key that the node says is the user's"
    )


@entry("password in the call")
def password(env: AttackEnvironment) -> Finding:
    """Read the password in the call."""
    wallet, alice = _corrupt(env), env.user()
    alice.public_key(alice.generate())
    seen = wallet.seen["password"]
    return succeed_if(seen == PASSWORD, f"the password is {seen!r}", "the password is not seen")
