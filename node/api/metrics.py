"""Metrics and probes of the node (``mpcsim.service.metrics``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette

from mpcsim.ids import CLIENT, ROLES
from mpcsim.service.metrics.aborts import AbortCounts
from mpcsim.service.metrics.durations import Durations
from mpcsim.service.metrics.exposition import MetricsSource
from mpcsim.service.metrics.readiness import CheckResults, Probe, single_probe
from mpcsim.service.metrics.requests import RequestCounts, operations_by_path
from node.api import routes
from node.errors import ApiError, UntrustedNode
from node.gateway_client.client import GatewayClient
from node.process.argon2_queue import Argon2Queue

UNKNOWN: Final = "the gateway does not say"


class Argon2Metrics(Collector):
    """A collector: computations of Argon2id, and who waits for one."""

    def __init__(self, queue: Argon2Queue) -> None:
        self._queue = queue
        self._waits = Durations(
            "mpcsim_argon2_wait_seconds", "How long computations of Argon2id waited to begin."
        )
        queue.listener = self._waits.add

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "mpcsim_argon2_running", "Computations of Argon2id now.", value=self._queue.running
        )
        yield GaugeMetricFamily(
            "mpcsim_argon2_waiting", "Those that wait to begin.", value=self._queue.waiting
        )
        yield self._waits.to_family()


def metrics_source(app: Starlette) -> MetricsSource:
    """
    Args:
        app: by ``node.app.create_app``; its requests are counted from now on.
    """
    wallet = app.state.wallet
    requests = RequestCounts(operations_by_path([*routes.PUBLIC, *routes.WALLET]))
    app.state.recorder.counters.append(requests.count)
    collectors = [
        requests,
        Argon2Metrics(wallet.argon2),
        AbortCounts({ROLES[CLIENT]: wallet.aborts}),
    ]
    return MetricsSource("node", collectors, probes(app.state.gateway))


def probes(gateway: GatewayClient) -> list[Probe]:
    """The gateway answers; so do the MPC nodes, as it says, and they are those that are trusted."""

    async def answers() -> str | None:
        try:
            await gateway.jwks()
        except ApiError as error:
            return error.message
        return None

    async def mpc_nodes() -> CheckResults:
        try:
            silent = await gateway.unreachable_nodes()
        except UntrustedNode as error:
            return {"mpc_nodes": None, "identities": error.message}
        except ApiError as error:
            return {"mpc_nodes": error.message, "identities": UNKNOWN}
        named = " and the ".join(ROLES[party] for party in silent)
        return {
            "mpc_nodes": f"the gateway cannot reach the {named}" if silent else None,
            "identities": None,
        }

    return [single_probe("gateway", answers), Probe(("mpc_nodes", "identities"), mpc_nodes)]
