"""Fit of service demands and event-loop costs to measurements.

A call's CPU time at a part is ``own + turn_ms * iterations + cold_ms * coldness``. ``iterations``
is the number of event-loop iterations for a call: at a low load one for each job, and fewer the
more jobs wait when an iteration begins. ``coldness`` is the number of iterations after a pause,
each weighted by its length. Both come from the model at each load (``prediction.predict``); as they
depend on the unknowns, both are solved for in turn, a few times. ``own`` is of the operation and
the part, ``turn_ms`` and ``cold_ms`` of the part alone: non-negative least squares, relative to the
measurements (``solve_costs``). The time constant of cooling, common to all parts, is the best of a
grid. The scheduler's probabilities come next (``scheduling``), then costs are solved for once more.

The meters' time in the handling of each message is less than ``own``: the rest, which event loops
spend outside of tasks, is divided equally among the messages that a part handles and the returns of
threads, at the first iteration of each (``stages``). (It may be more: iterations and pauses slow
the handling itself. Then all of it is scaled down.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.calibration import prediction
from mpcsim.capacity.calibration.prediction import Load, LoopActivity, handling_parts
from mpcsim.capacity.calibration.scheduling import scheduling
from mpcsim.capacity.model.costs import LATER, POINTS, Costs, Scheduling, Stage
from mpcsim.capacity.model.operations import Operation
from mpcsim.capacity.model.speed import Speed

PASSES: Final = 3
COOLING_MS: Final = (20.0, 80.0, 320.0)
"""Grid of time constants of cooling."""
HOP_MS: Final = 0.05
"""Latency by which the number of messages on the critical path is determined."""
MOST_HOP_MS: Final = 0.2
"""Upper bound of the latency between processes: no kernel takes longer to wake a process, but other
programs that compete for cores do."""
WAKING_MS: Final = 0.05
"""Approximate time until a sleeping core runs the process that a message is for."""
_LOOP: Final = ("loop", LATER)
GUESS: Final = 0.05
"""Initial share of a call's CPU time for iterations, and for cold ones."""
RELUCTANCE: Final = (0.1, 0.02)
"""Regularisation: relative error that is accepted to avoid iteration costs as large as all the
rest, and costs of cold ones. It decides what the loads leave open."""


@dataclass(frozen=True)
class Observations:
    """Measurements of an operation."""

    operation: Operation
    cpu_ms: Mapping[Load, Mapping[str, float]]
    """CPU time for each call, by load and part, callers included."""
    stages: Mapping[str, tuple[Stage, ...]]
    """Stages of each message, by the meters."""
    fits_iterations: bool = True
    """Whether iteration costs are fitted to it."""
    median_ms: Mapping[Load, float] = field(default_factory=dict)
    """Median latencies at low rates."""
    per_s: Mapping[Load, float] = field(default_factory=dict)
    """Throughput of closed workloads."""


@dataclass(frozen=True)
class Fit:
    """Best fit."""

    own_ms: Mapping[tuple[str, str], float]
    """Service demand by operation and part."""
    turn_ms: Mapping[str, float]
    """Cost of an iteration by part."""
    cold_ms: Mapping[str, float]
    cooling_ms: float
    hop_ms: float = 0.0
    """Latency between two processes of the machine."""
    scheduling: Scheduling = field(default_factory=Scheduling)
    predicted_ms: Mapping[tuple[str, Load], float] = field(default_factory=dict)
    """Predicted CPU time of a call, all parts together, by operation and load."""
    rms_error: float = 0.0
    """Relative error of a call's CPU time: root mean square over all loads."""


LoopActivities = Mapping[tuple[str, Load], Mapping[str, LoopActivity]]


