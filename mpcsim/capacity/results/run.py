"""What came of a run, and what that means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mpcsim.capacity.results import answers, page, slow
from mpcsim.capacity.results.record import Percentile, RunRecord
from mpcsim.errors import MpcError
from mpcsim.sim.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

    from mpcsim.sim.figures import Chart


class Overloaded(MpcError):
    """More calls come than are answered, all the time: percentiles would be those of the length of
    the run."""


@dataclass(frozen=True)
class Run(RunRecord):
    """A workload on a deployment, for a while, with answers and pictures."""

    def percentile(
        self,
        percent: float,
        operation: str | None = None,
        between_s: tuple[float, float] | None = None,
    ) -> Percentile:
        """As ``RunRecord.percentile``.

        Raises:
            Overloaded: more calls come than are answered, and no part of the run was asked about.
            UsageError: no such operation, part, or percentile; or no call succeeded.
        """
        if between_s is None and (why := self.overload):
            raise Overloaded(why)
        return super().percentile(percent, operation, between_s)

    @cached_property
    def overload(self) -> str:
        """That the queue grows without bound, and how fast; empty: it does not."""
        return answers.overload(self)

    @property
    def breaks(self) -> list[answers.Break]:
        """Everything that did not suffice, first things first."""
        return answers.breaks(self)

    @property
    def first_to_break(self) -> str:
        """In a sentence."""
        return answers.first_to_break(self)

    def recovered_s(self, over_s: float) -> float:
        """How long after the end of an overload it is as before; infinite: not by the end of the
        run.

        Args:
            over_s: when its cause was over.
        """
        return answers.recovered_s(self, over_s)

    def slow_call(self, nth: int = 1) -> Trace:
        """One of the slowest calls, to be looked at closely: ``gantt``, ``critical_path``,
        ``save_perfetto``. The parties are 1 the node, 2 the operator, 3 the institution, 4 the
        gateway, 5 the caller.

        Args:
            nth: 1 is the slowest of those that succeeded.

        Raises:
            UsageError: not so many are kept.
        """
        return slow.slow_call(self, nth)

    # ------------------------------------------------------------------ shown

    def places(self) -> pd.DataFrame:
        """A row for each window and place: how much of it was used, and how many waited for it;
        needs pandas."""
        return answers.places(self)

    def timeline(self, operation: str | None = None) -> Chart:
        """Percentiles (of an operation), calls under way and bad ends over time; needs
        matplotlib."""
        from mpcsim.capacity.results import figures

        return figures.timeline(self, operation)

    def utilisation(self) -> Chart:
        """How busy cores and event loops were over time; needs matplotlib."""
        from mpcsim.capacity.results import figures

        return figures.utilisation(self)

    def __str__(self) -> str:
        """A page about it."""
        return "\n".join(page.page(self))
