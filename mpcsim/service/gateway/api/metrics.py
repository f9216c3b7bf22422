"""Metrics and readiness probes of a gateway (``mpcsim.service.metrics``)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mpcsim.ids import ROLES
from mpcsim.service.errors import LinkFailed
from mpcsim.service.gateway.gateway import Gateway
from mpcsim.service.gateway.links.links import Link
from mpcsim.service.metrics.readiness import Probe, single_probe, thread_probe
from mpcsim.service.metrics.stores import StoreSizes, write_problem
from mpcsim.service.storage.roles import REGISTRY


class GatewayMetrics(Collector):
    """Collector of open sessions, queues and undelivered suspension notices."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterator[Metric]:
        sessions = self._gateway.sessions
        is_open = GaugeMetricFamily(
            "mpcsim_gateway_sessions", "Sessions that are open, by kind.", labels=("kind",)
        )
        creating = [session.makes_key for session in sessions.open_sessions]
        is_open.add_metric(("signing",), creating.count(False))
        is_open.add_metric(("making",), creating.count(True))
        yield is_open
        held = GaugeMetricFamily(
            "mpcsim_queue_held",
            "Places that are taken: of keys, by what is done with them, and of makings at a time.",
            labels=("queue",),
        )
        waiting = GaugeMetricFamily(
            "mpcsim_queue_waiting", "Requests that wait for such a place.", labels=("queue",)
        )
        for name, queue in {**sessions.queues, "makings": sessions.key_creation_slots}.items():
            held.add_metric((name,), queue.holder_count)
            waiting.add_metric((name,), queue.waiting_count)
        yield held
        yield waiting
        yield GaugeMetricFamily(
            "mpcsim_suspension_notices_undelivered",
            "Notices of suspended keys that an MPC node has yet to acknowledge.",
            value=self._gateway.suspensions.undelivered_count,
        )


def collectors(gateway: Gateway) -> list[Collector]:
    return [GatewayMetrics(gateway), StoreSizes(REGISTRY, gateway.registry.database)]


def probes(gateway: Gateway) -> list[Probe]:
    """Return probes: both MPC nodes answer, and the registry can be written."""
    links = [_link_probe(ROLES[party], link) for party, link in gateway.links.items()]

    def look() -> str | None:
        return write_problem(gateway.registry.database, gateway.suspensions.pending_count)

    return [*links, thread_probe("registry", look)]


def _link_probe(role: str, link: Link) -> Probe:
    async def look() -> str | None:
        try:
            await link.fetch_hello()
        except LinkFailed as failed:
            return str(failed)
        return None

    return single_probe(role, look)
