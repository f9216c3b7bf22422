"""A server's connections (``mpcsim.service.process.http_limits``)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mpcsim.service.process.http_limits import Connections, Limit


class ConnectionCounts(Collector):
    """A collector."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        among = self._connections
        yield GaugeMetricFamily(
            "mpcsim_connections", "Connections that are open.", value=len(among.open)
        )
        waiting = GaugeMetricFamily(
            "mpcsim_connections_waiting",
            "Those of them that wait for their client, by what for.",
            labels=("awaiting",),
        )
        for what in ("headers", "transfers", "idle", "pipelining"):
            waiting.add_metric((what,), len(getattr(among, what)))
        yield waiting
        closed = CounterMetricFamily(
            "mpcsim_connections_closed",
            "Connections that the server has closed, by the limit that they met.",
            labels=("limit",),
        )
        for limit in Limit:
            closed.add_metric((limit.name.lower(),), among.closed[limit])
        yield closed