def fit(
    observed: Sequence[Observations],
    cores: int,
    *,
    calls: int = prediction.CALLS,
    passes: int = PASSES,
) -> Fit:
    """Return the best fit to the measurements.

    Args:
        cores: of the machine that everything ran on.
        calls: of each run of the model.
    """
    tried = []
    for cooling_ms in COOLING_MS:
        found = _initial_fit(observed, cooling_ms)
        for _ in range(passes):
            found = solve_costs(observed, _activities(observed, found, cores, calls), cooling_ms)
        tried.append(found)
    found = _with_scheduling(observed, min(tried, key=lambda each: each.rms_error), cores, calls)
    activities = _activities(observed, found, cores, calls)
    found = replace(
        solve_costs(observed, activities, found.cooling_ms), scheduling=found.scheduling
    )
    return replace(found, hop_ms=_hop_ms(observed, found, cores, calls))


def _with_scheduling(observed: Sequence[Observations], found: Fit, cores: int, calls: int) -> Fit:
    """Return the fit with the scheduler's probabilities, from the operation with most messages."""
    best = max(observed, key=lambda each: len(handling_parts(each.operation)) if each.per_s else 0)
    if not best.per_s:
        return found
    costs = replace(_costs(observed, found), hop_ms=WAKING_MS)
    return replace(found, scheduling=scheduling(best.operation, costs, best.per_s, cores, calls))


