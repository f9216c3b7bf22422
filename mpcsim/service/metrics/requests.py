"""The requests that a process has answered: how many, and where their time went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.routing import BaseRoute, Route

from mpcsim.service.metrics.durations import BOUNDS_S, Durations
from mpcsim.service.web.request_records import RequestRecord

OTHER: Final = "other"
"""Name for all operations without one of their own: an unknown path, for one."""


class RequestCounts(Collector):
    """Collector that counts requests (``RequestRecorder.counters``). For one event loop."""

    def __init__(self, operations: Mapping[str, str]) -> None:
        """
        Args:
            operations: names of what is counted by itself, by path.
        """
        self._operations = _Operations(operations)
        self._counts: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._durations = Durations(
            "mpcsim_request_duration_seconds",
            "How long requests took, by what was asked for, in all and by phase.",
            *("operation", "phase"),
        )

    def count(self, record: RequestRecord) -> None:
        """Count a request."""
        # Nothing is called in here, neither ours nor what is built in: this is done for every
        # request. (``Durations.add`` says the same of one duration.)
        operation = self._operations[record.path]
        self._counts[operation, record.status] += 1
        phases = {"total": record.ended - record.began}
        for name, began, ended in record.spans:
            seconds = ended - began
            phases[name] = phases[name] + seconds if name in phases else seconds
        durations = self._durations.counts
        for name in phases:
            found, seconds, bucket = durations[operation, name], phases[name], 0
            while seconds > BOUNDS_S[bucket]:
                bucket += 1
            found[bucket] += 1
            found[-1] += seconds

    def collect(self) -> Iterator[Metric]:
        counts = CounterMetricFamily(
            "mpcsim_requests",
            "Requests by what was asked for, and status of the answer; 0: none was begun.",
            labels=("operation", "status"),
        )
        for (operation, status), count in sorted(self._counts.copy().items()):
            counts.add_metric((operation, str(status)), count)
        yield counts
        yield self._durations.to_family()


class _Operations(dict[str, str]):
    def __missing__(self, path: str) -> str:
        return OTHER


def operations_by_path(routes: Iterable[BaseRoute]) -> dict[str, str]:
    """Operations by path: routes under their own names, but those of which parts are variable."""
    return {
        route.path: route.name
        for route in routes
        if isinstance(route, Route) and "{" not in route.path
    }
