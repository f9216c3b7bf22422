"""What is cheap enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mpcsim.capacity.arrivals import Steady
from mpcsim.capacity.costs import Costs
from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.experiments.points import MINUTES, with_parts
from mpcsim.capacity.results import answers
from mpcsim.capacity.results.record import Percentile
from mpcsim.capacity.results.run import Run
from mpcsim.capacity.running import demand_of
from mpcsim.capacity.workload import Workload
from mpcsim.errors import UsageError
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd


LONGER: Final = 64.0
"""Times the minutes that are asked for, at most, until an interval decides."""


@dataclass(frozen=True)
class Found:
    """The cheapest deployment that does."""

    deployment: Deployment
    price: float
    run: Run
    tried: pd.DataFrame
    """What was tried in which order, and why it did not do."""

    def __str__(self) -> str:
        values = ", ".join(
            f"{name} {value:g}"
            for name, value in self.tried.iloc[-1].items()
            if name not in {"price", "why_not"}
        )
        return f"{values}; price {self.price:g}; p99 {self.p99}"

    @property
    def p99(self) -> Percentile:
        """What is kept."""
        return self.run.percentile(99, between_s=(self.run.length_s / 10, self.run.length_s))


def cores(deployment: Deployment) -> float:
    """A price: every core costs the same."""
    return float(sum(part.cores * part.replicas for part in deployment.parts.values()))


def cheapest(
    deployment: Deployment,
    workload: Workload,
    choices: Mapping[str, Iterable[int | float]],
    *,
    p99_ms: float,
    price: Callable[[Deployment], float] = cores,
    minutes: float = MINUTES,
    seed: int = 1,
    costs: Costs | str | Path | None = None,
    progress: Callable[[float], None] = lambda part: None,
) -> Found:
    """The cheapest configuration whose 99th percentile stays below a time, and that refuses less
    than a thousandth.

    The cheap ones are tried first. What has not more of anything than one that did not do is not
    tried; nor is what has not capacity enough for the calls that come. A candidate runs for
    longer, up to 64 times the minutes, until the interval of its percentile is below or above the
    time; if it still is on both sides, or there is none, it does not do, and that is said.

    Args:
        choices: values of fields of parts, as in ``capacity_point``: more is better.
        progress: is told which part of them is done with, from 0 to 1.

    Raises:
        UsageError: none of them does; or bad input.
    """
    names = list(choices)
    grid = [
        (values, with_parts(deployment, dict(zip(names, values, strict=True))))
        for values in product(*(sorted(each) for each in choices.values()))
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
        why, run = _too_bad(candidate, workload, p99_ms, minutes, seed, costs)
        rows.append(row | {"why_not": why})
        if run is not None and not why:
            return Found(candidate, price(candidate), run, load_pandas().DataFrame(rows))
        failed.append(values)
    raise UsageError(
        f"none of {len(grid)} configurations has a p99 below {p99_ms:g} ms: {rows[-1]['why_not']}"
    )


def _too_bad(
    deployment: Deployment,
    workload: Workload,
    p99_ms: float,
    minutes: float,
    seed: int,
    costs: Costs | str | Path | None,
) -> tuple[str, Run | None]:
    """Return why a deployment does not do (empty: it does), and the run that says so.

    It runs until the interval of the percentile is on one side of the time that is asked for.
    """
    asked = demand_of(deployment, workload, costs)
    if isinstance(workload.arrivals, Steady) and workload.arrivals.per_s > asked.most_per_s:
        return f"{asked.bottleneck}: {asked.at_most}", None
    longest = LONGER * minutes
    while True:
        run = deployment.run(workload, minutes=minutes, seed=seed, costs=costs)
        if run.overload:
            return run.overload, run
        attempts = run.outcomes()
        if attempts["done"] < (1 - answers.OFTEN) * sum(attempts.values()):
            return "calls are refused, break off or take too long", run
        median, p99 = (
            run.percentile(percent, between_s=(run.length_s / 10, run.length_s))
            for percent in (50, 99)
        )
        if median.low_ms > p99_ms:  # known much sooner
            return f"p50 {median}", run
        if p99.high_ms <= p99_ms:
            return "", run
        if p99.low_ms > p99_ms:
            return f"p99 {p99}", run
        needs = 1.1 * p99.needs_s / 60 if p99.why_none else 4 * minutes
        if minutes == longest or not needs < math.inf:
            return f"p99 {p99}: on neither side of {p99_ms:g} ms in {minutes:g} minutes", run
        minutes = min(max(2 * minutes, needs), longest)
