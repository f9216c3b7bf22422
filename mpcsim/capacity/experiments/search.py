"""What is cheap enough."""

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
"""Runs of a candidate, each twice as long as the one before, until one decides: 64 times the
minutes at most."""
ERROR_RATE: Final = 0.05
"""Chance that a candidate's percentile is taken to be on the wrong side, over all of its runs."""
UNDECIDED: Final = "on neither side"


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
        undecided = sum(UNDECIDED in why for why in self.tried["why_not"])
        cheaper = f"; {undecided} cheaper ones may do, too: too close to tell" if undecided else ""
        return f"{values}; price {self.price:g}; p99 {self.p99}{cheaper}"

    @property
    def p99(self) -> Percentile:
        """What is kept."""
        return _p99(self.run)


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
    tried; nor is what has not capacity enough for the calls that come. A candidate runs again and
    again, each time for twice as long and up to 64 times the minutes, until tests decide on which
    side of the time its percentile is, and on which side of a thousandth its failures
    (``Run.compare_percentile``): for each candidate they err with a chance of 5 % at most. Where
    they do not decide, it straddles: it does not do, and that is said.

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
    """Return why a deployment does not do (empty: it does), and the run that says so."""
    asked = demand_of(deployment, workload, costs)
    if isinstance(workload.arrivals, Steady) and workload.arrivals.per_s > asked.most_per_s:
        return f"{asked.bottleneck}: {asked.at_most}", None
    for look in range(LOOKS):
        run = deployment.run(workload, minutes=minutes * 2**look, seed=seed, costs=costs)
        if run.overload:
            return run.overload, run
        failing = run.compare_failures(answers.OFTEN, ERROR_RATE / LOOKS)
        if failing == "above":
            return "calls are refused, break off or take too long", run
        slow = run.compare_percentile(99, p99_ms, ERROR_RATE / LOOKS)
        if slow == "above":
            return f"p99 {_p99(run)}, above {p99_ms:g} ms", run
        if slow == failing == "below":
            return "", run
    what = "p99" if slow == "unknown" else "the share of failed calls"
    of = f"{p99_ms:g} ms" if slow == "unknown" else f"{answers.OFTEN:g}"
    return f"p99 {_p99(run)}: {what} {UNDECIDED} of {of} in {run.length_s / 60:g} minutes", run


def _p99(run: Run) -> Percentile:
    return run.percentile(99, between_s=run.bounds_s())
