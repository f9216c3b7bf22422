"""Figures of services under load; they need matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from mpcsim.capacity.results import answers
from mpcsim.capacity.results.collecting import Floats
from mpcsim.capacity.results.record import RunRecord
from mpcsim.errors import UsageError
from mpcsim.sim import figures
from mpcsim.sim.figures import Chart
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Chart", "comparison", "load_curves", "timeline", "utilisation"]

PERCENTS: Final = (50, 99)
COLUMNS: Final = 20
"""Columns of the heat map of utilisation at most."""


class Loads(Protocol):
    """Load curve as the figure needs it."""

    @property
    def table(self) -> pd.DataFrame: ...
    @property
    def most_per_s(self) -> float: ...
    @property
    def knee_per_s(self) -> float: ...


def load_curves(found: Mapping[str, Loads], percents: Sequence[int] = PERCENTS) -> Chart:
    """Plot latency against offered load, with the knees marked.

    Args:
        found: by name; the name of a single one may be empty.
        percents: of 50, 95 and 99.
    """
    lines = {}
    knees = {}
    for name, curve in found.items():
        table = curve.table[curve.table["overload"] == ""]
        prefix = f"{name}, " if name else ""
        for percent in percents:
            lines[f"{prefix}p{percent}"] = (table["per_s"], table[f"p{percent}_ms"])
        knees[f"{prefix}knee"] = curve.knee_per_s
        if len(found) == 1:
            knees["most"] = curve.most_per_s
    return figures.curves(
        lines,
        x="offered load (calls a second)",
        y="latency (ms)",
        title="Latency by offered load",
        along=knees,
        y_scale="log",
    )


def timeline(run: RunRecord, operation: str | None = None) -> Chart:
    """Plot percentiles and calls in flight over a run; incidents are shaded.

    Args:
        operation: whose percentiles; by default of all together.
    """
    middle = (run.edges_s[:-1] + run.edges_s[1:]) / 2
    attempts = np.array([counts.attempts.sum(axis=0) for counts in run.collector.windows])
    rates = attempts / np.diff(run.edges_s)[:, np.newaxis]
    latencies = {
        f"p{percent}": (middle, run.percentiles_over_time(percent, operation))
        for percent in PERCENTS
    }
    per_s = {"answered": (middle, rates[:, 0])}
    if attempts[:, 1:].any():
        per_s["refused, late or broken"] = (middle, rates[:, 1:].sum(axis=1))
    return figures.panels(
        {
            "latency (ms)": {name: _known(*points) for name, points in latencies.items()},
            "calls a second": per_s,
            "calls": {"in flight": (middle, run.gauges.in_flight[:, 0])},
        },
        x="time (s)",
        title=f"{operation or 'All calls'} over time: latency, throughput, calls in flight",
        shaded=answers.disturbances_s(run),
    )


def _known(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the points where calls ended."""
    return x[y > 0], y[y > 0]


def utilisation(run: RunRecord) -> Chart:
    """Plot the utilisation of cores and event loops over a run."""
    used = {name: values for name, values in answers.utilisations(run) if values.max() > 0.005}
    if not used:
        raise UsageError("nothing was busy")
    n = len(run.edges_s) - 1
    parts = np.array_split(np.arange(n), min(COLUMNS, n))
    table = load_pandas().DataFrame(
        {
            answers.format_clock(run.edges_s[part[0]]): {
                name: float(values[part].mean()) for name, values in used.items()
            }
            for part in parts
        }
    )
    return figures.heat_map(
        table,
        text=lambda part: f"{part:.0%}",
        title="Utilisation of cores and event loops over time",
    )


def comparison(made_of: Mapping[str, Mapping[str, float]]) -> Chart:
    """Plot the breakdown of latencies, side by side.

    >>> figure = comparison({"as it is": run.made_of(), "slowest 1 %": run.made_of(0.01)})

    Args:
        made_of: by name, as ``Run.made_of`` gives it.
    """
    longest = max((sum(parts.values()) for parts in made_of.values()), default=0.0)
    return figures.stacked_bars(
        {
            name: {part: ms for part, ms in parts.items() if ms > longest / 500}
            for name, parts in made_of.items()
        },
        x="mean time (ms)",
        title="Where the time of a call goes",
    )