def _hop_ms(observed: Sequence[Observations], found: Fit, cores: int, calls: int) -> float:
    """Return what the model's median latencies lack at low rates, for each message on the critical
    path: the time until a process that a message is for has woken up."""
    missing = []
    costs = _costs(observed, found)
    for each in observed:
        for load, median_ms in each.median_ms.items():
            here, further = (
                float(
                    np.median(
                        prediction.predict(
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


def _activities(
    observed: Sequence[Observations], found: Fit, cores: int, calls: int
) -> LoopActivities:
    costs = _costs(observed, found)
    return {
        (each.operation.name, load): prediction.predict(
            each.operation, costs, load, cores, calls=calls
        ).activities
        if each.fits_iterations
        else uncontended_activity(each)
        for each in observed
        for load in each.cpu_ms
    }


def _costs(observed: Sequence[Observations], found: Fit) -> Costs:
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


def solve_costs(
    observed: Sequence[Observations], activities: LoopActivities, cooling_ms: float
) -> Fit:
    """Return the fit for given activities of the event loops."""
    own: dict[tuple[str, str], float] = {}
    turn: dict[str, float] = {}
    cold: dict[str, float] = {}
    parts = dict.fromkeys(p for each in observed for cpu in each.cpu_ms.values() for p in cpu)
    fitted = [each for each in observed if each.fits_iterations]
    for part in parts:
        turn[part] = cold[part] = 0.0
        if fitted:
            turn[part], cold[part] = _fit_iterations(part, fitted, activities)
        for each in observed:
            left = [
                cpu[part]
                - _iteration_cost(activities[each.operation.name, load][part], turn, cold, part)
                for load, cpu in each.cpu_ms.items()
            ]
            weights = [1 / cpu[part] ** 2 for cpu in each.cpu_ms.values()]
            own[each.operation.name, part] = max(0.0, float(np.average(left, weights=weights)))
    errors = []
    predicted: dict[tuple[str, Load], float] = {}
    for each in observed:
        name = each.operation.name
        for load, cpu in each.cpu_ms.items():
            predicted[name, load] = sum(
                own[name, part] + _iteration_cost(activities[name, load][part], turn, cold, part)
                for part in cpu
            )
            errors.append(predicted[name, load] / sum(cpu.values()) - 1)
    rms_error = float(np.sqrt(np.mean(np.square(errors))))
    return Fit(own, turn, cold, cooling_ms, predicted_ms=predicted, rms_error=rms_error)


def _iteration_cost(
    activity: LoopActivity, turn: Mapping[str, float], cold: Mapping[str, float], part: str
) -> float:
    """Return the cost of a part's iterations for a call."""
    return turn[part] * activity.iterations + cold[part] * activity.coldness


def _fit_iterations(
    part: str, fitted: Sequence[Observations], activities: LoopActivities
) -> tuple[float, float]:
    """Return the cost of a part's iterations, and of cold ones."""
    rows, wanted = [], []
    for n, each in enumerate(fitted):
        for load, cpu in each.cpu_ms.items():
            activity = activities[each.operation.name, load][part]
            row = [0.0] * len(fitted) + [activity.iterations, activity.coldness]
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
    """Return the least-squares solution with non-negative entries after the first ``free``: the
    best of those in which some of these are 0."""
    count = rows.shape[1]
    best, least = np.zeros(count), np.inf
    for out in range(count - free + 1):
        for dropped in combinations(range(free, count), out):
            kept = [k for k in range(count) if k not in dropped]
            found = np.zeros(count)
            found[kept] = np.linalg.lstsq(rows[:, kept], wanted, rcond=None)[0]
            squared_error = float(np.square(rows @ found - wanted).sum())
            if squared_error < least and (found[free:] >= 0).all():
                best, least = found, squared_error
    return best


def stages(observed: Observations, found: Fit) -> dict[str, tuple[Stage, ...]]:
    """Return the stages of each message, so that each part's CPU time is its ``own``."""
    operation = observed.operation
    parts = handling_parts(operation)
    metered = {message: _mark_loop_entries(observed.stages.get(message, ())) for message in parts}
    spent, in_loop, comes = (dict.fromkeys(parts.values(), 0.0) for _ in range(3))
    for message, part in parts.items():
        for stage, first in metered[message]:
            if not stage.kind.endswith("disk"):
                spent[part] += stage.mean_ms
            if stage.kind in _LOOP:
                in_loop[part] += stage.mean_ms
            comes[part] += first

    def with_rest(stage: Stage, first: bool, part: str) -> Stage:
        more = found.own_ms[operation.name, part] - spent[part]
        if stage.kind not in _LOOP:
            return stage
        if more < 0 < in_loop[part]:
            # The meters' times exceed `own` only by the cost of iterations, which all contain.
            return stage.increased_by(more * stage.mean_ms / in_loop[part])
        return stage.increased_by(more / comes[part]) if first else stage

    return {
        message: tuple(with_rest(stage, first, part) for stage, first in metered[message])
        for message, part in parts.items()
    }


def _mark_loop_entries(metered: tuple[Stage, ...]) -> list[tuple[Stage, bool]]:
    """Return all stages, and whether a job comes to the event loop with each: from outside or a
    thread."""
    stages = _with_loop_stage(metered)
    before = [None, *(stage.kind for stage in stages)]
    return [
        (stage, stage.kind == "loop" and kind != "loop")
        for stage, kind in zip(stages, before, strict=False)
    ]


def _with_loop_stage(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return stages with one in the event loop at least, which receives the message."""
    return stages if any(stage.kind == "loop" for stage in stages) else (_empty_stage(), *stages)


def _empty_stage() -> Stage:
    return Stage("loop", (0.0,) * POINTS)


def uncontended_activity(observed: Observations) -> dict[str, LoopActivity]:
    """Return the iterations of the event loops if every job is handled by itself."""
    found: dict[str, float] = {}
    for message, part in handling_parts(observed.operation).items():
        each = _with_loop_stage(observed.stages.get(message, ()))
        found[part] = found.get(part, 0.0) + sum(stage.kind in _LOOP for stage in each)
    return {part: LoopActivity(count, 0.0) for part, count in found.items()}


def _initial_fit(observed: Sequence[Observations], cooling_ms: float) -> Fit:
    own: dict[tuple[str, str], float] = {}
    turn: dict[str, float] = {}
    for each in observed:
        cpu = list(each.cpu_ms.values())
        for part, activity in uncontended_activity(each).items():
            least = min(one[part] for one in cpu)
            own[each.operation.name, part] = least
            ms = GUESS * least / activity.iterations
            turn[part] = min(ms, turn.get(part, ms))
    return Fit(own, turn, dict(turn), cooling_ms)
