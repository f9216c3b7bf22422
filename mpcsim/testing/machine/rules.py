"""Strategies of the state machine: arguments of steps, steps as data, and rules.

No strategy depends on what the service has answered so far: a step that makes no sense yet does
nothing (``ApiRun``). So the same choices always mean the same steps, and failures shrink well.

A rule is a handful of steps that belong together. Most requests take a millisecond or two and a key
generation ten to five hundred, so a rule that has a key tries everything of one kind with it. A
rule first takes the steps that make sense of it: a key is generated before anybody signs with it,
and recovered before anybody signs with its old share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from mpcsim.crypto.bip32 import HARDENED, path_text
from mpcsim.errors import UsageError
from mpcsim.service.precis import enforce_password
from mpcsim.testing.api_sequence import Call
from mpcsim.testing.backend.target import (
    ChoosesSigner,
    DerivesKeys,
    ExpiresTokens,
    LosesMessages,
    Outages,
    Presigns,
    Restarts,
    Target,
)
from mpcsim.testing.machine.api_steps import (
    BAD_PATHS,
    FAULTS,
    HASH,
    NONSENSE,
    OPERATIONS,
    PASSWORD,
    PLACES,
    ApiRun,
)
from mpcsim.testing.model import CURVES

Strategies = Mapping[str, SearchStrategy[Any]]

USERS: Final = ("alice", "bob")
LAST_MESSAGE: Final = 12
"""Number of the last message between parties that may be lost; key generation sends a few dozen."""


# ---------------------------------------------------------------------- arguments


def users() -> SearchStrategy[str]:
    """Names of users."""
    return st.sampled_from(USERS)


def curves(both: float = 0.5) -> SearchStrategy[str]:
    """Curves.

    Args:
        both: how often it is secp256k1, as far as one can say (shrinking prefers ed25519).
    """
    slots = 8
    quick, slow = CURVES
    return st.integers(1, slots).map(lambda i: quick if i <= slots * (1 - both) else slow)


def passwords() -> SearchStrategy[str]:
    """Passwords of 1 to 256 characters that RFC 8265 allows, unusual ones included.

    All but the one of one character can be told from anything else in a log.
    """
    # Hypothesis likes to draw texts that the code has in it, such as "application/json".
    anything = st.text(st.characters(exclude_categories=["C"]), max_size=40)
    marked = anything.filter(_is_allowed).map(lambda text: f"{text} 7c3f9a51d2")
    return st.one_of(
        st.sampled_from(
            (
                PASSWORD,
                "x",
                "pässwörd with \U0001f511 and e\u0301",
                "'\"\\ {}%s ${HOME} <b>&amp;</b>",
                "wide\u3000and no-break\u00a0spaces",
                "long " * 50 + "enough",
            )
        ),
        marked,
    )


def _is_allowed(text: str) -> bool:
    try:
        return not text or bool(enforce_password(text))
    except UsageError:
        return False


def api_messages(curve: str = "secp256k1") -> SearchStrategy[str]:
    """Messages to sign, in hex: 32 bytes; on ed25519 of any length from 1 on."""
    hashes = st.one_of(
        st.just(HASH),
        st.sampled_from(("00" * 32, "ff" * 32, "00" * 31 + "01")),
        st.binary(min_size=32, max_size=32).map(bytes.hex),
    )
    if curve != "ed25519":
        return hashes
    return st.one_of(hashes, st.binary(min_size=1, max_size=200).map(bytes.hex))


def guesses() -> SearchStrategy[str | None]:
    """Passwords to try: the right one (None), and others, some almost right."""
    return st.one_of(
        st.none(), st.sampled_from((PASSWORD + " ", PASSWORD.upper(), "x" * 256)), passwords()
    )


def child_paths(deepest: int) -> SearchStrategy[str]:
    """Paths to child keys, as text; that of the key itself among them."""
    numbers = st.integers(0, 3) | st.integers(0, HARDENED - 1)
    return st.lists(numbers, max_size=deepest).map(lambda path: path_text(tuple(path)))


def arguments(target: Target | None = None, both_curves: float = 0.5) -> dict[str, Strategies]:
    """Return a strategy for every argument of each step.

    Args:
        target: steps that need an ability it lacks are left out; None: steps that need none.
        both_curves: as for ``curves``.
    """
    able: object = target
    user, curve = users(), curves(both_curves)
    key: Strategies = {"user": user, "curve": curve}
    share, where = st.sampled_from((-1, 0, 1)), st.sampled_from(PLACES)
    signers = ("", *able.signers) if isinstance(able, ChoosesSigner) else ("",)
    faults = [f for f in FAULTS if f != "expired" or isinstance(able, ExpiresTokens)]
    found: dict[str, Strategies] = {
        "generate": {**key, "password": passwords()},
        "recover": {**key, "password": passwords()},
        "sign": {
            **key,
            "message": api_messages(),
            "share": share,
            "signer": st.sampled_from(signers),
        },
        "sign_nonsense": {**key, "what": st.sampled_from(NONSENSE)},
        "sign_with_damage": {**key, "what": st.sampled_from(("share", "store")), "where": where},
        "sign_with_mixture": {**key, "key_id": share, "share": st.sampled_from((0, 1))},
        "sign_under_unknown_key": key,
        "public_key": {**key, "share": share, "guess": guesses()},
        "validate_password": {**key, "share": share, "guess": guesses()},
        "validate_share": {
            **key,
            "share": share,
            "damage": st.sampled_from(("", "share", "store")),
            "where": where,
        },
        "keys": {"user": user},
        "wallet": {"user": user},
        "information": {"user": user},
        "key_token": {**key, "share": share},
        "health": {},
        "access_other_users_key": {**key, "owner": user, "operation": st.sampled_from(OPERATIONS)},
        "access_other_users_key_under_own_id": {**key, "owner": user},
        "unauthenticated": {**key, "fault": st.sampled_from(faults)},
        "sign_twice_at_once": {**key, "times": st.integers(2, 4)},
        "sign_while_recovering": {**key, "password": passwords()},
        "generate_twice_at_once": {**key, "password": passwords()},
        "recover_twice_at_once": {**key, "password": passwords()},
        "all_sign_at_once": {},
        "all_list_keys": {},
    }
    if isinstance(able, Presigns):
        found |= {
            "presign": {
                **key,
                "count": st.integers(1, min(3, able.most_presignatures)),
                "share": share,
            },
            "sign_presigned": {
                **key,
                "message": api_messages(),
                "share": share,
                "restored": st.booleans(),
            },
        }
    if isinstance(able, DerivesKeys):
        path = child_paths(able.deepest)
        found |= {
            "child_key": {**key, "path": path, "share": share},
            "sign_with_child": {**found["sign"], "path": path},
            "sign_with_bad_path": {**key, "path": st.sampled_from(BAD_PATHS)},
        }
    if isinstance(able, Outages):
        part = st.sampled_from(tuple(able.stoppable))
        found |= {"stop": {"part": part}, "start": {"part": part}}
    if isinstance(able, Restarts):
        found["restart"] = {"part": st.sampled_from(tuple(able.restartable))}
    if isinstance(able, LosesMessages):
        found |= {"lose": {"nth": st.integers(1, LAST_MESSAGE)}, "lose_nothing": {}}
    return found


# ---------------------------------------------------------------------- steps as data


def api_calls(target: Target | None = None, both_curves: float = 0.5) -> SearchStrategy[Call]:
    """Steps of a run, as data; arguments as for ``arguments``."""
    return st.one_of(
        *(
            st.fixed_dictionaries(dict(strategies)).map(partial(Call, name))
            for name, strategies in arguments(target, both_curves).items()
        )
    )


def api_call_sequences(
    target: Target | None = None, *, max_size: int = 12, both_curves: float = 0.25
) -> SearchStrategy[Sequence[Call]]:
    """Steps of a run, for ``ApiRun.play``; arguments as for ``arguments``.

    Their order knows no sense: half of the steps may have nothing to act on. ``WalletMachine``
    makes sure that there is.
    """
    return st.lists(api_calls(target, both_curves), min_size=1, max_size=max_size)


# ---------------------------------------------------------------------- rules


@dataclass(frozen=True)
class Rule:
    """Rule of the state machine: strategies of its arguments, and the action."""

    draw: Strategies
    act: Callable[..., None]
    """Gets the run, and what was drawn by name."""


def rules(target: Target, both_curves: float = 0.25) -> dict[str, Rule]:
    """Return all rules that a target allows, by name.

    Args:
        both_curves: share of the keys on secp256k1.
    """
    drawn = arguments(target, both_curves)
    key = {name: drawn["sign"][name] for name in ("user", "curve")}
    found = {
        "generate": Rule(drawn["generate"], ApiRun.generate),
        "recover": Rule(drawn["recover"], ApiRun.recover),
        "sign": Rule(drawn["sign"], sign),
        "sign_wrongly": Rule(key, sign_wrongly),
        "look_at_share": Rule(drawn["public_key"], look_at_share),
        "look_around": Rule(drawn["keys"], look_around),
        "access_other_users_key": Rule(key, access_other_users_key),
        "unauthenticated": Rule(key, unauthenticated),
        "at_once": Rule({**key, "what": st.sampled_from(sorted(CONCURRENT))}, at_once),
    }
    if "presign" in drawn:
        found["presign"] = Rule({**drawn["sign_presigned"], **drawn["presign"]}, presign)
    if "child_key" in drawn:
        found["use_child"] = Rule(drawn["sign_with_child"], use_child)
    if some := outages(target):
        found["outages"] = Rule({"what": st.sampled_from(some)}, disturb)
    return found


# ---------------------------------------------------------------------- the rules


def sign(api: ApiRun, user: str, curve: str, message: str, share: int, signer: str) -> None:
    _make_sense(api, user, curve, share)
    api.sign(user, curve, message, share, signer)


def presign(
    api: ApiRun, user: str, curve: str, *, count: int, message: str, share: int, restored: bool
) -> None:
    _make_sense(api, user, curve, share)
    api.presign(user, curve, count, share)
    if curve == "ed25519":  # there are none
        return
    for again in (False, restored):
        api.sign_presigned(user, curve, message=message, share=share, restored=again)


def use_child(
    api: ApiRun, user: str, curve: str, path: str, *, share: int, message: str, signer: str
) -> None:
    _make_sense(api, user, curve, share)
    api.child_key(user, curve, path, share)
    api.sign_with_child(user, curve, path, message=message, share=share, signer=signer)
    for bad in BAD_PATHS:
        api.sign_with_bad_path(user, curve, bad)


def sign_wrongly(api: ApiRun, user: str, curve: str) -> None:
    _make_sense(api, user, curve, 0)
    for what in NONSENSE:
        api.sign_nonsense(user, curve, what)
    for where in PLACES:
        api.sign_with_damage(user, curve, "share", where)
        api.sign_with_damage(user, curve, "store", where)
    api.sign_with_mixture(user, curve, -1, 0)
    api.sign_with_mixture(user, curve, 0, 1)
    api.sign_under_unknown_key(user, curve)


def look_at_share(api: ApiRun, user: str, curve: str, share: int, guess: str | None) -> None:
    _make_sense(api, user, curve, share)
    api.validate_password(user, curve, share, guess)
    api.public_key(user, curve, share, guess)
    api.key_token(user, curve, share)
    api.validate_share(user, curve, share)
    for where in PLACES:
        api.validate_share(user, curve, share, "share", where)
        api.validate_share(user, curve, share, "store", where)


def look_around(api: ApiRun, user: str) -> None:
    api.keys(user)
    api.wallet(user)
    api.information(user)
    api.health()


def access_other_users_key(api: ApiRun, user: str, curve: str) -> None:
    owner = next(name for name in USERS if name != user)
    _make_sense(api, owner, curve)
    for operation in OPERATIONS:
        api.access_other_users_key(user, owner, curve, operation)
    api.access_other_users_key_under_own_id(user, owner, curve)


def unauthenticated(api: ApiRun, user: str, curve: str) -> None:
    for fault in FAULTS:
        api.unauthenticated(user, curve, fault)


def at_once(api: ApiRun, user: str, curve: str, what: str) -> None:
    CONCURRENT[what](api, user, curve)


def disturb(api: ApiRun, what: Call) -> None:
    what.perform(api)


# ---------------------------------------------------------------------- what they are made of


def _sign_twice(api: ApiRun, user: str, curve: str) -> None:
    _make_sense(api, user, curve)
    api.sign_twice_at_once(user, curve, 3)


def _sign_and_recover(api: ApiRun, user: str, curve: str) -> None:
    _make_sense(api, user, curve)
    api.sign_while_recovering(user, curve)


def _recover_twice(api: ApiRun, user: str, curve: str) -> None:
    _make_sense(api, user, curve)
    api.recover_twice_at_once(user, curve)


def _all_sign(api: ApiRun, user: str, curve: str) -> None:
    for name in USERS:
        _make_sense(api, name, curve)
    api.all_sign_at_once()


CONCURRENT: Mapping[str, Callable[[ApiRun, str, str], None]] = {
    "all sign": _all_sign,
    "generate twice": lambda api, user, curve: api.generate_twice_at_once(user, curve),
    "recover twice": _recover_twice,
    "sign and recover": _sign_and_recover,
    "sign twice": _sign_twice,
}


def outages(target: object) -> list[Call]:
    """Steps that disturb the service or put it in order, as far as the target can."""
    found: list[Call] = []
    if isinstance(target, Restarts):
        found += [Call("restart", {"part": part}) for part in target.restartable]
    if isinstance(target, Outages):
        parts = target.stoppable
        found += [Call(name, {"part": part}) for part in parts for name in ("stop", "start")]
    if isinstance(target, LosesMessages):
        found += [Call("lose", {"nth": nth}) for nth in range(1, LAST_MESSAGE, 2)]
        found += [Call("lose_nothing")] * 3
    return found


def _make_sense(api: ApiRun, user: str, curve: str, share: int = -1) -> None:
    """Generate the key, and recover it once if the step is about its first share."""
    if not api.has_key(user, curve):
        api.generate(user, curve)
    if share == 0 and not api.has_old_share(user, curve):
        api.recover(user, curve)
