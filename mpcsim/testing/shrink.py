"""From a long failing walk to a short one: leave steps out, put ordinary arguments in their place.

Hypothesis could do this, too, but it knows nothing of steps and users and needs ten times as many
walks; against a service with real key generations that is the difference between seconds and
minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from mpcsim.testing.api_calls import USERS
from mpcsim.testing.invariants import BrokenInvariant
from mpcsim.testing.model import CURVES
from mpcsim.testing.story import Call
from mpcsim.testing.walk import HASH, PASSWORD

Try = Callable[[Sequence[Call]], BrokenInvariant | None]
"""Takes the steps from the beginning; the failure, if it is still the same one."""

MOST_TRIES: Final = 200

ORDINARY: Final[dict[str, tuple[Any, ...]]] = {
    "password": (PASSWORD,),
    "guess": (None,),
    "message": (HASH,),
    "share": (-1, 0),
    "key_id": (-1, 0),
    "signer": ("",),
    "damage": ("",),
    "where": ("middle",),
    "times": (2,),
    "nth": (1, 2, 3),
    "operation": ("sign",),
    "fault": ("missing",),
}
"""For each argument the values that need no explanation, the plainest one first."""


def shrink(
    calls: Sequence[Call], broken: BrokenInvariant, attempt: Try, tries: int = MOST_TRIES
) -> BrokenInvariant:
    """The failure of the shortest and plainest walk found that fails in the same way.

    Args:
        calls: the walk that fails with ``broken``.
        tries: most walks to take.
    """
    best = list(calls)
    changed = True
    while changed:
        changed = False
        for candidate in _candidates(best):
            if tries == 0:
                return broken
            tries -= 1
            found = attempt(candidate)
            if found is not None:
                best, broken, changed = list(candidate), found, True
                break
    return broken


def _candidates(calls: list[Call]) -> Iterator[list[Call]]:
    """Walks that are simpler than this one, the boldest first."""
    size = len(calls) // 2
    while size:
        for end in range(len(calls), 0, -size):
            shorter = calls[: max(0, end - size)] + calls[end:]
            if shorter:
                yield shorter
        size //= 2
    for name, wanted in (("user", USERS), ("owner", USERS), ("curve", CURVES)):
        yield from _renamed(calls, name, wanted)
    if calls[-1].method not in ("sign", "generate"):
        # Many a fault shows in an ordinary signature, too.
        for call in {c.arguments["curve"]: c for c in calls if "curve" in c.arguments}.values():
            at = {"user": call.arguments["user"], "curve": call.arguments["curve"]}
            yield [*calls[:-1], Call("sign", at)]
    for index, call in enumerate(calls):
        for name, ordinary in ORDINARY.items():
            if name not in call.arguments or call.arguments[name] in ordinary[:1]:
                continue
            for value in ordinary:
                if value == call.arguments[name]:
                    break
                plainer = replace(call, arguments={**call.arguments, name: value})
                yield [*calls[:index], plainer, *calls[index + 1 :]]


def _renamed(calls: list[Call], argument: str, wanted: Sequence[str]) -> Iterator[list[Call]]:
    """The same with one name exchanged for a plainer one everywhere."""
    names = ("user", "owner") if argument in ("user", "owner") else (argument,)
    used = list(
        dict.fromkeys(call.arguments[n] for call in calls for n in names if n in call.arguments)
    )
    for rank, name in enumerate(wanted):
        if rank < len(used) and used[rank] != name:
            other = used[rank]
            swap = {other: name, name: other}
            yield [
                replace(
                    call,
                    arguments={
                        k: swap.get(v, v) if k in names else v for k, v in call.arguments.items()
                    },
                )
                for call in calls
            ]
            if argument == "curve":
                everywhere = [
                    replace(call, arguments={**call.arguments, "curve": name})
                    if "curve" in call.arguments
                    else call
                    for call in calls
                ]
                yield everywhere
