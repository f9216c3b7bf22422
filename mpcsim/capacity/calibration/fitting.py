"""What messages cost by themselves, and what the turns of event loops cost, from what was measured.

A call's processor time at a part is ``own + turn_ms * turns + cold_ms * chills``. ``turns`` is how
often the part's event loop turns for a call: at a low load as often as there is something to
handle, and less often the more waits for it when a turn begins. ``chills`` is how many of these
come after a pause, each counted by how long it was. Both are taken from the twin at each load
(``twin.predict``). They depend on what is looked for: so both sides are worked out in turn, a few
times. ``own`` is of the operation and the part, ``turn_ms`` and ``cold_ms`` are the part's alone:
by least squares, none below 0, relative to what was measured. How long a pause has to be, the same
for all parts, is the best of some. How cores are handed out comes after that (``scheduling``), and
what messages and turns cost is solved once more with it.

What the meters found in the handling of each message is less than ``own``: what is left, which
event loops do outside of tasks, is shared out evenly among the messages that a part handles, and
the times that threads hand something back, at the first turn of each. (It may be more: turns and
pauses slow down the handling itself. Then all of it is taken to be less.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.calibration import twin
from mpcsim.capacity.calibration.scheduling import scheduling
from mpcsim.capacity.calibration.twin import Load, Pace, handled
from mpcsim.capacity.model.costs import LATER, POINTS, Costs, Scheduling, Stage
from mpcsim.capacity.model.operations import Operation
from mpcsim.capacity.model.speed import Speed

PASSES: Final = 3
COOLING_MS: Final = (20.0, 80.0, 320.0)
"""Among which the best is looked for."""
HOP_MS: Final = 0.05
"""By which it is found out how many messages there are one after the other."""
MOST_HOP_MS: Final = 0.2
"""No kernel takes longer to wake a process; other programs that want the cores, too, do."""
WAKING_MS: Final = 0.05
"""Until a core that sleeps runs the process that a message is for: about."""
_LOOP: Final = ("loop", LATER)
GUESS: Final = 0.05
"""Part of a call's processor time that turns are taken for at first, and pauses."""
RELUCTANCE: Final = (0.1, 0.02)
"""How much worse, relative to what was measured, a fit may be without turns that cost as much as
all the rest, and without what they cost more after pauses: it settles what the loads do not."""


@dataclass(frozen=True)
class Observed:
    """What was measured of an operation."""

    operation: Operation
    cpu_ms: Mapping[Load, Mapping[str, float]]
    """Processor time for each call, by load and part, callers included."""
    stages: Mapping[str, tuple[Stage, ...]]
    """Of each message, as the meters have it."""
    turns: bool = True
    """Whether what turns cost is fitted to it."""
    median_ms: Mapping[Load, float] = field(default_factory=dict)
    """Latencies at low rates."""
    per_s: Mapping[Load, float] = field(default_factory=dict)
    """Calls a second with so many at a time."""


@dataclass(frozen=True)
class Fit:
    """What fits best."""

    own_ms: Mapping[tuple[str, str], float]
    """By operation and part."""
    turn_ms: Mapping[str, float]
    """By part."""
    cold_ms: Mapping[str, float]
    cooling_ms: float
    hop_ms: float = 0.0
    """Between two processes of the machine."""
    scheduling: Scheduling = field(default_factory=Scheduling)
    said_ms: Mapping[tuple[str, Load], float] = field(default_factory=dict)
    """What the twin says of a call's processor time, all parts together, by operation and load."""
    misfit: float = 0.0
    """Of a whole call's processor time, relative: root of the mean square over all loads."""


Paces = Mapping[tuple[str, Load], Mapping[str, Pace]]


def fit(
    observed: Sequence[Observed], cores: int, *, calls: int = twin.CALLS, passes: int = PASSES
) -> Fit:
    """What explains the measurements best.

    Args:
        cores: of the machine that everything ran on.
        calls: of each run of the twin.
    """
    tried = []
    for cooling_ms in COOLING_MS:
        found = _guess(observed, cooling_ms)
        for _ in range(passes):
            found = solved(observed, _paces(observed, found, cores, calls), cooling_ms)
        tried.append(found)
    found = _scheduled(observed, min(tried, key=lambda each: each.misfit), cores, calls)
    paces = _paces(observed, found, cores, calls)
    found = replace(solved(observed, paces, found.cooling_ms), scheduling=found.scheduling)
    return replace(found, hop_ms=_hop_ms(observed, found, cores, calls))


