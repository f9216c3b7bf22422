"""Run with its conclusions and figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mpcsim.capacity.results import answers, page, slow
from mpcsim.capacity.results.record import Percentile, RunRecord
from mpcsim.errors import MpcError
from mpcsim.sim.rich_display import beside
from mpcsim.sim.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

    from mpcsim.sim.figures import Chart


class Overloaded(MpcError):
    """Raised for a percentile of an overloaded service: it would depend on the length of the
    run."""


@dataclass(frozen=True)
class Run(RunRecord):
    """Run of a workload on a deployment, with conclusions and figures."""

    def percentile(
        self,
        percent: float,
        operation: str | None = None,
        between_s: tuple[float, float] | None = None,
    ) -> Percentile:
        """Return a percentile as ``RunRecord.percentile`` does.

        Raises:
            Overloaded: arrivals exceed answers all the time, and no part of the run was asked for.
            UsageError: no such operation, part, or percentile; or no call succeeded.
        """
        if between_s is None and (why := self.overload):
            raise Overloaded(why)
        return super().percentile(percent, operation, between_s)

    @cached_property
    def overload(self) -> str:
        """Sentence that the queue grows without bound, and how fast; empty: it does not."""
        return answers.overload(self)

    @property
    def saturations(self) -> list[answers.Saturation]:
        """Shortages that tests find, by time."""
        return answers.saturations(self)

    @property
    def first_to_break(self) -> str:
        """Sentence with the first shortage, or that none is found."""
        return answers.first_to_break(self)

    def recovered_s(self, over_s: float) -> float:
        """Return how long after the end of a disturbance the service is as before; infinite: not by
        the end of the run.

        Args:
            over_s: when its cause was over.
        """
        return answers.recovered_s(self, over_s)

    def slow_call(self, nth: int = 1) -> Trace:
        """Return one of the slowest calls as a trace: ``gantt``, ``critical_path``,
        ``save_perfetto``. The parties are 1 the node, 2 the operator, 3 the institution, 4 the
        gateway, 5 the caller. All of a message's time on its link is given as propagation,
        retransmissions included.

        Args:
            nth: 1 is the slowest of those that succeeded.

        Raises:
            UsageError: not so many are kept.
        """
        return slow.slow_call(self, nth)

    # ------------------------------------------------------------------ display

    def resources(self) -> pd.DataFrame:
        """Return a row for each window and resource: its utilisation and queue length; needs
        pandas."""
        return answers.resources(self)

    def timeline(self, operation: str | None = None) -> Chart:
        """Plot percentiles (of an operation), calls in flight and failures over time; needs
        matplotlib."""
        from mpcsim.capacity.results import figures

        return figures.timeline(self, operation)

    def utilisation(self) -> Chart:
        """Plot the utilisation of cores and event loops over time; needs matplotlib."""
        from mpcsim.capacity.results import figures

        return figures.utilisation(self)

    def __str__(self) -> str:
        """Return the page about the run, with tables."""
        return page.text(self)

    def _repr_html_(self) -> str:
        """Return the page, with the run over time beside it where matplotlib is installed."""
        return beside(page.html(self), self.timeline)
