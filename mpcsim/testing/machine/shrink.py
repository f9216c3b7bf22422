"""Shrinking of a failing run: leave steps out, take composite ones apart, replace unusual arguments
by ordinary ones.

Hypothesis could do this, too, but it knows nothing of steps and users and needs ten times as many
runs; against a service with real key generations that is the difference between seconds and
minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from mpcsim.testing.api_sequence import BrokenInvariant, Call
from mpcsim.testing.machine.api_steps import HASH, PASSWORD
from mpcsim.testing.machine.rules import USERS
from mpcsim.testing.model import CURVES

Try = Callable[[Sequence[Call]], BrokenInvariant | None]
"""Function that takes the steps from the beginning, and returns the failure if it is still the
same.

If the failure has calls, the search goes on from these: skipped steps, and those after the one that
failed, are not among them."""

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
"""Ordinary values of each argument, the plainest one first."""


def shrink(
    calls: Sequence[Call], broken: BrokenInvariant, attempt: Try, tries: int = MOST_TRIES
) -> BrokenInvariant:
    """Return the failure of the shortest and plainest run found that fails in the same way.

    Args:
        calls: the run that fails with ``broken``; what was skipped may be in it.
        tries: most runs to take.
    """
    best, parts = _failing_calls(broken, calls)
    seen = {_key(best)}
    changed = True
    while changed:
        changed = False
        for candidate in _candidates(best, parts):
            if _key(candidate) in seen:
                continue
            if tries == 0:
                return broken
            tries -= 1
            seen.add(_key(candidate))
            found = attempt(candidate)
            if found is None:
                continue
            shorter, its_parts = _failing_calls(found, candidate)
            # The end of a run may put back what was left out, or more; then nothing is won.
            known = shorter != candidate and _key(shorter) in seen
            if known or _weight(shorter, its_parts) > _weight(best, parts):
                continue
            seen.add(_key(shorter))
            best, parts, broken, changed = shorter, its_parts, found, True
            break
    return broken


def _failing_calls(
    broken: BrokenInvariant, calls: Sequence[Call]
) -> tuple[list[Call], Sequence[Sequence[Call]]]:
    """Return the calls up to the failure, and the parts of each; all calls if it has none."""
    if broken.failure is None or not broken.failure.calls:
        return list(calls), ()
    return broken.failure.calls, broken.failure.parts


def _weight(calls: Sequence[Call], parts: Sequence[Sequence[Call]]) -> int:
    """Return the weight of a run for a reader: a composite step weighs a little more than its
    parts."""
    composite = [made_of for made_of in parts if made_of]
    return 2 * (len(calls) - len(composite)) + sum(2 * len(made_of) + 1 for made_of in composite)


def _key(calls: Sequence[Call]) -> str:
    return "; ".join(f"{call.method} {sorted(call.arguments.items())}" for call in calls)


def _candidates(calls: list[Call], parts: Sequence[Sequence[Call]]) -> Iterator[list[Call]]:
    """Runs that are simpler than this one, the boldest first."""
    size = len(calls) // 2
    while size:
        for end in range(len(calls), 0, -size):
            shorter = calls[: max(0, end - size)] + calls[end:]
            if shorter:
                yield shorter
        size //= 2
    for index, made_of in enumerate(parts):
        # The one that was under way when it failed is the last.
        for replacement in [[part] for part in reversed(made_of)] + [list(made_of)]:
            if replacement:
                yield [*calls[:index], *replacement, *calls[index + 1 :]]
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
    """Yield the run with one name exchanged for a plainer one everywhere."""
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
