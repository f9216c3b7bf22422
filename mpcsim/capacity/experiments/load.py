"""Load curve: latency against offered load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mpcsim.capacity.demand import rounded_down
from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.experiments.points import MINUTES, capacity_point
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.workload import Workload
from mpcsim.capacity.running import demand_of
from mpcsim.sim.experiments.sweep import sweep
from mpcsim.sim.rich_display import Table, beside, document, interval_text, page, percentage

if TYPE_CHECKING:
    import pandas as pd

    from mpcsim.capacity.results.figures import Chart

LOADS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1)
"""Loads of a curve, relative to the capacity by demand."""


@dataclass(frozen=True)
class LoadCurve:
    """Latency against offered load: a hockey stick."""

    table: pd.DataFrame
    """Row for each load, as by ``capacity_point``."""
    most_per_s: float
    """Calls a second at which the bottleneck is saturated."""
    bottleneck: str

    @property
    def knee_per_s(self) -> float:
        """Load beyond which more calls cost more in latency than they gain in throughput: the
        largest ratio of the two (power: Kleinrock, Power and deterministic rules of thumb for
        probabilistic problems in computer communications, 1979), with the 95th percentile."""
        power = self.table["answered_per_s"] / self.table["p95_ms"]
        return float(self.table["per_s"][power.idxmax()])

    def plot(self) -> Chart:
        """Plot percentiles over the load, with the knee marked; needs matplotlib."""
        from mpcsim.capacity.results import figures

        return figures.load_curves({"": self})

    def __str__(self) -> str:
        return page(self._headline, [self._rows()], notes=self._notes())

    def _repr_html_(self) -> str:
        return beside(document(self._headline, [self._rows()], notes=self._notes()), self.plot)

    @property
    def _headline(self) -> str:
        most = rounded_down(self.most_per_s)
        return f"knee at {self.knee_per_s:.3g} calls a second, most {most:.3g} ({self.bottleneck})"

    def _notes(self) -> list[str]:
        notes = [f"{row.per_s:.4g} a second: {row.overload}" for row in self._loads if row.overload]
        if any(cells[4] == "-" for cells in self._rows().rows):
            notes.append("-: no interval, such runs are too short for one: more minutes")
        return notes

    @property
    def _loads(self) -> list[Any]:
        return list(self.table.itertuples())

    def _rows(self) -> Table:
        """Return a row for each load that is no overload."""
        columns = ["calls a second", "p50 ms", "p95 ms", "p99 ms", "95 % interval"]
        columns += ["failed", "busiest", "used"]
        rows = [
            [
                f"{row.per_s:.4g}",
                *(f"{ms:,.1f}" for ms in (row.p50_ms, row.p95_ms, row.p99_ms)),
                interval_text(row.p99_low_ms or -math.inf, row.p99_high_ms, ",.1f"),
                percentage(row.refused + row.timed_out + row.broken, ".1%"),
                row.busiest,
                f"{row.utilisation:.0%}",
            ]
            for row in self._loads
            if not row.overload
        ]
        return Table(columns, rows, frozenset(columns) - {"busiest"})


def load_curve(
    deployment: Deployment,
    workload: Workload | None = None,
    *,
    rates_per_s: Sequence[float] | None = None,
    minutes: float = MINUTES,
    seed: int = 1,
    costs: Costs | str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> LoadCurve:
    """Run one mix of calls at one rate after the other.

    Args:
        rates_per_s: by default ``LOADS`` of the capacity by demand.
        executor: as for a sweep.

    Raises:
        UsageError: bad input.
    """
    work = workload or Workload()
    demands = demand_of(deployment, work, costs)
    if rates_per_s is None:
        rates_per_s = [part * demands.most_per_s for part in LOADS]
    point = partial(
        capacity_point, deployment=deployment, workload=work, minutes=minutes, costs=costs
    )
    table = sweep(
        {"per_s": list(rates_per_s)}, point, seed=seed, executor=executor, progress=progress
    )
    return LoadCurve(table, demands.most_per_s, demands.bottleneck)
