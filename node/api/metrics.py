"""What can be seen of the node from outside (``mpcsim.service.metrics``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastapi import FastAPI
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mpcsim.ids import CLIENT, ROLES
from mpcsim.service.metrics.aborts import Aborts
from mpcsim.service.metrics.durations import Durations
from mpcsim.service.metrics.exposition import Seen
from mpcsim.service.metrics.readiness import Found, Probe, probe
from mpcsim.service.metrics.requests import Requests, named
from node.api import routes
from node.errors import ApiError, UntrustedNode
from node.gateway_client.client import GatewayClient
from node.process.argon2_queue import Argon2Queue

UNKNOWN: Final = "the gateway does not say"


class Passwords(Collector):
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
        yield self._waits.family()


def seen(app: FastAPI) -> Seen:
    """
    Args:
        app: by ``node.app.create_app``; its requests are counted from now on.
    """
    wallet = app.state.wallet
    requests = Requests(named([*routes.public.routes, *routes.wallet.routes]))
    app.state.book.counters.append(requests.count)
    collectors = [requests, Passwords(wallet.argon2), Aborts({ROLES[CLIENT]: wallet.aborts})]
    return Seen("node", collectors, probes(app.state.gateway))


def probes(gateway: GatewayClient) -> list[Probe]:
    """The gateway answers; so do the MPC nodes, as it says, and they are those that are trusted."""

    async def answers() -> str | None:
        try:
            await gateway.jwks()
        except ApiError as error:
            return error.message
        return None

    async def mpc_nodes() -> Found:
        try:
            silent = await gateway.silent()
        except UntrustedNode as error:
            return {"mpc_nodes": None, "identities": error.message}
        except ApiError as error:
            return {"mpc_nodes": error.message, "identities": UNKNOWN}
        named = " and the ".join(ROLES[party] for party in silent)
        return {
            "mpc_nodes": f"the gateway cannot reach the {named}" if silent else None,
            "identities": None,
        }

    return [probe("gateway", answers), Probe(("mpc_nodes", "identities"), mpc_nodes)]