def _scheduled(observed: Sequence[Observed], found: Fit, cores: int, calls: int) -> Fit:
    """With how cores are handed out, from the operation with most messages."""
    best = max(observed, key=lambda each: len(handled(each.operation)) if each.per_s else 0)
    if not best.per_s:
        return found
    costs = replace(_costs(observed, found), hop_ms=WAKING_MS)
    return replace(found, scheduling=scheduling(best.operation, costs, best.per_s, cores, calls))


def _hop_ms(observed: Sequence[Observed], found: Fit, cores: int, calls: int) -> float:
    """What is missing in the twin's median latencies at low rates, for each message of the longest
    way: until a process that a message is for has woken up."""
    missing = []
    costs = _costs(observed, found)
    for each in observed:
        for load, median_ms in each.median_ms.items():
            here, further = (
                float(
                    np.median(
                        twin.predict(
                            each.operation, costs, load, cores, hop_ms=ms, calls=calls
                        ).latencies_ms
                    )
                )
                for ms in (0.0, HOP_MS)
            )
            messages = max(1.0, (further - here) / HOP_MS)
            missing.append((median_ms - here) / messages)
    found_ms = float(np.median(missing)) if missing else 0.0
    return min(MOST_HOP_MS, max(0.0, found_ms))


def _paces(observed: Sequence[Observed], found: Fit, cores: int, calls: int) -> Paces:
    costs = _costs(observed, found)
    return {
        (each.operation.name, load): twin.predict(
            each.operation, costs, load, cores, calls=calls
        ).paces
        if each.turns
        else entries(each)
        for each in observed
        for load in each.cpu_ms
    }


def _costs(observed: Sequence[Observed], found: Fit) -> Costs:
    made = {each.operation.name: stages(each, found) for each in observed}
    return Costs(
        made,
        found.turn_ms,
        {},
        Speed.NONE,
        {},
        found.cold_ms,
        found.cooling_ms,
        scheduling=found.scheduling,
    )


def solved(observed: Sequence[Observed], paces: Paces, cooling_ms: float) -> Fit:
    """The same for event loops whose pace is known."""
    own: dict[tuple[str, str], float] = {}
    turn: dict[str, float] = {}
    cold: dict[str, float] = {}
    parts = dict.fromkeys(p for each in observed for cpu in each.cpu_ms.values() for p in cpu)
    fitted = [each for each in observed if each.turns]
    for part in parts:
        turn[part] = cold[part] = 0.0
        if fitted:
            turn[part], cold[part] = _turns(part, fitted, paces)
        for each in observed:
            left = [
                cpu[part] - _of_turns(paces[each.operation.name, load][part], turn, cold, part)
                for load, cpu in each.cpu_ms.items()
            ]
            weights = [1 / cpu[part] ** 2 for cpu in each.cpu_ms.values()]
            own[each.operation.name, part] = max(0.0, float(np.average(left, weights=weights)))
    off = []
    said: dict[tuple[str, Load], float] = {}
    for each in observed:
        name = each.operation.name
        for load, cpu in each.cpu_ms.items():
            said[name, load] = sum(
                own[name, part] + _of_turns(paces[name, load][part], turn, cold, part)
                for part in cpu
            )
            off.append(said[name, load] / sum(cpu.values()) - 1)
    misfit = float(np.sqrt(np.mean(np.square(off))))
    return Fit(own, turn, cold, cooling_ms, said_ms=said, misfit=misfit)


def _of_turns(pace: Pace, turn: Mapping[str, float], cold: Mapping[str, float], part: str) -> float:
    return turn[part] * pace.turns + cold[part] * pace.chills


