"""Steps of a walk as Hypothesis strategies, one function a step.

None of them depends on what the service has answered so far: a step that makes no sense yet does
nothing (``Walk``). So the same choices always mean the same steps, and failures shrink well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from mpcsim.testing.model import CURVES
from mpcsim.testing.story import Call
from mpcsim.testing.target import (
    ChoosesSigner,
    ExpiresTokens,
    LosesMessages,
    Outages,
    Restarts,
    Target,
)
from mpcsim.testing.walk import HASH, MESSAGES, OPERATIONS, PASSWORD

USERS: Final = ("alice", "bob")
LAST_MESSAGE: Final = 12
"""Of the messages between parties that may be lost; key generation sends a few dozen."""


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
    """Passwords of 1 to 256 characters, unusual ones included.

    All but the one of one character can be told from anything else in a log.
    """
    # Hypothesis likes to draw texts that the code has in it, such as "application/json".
    anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    marked = anything.map(lambda text: f"{text} 7c3f9a51d2")
    return st.one_of(
        st.sampled_from(
            (
                PASSWORD,
                "x",
                "pässwörd with \U0001f511 and e\u0301",
                "'\"\\ {}%s ${HOME} <b>&amp;</b>",
                "tab\tline\nbreak\0zero",
                "long " * 50 + "enough",
            )
        ),
        marked,
    )


def api_messages(curve: str = "secp256k1") -> SearchStrategy[str]:
    """What to sign, in hex: 32 bytes; on ed25519 of any length from 1 on."""
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


def arguments(target: Target | None = None, both_curves: float = 0.5) -> dict[str, Any]:
    """For each step, a strategy for every argument.

    Args:
        target: steps that need an ability it lacks are left out; None: steps that need none.
        both_curves: as for ``curves``.
    """
    able: object = target
    user, curve = users(), curves(both_curves)
    key: dict[str, SearchStrategy[Any]] = {"user": user, "curve": curve}
    share = st.sampled_from((-1, 0, 1))
    where = st.sampled_from(("middle", "start", "end"))
    signers = ("", *able.signers) if isinstance(able, ChoosesSigner) else ("",)
    faults = ["missing", "garbage", "key token"]
    if isinstance(able, ExpiresTokens):
        faults.append("expired")
    nonsense = (*MESSAGES, "a short hash", "another curve", "an unknown curve")
    found: dict[str, Mapping[str, SearchStrategy[Any]]] = {
        "generate": {**key, "password": passwords()},
        "recover": {**key, "password": passwords()},
        "sign": {
            **key,
            "message": api_messages(),
            "share": share,
            "signer": st.sampled_from(signers),
        },
        "sign_nonsense": {**key, "what": st.sampled_from(nonsense)},
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
        "trespass": {**key, "owner": user, "operation": st.sampled_from(OPERATIONS)},
        "trespass_under_own_key": {**key, "owner": user},
        "unauthenticated": {**key, "fault": st.sampled_from(faults)},
        "sign_twice_at_once": {**key, "times": st.integers(2, 4)},
        "sign_while_recovering": {**key, "password": passwords()},
        "generate_twice_at_once": {**key, "password": passwords()},
        "recover_twice_at_once": {**key, "password": passwords()},
        "all_sign_at_once": {},
        "all_list_keys": {},
    }
    if isinstance(able, Outages):
        part = st.sampled_from(tuple(able.stoppable))
        found |= {"stop": {"part": part}, "start": {"part": part}}
    if isinstance(able, Restarts):
        found["restart"] = {"part": st.sampled_from(tuple(able.restartable))}
    if isinstance(able, LosesMessages):
        found |= {"lose": {"nth": st.integers(1, LAST_MESSAGE)}, "lose_nothing": {}}
    return found


def api_calls(target: Target | None = None, both_curves: float = 0.5) -> SearchStrategy[Call]:
    """One step of a walk, as data; arguments as for ``arguments``."""
    return st.one_of(
        *(
            st.fixed_dictionaries(dict(strategies)).map(partial(Call, name))
            for name, strategies in arguments(target, both_curves).items()
        )
    )


def api_call_sequences(
    target: Target | None = None, *, max_size: int = 12, both_curves: float = 0.25
) -> SearchStrategy[Sequence[Call]]:
    """Steps of a walk, for ``Walk.play``; arguments as for ``arguments``.

    Their order knows no sense: half of the steps may have nothing to act on. ``WalletMachine``
    makes sure that there is.
    """
    return st.lists(api_calls(target, both_curves), min_size=1, max_size=max_size)
