"""Search for the cheapest deployment that suffices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.experiments.points import MINUTES, with_parts
from mpcsim.capacity.model.arrivals import Steady
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.workload import Workload
from mpcsim.capacity.results import answers
from mpcsim.capacity.results.record import Percentile
from mpcsim.capacity.results.run import Run
from mpcsim.capacity.running import demand_of
from mpcsim.errors import UsageError
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd


LOOKS: Final = 7
"""Runs of a candidate, each twice as long as the one before, until one decides: the last is 64
times as long as the first."""
ERROR_RATE: Final = 0.05
"""Probability that a candidate is taken to be on the wrong side, over all of its runs."""
TESTS: Final = 2 * LOOKS
"""Tests of a candidate at most, of its percentile and of its failures: they share the error."""
UNDECIDED: Final = "on neither side"


@dataclass(frozen=True)
class SearchResult:
    """Cheapest deployment that suffices."""

    deployment: Deployment
    price: float
    run: Run
    tried: pd.DataFrame
    """Candidates in the order of their runs, and why they do not suffice."""

    def __str__(self) -> str:
        values = ", ".join(
            f"{name} {value:g}"
            for name, value in self.tried.iloc[-1].items()
            if name not in {"price", "why_not"}
        )
        undecided = sum(UNDECIDED in why for why in self.tried["why_not"])
        cheaper = f"; {undecided} cheaper ones may do, too: too close to tell" if undecided else ""
        return f"{values}; price {self.price:g}; p99 {self.p99}{cheaper}"

    @property
    def p99(self) -> Percentile:
        """Percentile that it keeps."""
        return _p99(self.run)


def total_cores(deployment: Deployment) -> float:
    """Return a price: every core costs the same."""
    return float(sum(part.cores * part.replicas for part in deployment.parts.values()))


def cheapest(
    deployment: Deployment,
    workload: Workload,
    choices: Mapping[str, Iterable[int | float]],
    *,
    p99_ms: float,
    price: Callable[[Deployment], float] = total_cores,
    minutes: float = MINUTES,
    seed: int = 1,
    costs: Costs | str | Path | None = None,
    progress: Callable[[float], None] = lambda part: None,
) -> SearchResult:
    """Return the cheapest configuration whose 99th percentile stays below a time, and that refuses
    less than a thousandth.

    Cheap candidates come first. A candidate is skipped if it has no more of anything than one that
    did not suffice, or if the offered load exceeds its capacity by demand. A candidate runs
    repeatedly, each time twice as long, up to 64 times the minutes, until tests decide on which
    side of the time its percentile is, and on which side of a thousandth its failures are
    (``Run.compare_percentile``): for each candidate they err with a probability of 5 % at most.
    Where they do not decide, it does not suffice, and the result says so.

    Args:
        choices: values of fields of parts, as in ``capacity_point``: more is better.
        progress: called with the share of candidates that are done, from 0 to 1.

    Raises:
        UsageError: none of them suffices; or bad input.
    """
    names = list(choices)
    grid = [
        (values, with_parts(deployment, dict(zip(names, values, strict=True))))
        for values in product(*choices.values())
    ]
    failed: list[tuple[int | float, ...]] = []
    rows: list[dict[str, Any]] = []
    ordered = sorted(grid, key=lambda each: (price(each[1]), each[0]))
    for nth, (values, candidate) in enumerate(ordered):
        progress(nth / len(grid))
        row = dict(zip(names, values, strict=True)) | {"price": price(candidate)}
        worse = any(all(a <= b for a, b in zip(values, bad, strict=True)) for bad in failed)
        if worse:
            continue
        why, run = _why_insufficient(candidate, workload, p99_ms, minutes, seed, costs)
        rows.append(row | {"why_not": why})
        if run is not None and not why:
            return SearchResult(candidate, price(candidate), run, load_pandas().DataFrame(rows))
        failed.append(values)
    raise UsageError(
        f"none of {len(grid)} configurations has a p99 below {p99_ms:g} ms: {rows[-1]['why_not']}"
    )


def _why_insufficient(
    deployment: Deployment,
    workload: Workload,
    p99_ms: float,
    minutes: float,
    seed: int,
    costs: Costs | str | Path | None,
) -> tuple[str, Run | None]:
    """Return why a deployment does not suffice (empty: it does), and the run that shows it."""
    demands = demand_of(deployment, workload, costs)
    if isinstance(workload.arrivals, Steady) and workload.arrivals.per_s > demands.most_per_s:
        return f"{demands.bottleneck}: {demands.at_most}", None
    for look in range(LOOKS):
        run = deployment.run(workload, minutes=minutes * 2**look, seed=seed, costs=costs)
        if run.overload:
            return run.overload, run
        failing = run.compare_failures(answers.OFTEN, ERROR_RATE / TESTS)
        if failing == "above":
            return "calls are refused, break off or take too long", run
        slow = run.compare_percentile(99, p99_ms, ERROR_RATE / TESTS)
        if slow == "above":
            return f"p99 {_p99(run)}, above {p99_ms:g} ms", run
        if slow == failing == "below":
            return "", run
    what = "p99" if slow == "unknown" else "the share of failed calls"
    of = f"{p99_ms:g} ms" if slow == "unknown" else f"{answers.OFTEN:g}"
    return f"p99 {_p99(run)}: {what} {UNDECIDED} of {of} in {run.length_s / 60:g} minutes", run


def _p99(run: Run) -> Percentile:
    return run.percentile(99, between_s=run.bounds_s())