def _turns(part: str, fitted: Sequence[Observed], paces: Paces) -> tuple[float, float]:
    """What turns of a part cost, and what they cost more after a pause."""
    rows, wanted = [], []
    for n, each in enumerate(fitted):
        for load, cpu in each.cpu_ms.items():
            pace = paces[each.operation.name, load][part]
            row = [0.0] * len(fitted) + [pace.turns, pace.chills]
            row[n] = 1.0
            rows.append([value / cpu[part] for value in row])
            wanted.append(1.0)
    for k in (0, 1):
        most = max(max(row[len(fitted) + k] for row in rows), 1e-9)
        row = [0.0] * (len(fitted) + 2)
        row[len(fitted) + k] = RELUCTANCE[k] * most
        rows.append(row)
        wanted.append(0.0)
    *_, turn, cold = map(float, _least_squares(np.array(rows), np.array(wanted), len(fitted)))
    return turn, cold


def _least_squares(
    rows: NDArray[np.float64], wanted: NDArray[np.float64], free: int
) -> NDArray[np.float64]:
    """The solution of which nothing after the first ``free`` numbers is below 0: the best of those
    in which some of these are 0."""
    count = rows.shape[1]
    best, least = np.zeros(count), np.inf
    for out in range(count - free + 1):
        for dropped in combinations(range(free, count), out):
            kept = [k for k in range(count) if k not in dropped]
            found = np.zeros(count)
            found[kept] = np.linalg.lstsq(rows[:, kept], wanted, rcond=None)[0]
            off = float(np.square(rows @ found - wanted).sum())
            if off < least and (found[free:] >= 0).all():
                best, least = found, off
    return best


def stages(observed: Observed, found: Fit) -> dict[str, tuple[Stage, ...]]:
    """What handling each message costs, so that each part's processor time is its ``own``."""
    operation = observed.operation
    parts = handled(operation)
    metered = {message: _told_apart(observed.stages.get(message, ())) for message in parts}
    spent, in_loop, comes = (dict.fromkeys(parts.values(), 0.0) for _ in range(3))
    for message, part in parts.items():
        for stage, first in metered[message]:
            if not stage.kind.endswith("disk"):
                spent[part] += stage.mean_ms
            if stage.kind in _LOOP:
                in_loop[part] += stage.mean_ms
            comes[part] += first

    def whole(stage: Stage, first: bool, part: str) -> Stage:
        more = found.own_ms[operation.name, part] - spent[part]
        if stage.kind not in _LOOP:
            return stage
        if more < 0 < in_loop[part]:
            # What the meters found is more only by what turns cost, which is in all of it.
            return stage.plus(more * stage.mean_ms / in_loop[part])
        return stage.plus(more / comes[part]) if first else stage

    return {
        message: tuple(whole(stage, first, part) for stage, first in metered[message])
        for message, part in parts.items()
    }


def _told_apart(metered: tuple[Stage, ...]) -> list[tuple[Stage, bool]]:
    """All stages, and whether something comes to the event loop with each: from outside, or from a
    thread."""
    stages = _in_loop(metered)
    before = [None, *(stage.kind for stage in stages)]
    return [
        (stage, stage.kind == "loop" and kind != "loop")
        for stage, kind in zip(stages, before, strict=False)
    ]


def _in_loop(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Whatever comes, an event loop takes it in."""
    return stages if any(stage.kind == "loop" for stage in stages) else (_nothing(), *stages)


def _nothing() -> Stage:
    return Stage("loop", (0.0,) * POINTS)


def entries(observed: Observed) -> dict[str, Pace]:
    """How the event loops go if all is handled by itself, one thing right after the other."""
    found: dict[str, float] = {}
    for message, part in handled(observed.operation).items():
        each = _in_loop(observed.stages.get(message, ()))
        found[part] = found.get(part, 0.0) + sum(stage.kind in _LOOP for stage in each)
    return {part: Pace(turns, 0.0) for part, turns in found.items()}


def _guess(observed: Sequence[Observed], cooling_ms: float) -> Fit:
    own: dict[tuple[str, str], float] = {}
    turn: dict[str, float] = {}
    for each in observed:
        cpu = list(each.cpu_ms.values())
        for part, pace in entries(each).items():
            least = min(one[part] for one in cpu)
            own[each.operation.name, part] = least
            ms = GUESS * least / pace.turns
            turn[part] = min(ms, turn.get(part, ms))
    return Fit(own, turn, dict(turn), cooling_ms)
