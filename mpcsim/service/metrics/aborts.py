"""Sessions that a party has aborted, by reason (``mpcsim.errors``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from mpcsim.errors import AbortReason, Reason


class AbortCounts(Collector):
    """A collector."""

    def __init__(self, by_party: Mapping[str, Mapping[AbortReason, int]]) -> None:
        """
        Args:
            by_party: how many for which reason, by the name of who aborted; they are counted on.
        """
        self._by_party = by_party

    def collect(self) -> Iterator[Metric]:
        aborts = CounterMetricFamily(
            "mpcsim_aborts",
            "Sessions that a party has aborted, by reason.",
            labels=("party", "reason"),
        )
        for party, counts in self._by_party.items():
            for reason in Reason:
                aborts.add_metric((party, reason.name.lower()), counts.get(reason, 0))
        yield aborts
