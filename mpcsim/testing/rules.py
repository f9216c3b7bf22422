"""What the state machine does: each rule is a handful of steps of a walk that belong together.

Most requests take a millisecond or two and a key generation ten to five hundred, so whoever has a
key tries everything of one kind with it. A rule first takes the steps that make sense of it: a key
is generated before anybody signs with it, and recovered before anybody signs with its old share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from mpcsim.testing.api_calls import (
    LAST_MESSAGE,
    USERS,
    api_messages,
    curves,
    guesses,
    passwords,
    users,
)
from mpcsim.testing.target import ChoosesSigner, LosesMessages, Outages, Restarts, Target
from mpcsim.testing.walk import MESSAGES, OPERATIONS, Damage, TokenFault, Walk

Strategies = Mapping[str, SearchStrategy[Any]]

NONSENSE = (*MESSAGES, "a short hash", "another curve", "an unknown curve")
PLACES: tuple[Damage, ...] = ("middle", "start", "end")
FAULTS: tuple[TokenFault, ...] = ("missing", "garbage", "expired", "key token")


@dataclass(frozen=True)
class Rule:
    """What to draw, and what to do with it."""

    draw: Strategies
    act: Callable[..., None]
    """Gets the walk, and what was drawn by name."""


def rules(target: Target, both_curves: float = 0.25) -> dict[str, Rule]:
    """All rules that a target allows, by name.

    Args:
        both_curves: share of the keys on secp256k1.
    """
    able: object = target
    key: Strategies = {"user": users(), "curve": curves(both_curves)}
    share = st.sampled_from((-1, 0, 1))
    signers = ("", *able.signers) if isinstance(able, ChoosesSigner) else ("",)
    found = {
        "generate": Rule({**key, "password": passwords()}, Walk.generate),
        "recover": Rule({**key, "password": passwords()}, Walk.recover),
        "sign": Rule(
            {
                **key,
                "message": api_messages(),
                "share": share,
                "signer": st.sampled_from(signers),
            },
            sign,
        ),
        "sign_wrongly": Rule(key, sign_wrongly),
        "look_at_share": Rule({**key, "share": share, "guess": guesses()}, look_at_share),
        "look_around": Rule({"user": users()}, look_around),
        "trespass": Rule(key, trespass),
        "unauthenticated": Rule(key, unauthenticated),
        "at_once": Rule({**key, "what": st.sampled_from(sorted(CROWDS))}, at_once),
    }
    if some := troubles(able):
        found["trouble"] = Rule({"what": st.sampled_from(some)}, trouble)
    return found


# ---------------------------------------------------------------------- the rules


def sign(walk: Walk, user: str, curve: str, message: str, share: int, signer: str) -> None:
    _make_sense(walk, user, curve, share)
    walk.sign(user, curve, message, share, signer)


def sign_wrongly(walk: Walk, user: str, curve: str) -> None:
    _make_sense(walk, user, curve, 0)
    for what in NONSENSE:
        walk.sign_nonsense(user, curve, what)
    for where in PLACES:
        walk.sign_with_damage(user, curve, "share", where)
        walk.sign_with_damage(user, curve, "store", where)
    walk.sign_with_mixture(user, curve, -1, 0)
    walk.sign_with_mixture(user, curve, 0, 1)
    walk.sign_under_unknown_key(user, curve)


def look_at_share(walk: Walk, user: str, curve: str, share: int, guess: str | None) -> None:
    _make_sense(walk, user, curve, share)
    walk.validate_password(user, curve, share, guess)
    walk.public_key(user, curve, share, guess)
    walk.key_token(user, curve, share)
    walk.validate_share(user, curve, share)
    for where in PLACES:
        walk.validate_share(user, curve, share, "share", where)
        walk.validate_share(user, curve, share, "store", where)


def look_around(walk: Walk, user: str) -> None:
    walk.keys(user)
    walk.wallet(user)
    walk.information(user)
    walk.health()


def trespass(walk: Walk, user: str, curve: str) -> None:
    owner = next(name for name in USERS if name != user)
    _make_sense(walk, owner, curve)
    for operation in OPERATIONS:
        walk.trespass(user, owner, curve, operation)
    walk.trespass_under_own_key(user, owner, curve)


def unauthenticated(walk: Walk, user: str, curve: str) -> None:
    for fault in FAULTS:
        walk.unauthenticated(user, curve, fault)


def at_once(walk: Walk, user: str, curve: str, what: str) -> None:
    CROWDS[what](walk, user, curve)


def trouble(walk: Walk, what: tuple[str, Any]) -> None:
    name, argument = what
    if argument is None:
        getattr(walk, name)()
    else:
        getattr(walk, name)(argument)


# ---------------------------------------------------------------------- what they are made of


def _sign_twice(walk: Walk, user: str, curve: str) -> None:
    _make_sense(walk, user, curve)
    walk.sign_twice_at_once(user, curve, 3)


def _sign_and_recover(walk: Walk, user: str, curve: str) -> None:
    _make_sense(walk, user, curve)
    walk.sign_while_recovering(user, curve)


def _recover_twice(walk: Walk, user: str, curve: str) -> None:
    _make_sense(walk, user, curve)
    walk.recover_twice_at_once(user, curve)


def _all_sign(walk: Walk, user: str, curve: str) -> None:
    for name in USERS:
        _make_sense(walk, name, curve)
    walk.all_sign_at_once()


CROWDS: Mapping[str, Callable[[Walk, str, str], None]] = {
    "all sign": _all_sign,
    "generate twice": lambda walk, user, curve: walk.generate_twice_at_once(user, curve),
    "recover twice": _recover_twice,
    "sign and recover": _sign_and_recover,
    "sign twice": _sign_twice,
}


def troubles(target: object) -> list[tuple[str, Any]]:
    """Steps that disturb the service or put it in order, as far as the target can."""
    found: list[tuple[str, Any]] = []
    if isinstance(target, Restarts):
        found += [("restart", part) for part in target.restartable]
    if isinstance(target, Outages):
        found += [(name, part) for part in target.stoppable for name in ("stop", "start")]
    if isinstance(target, LosesMessages):
        found += [("lose", nth) for nth in range(1, LAST_MESSAGE, 2)]
        found += [("lose_nothing", None)] * 3
    return found


def _make_sense(walk: Walk, user: str, curve: str, share: int = -1) -> None:
    """Generate the key, and recover it once if the step is about its first share."""
    if not walk.has_key(user, curve):
        walk.generate(user, curve)
    if share == 0 and not walk.has_old_share(user, curve):
        walk.recover(user, curve)
