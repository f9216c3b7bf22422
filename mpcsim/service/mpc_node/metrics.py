"""Metrics and readiness probes of MPC nodes (``mpcsim.service.metrics``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mpcsim.ids import ROLES
from mpcsim.service.metrics.aborts import AbortCounts
from mpcsim.service.metrics.readiness import Probe, thread_probe
from mpcsim.service.metrics.stores import StoreSizes, write_problem
from mpcsim.service.mpc_node.node import MpcNode
from mpcsim.service.rpc.activation_messages import ACTIVE, PREPARED, VOTED


class MpcNodeMetrics(Collector):
    """Collector of sessions and shares of the MPC nodes in this process."""

    def __init__(self, nodes: Sequence[MpcNode]) -> None:
        self._nodes = nodes

    def collect(self) -> Iterator[Metric]:
        sessions = GaugeMetricFamily(
            "mpcsim_mpc_node_sessions", "Sessions that are open at an MPC node.", labels=("party",)
        )
        shares = GaugeMetricFamily(
            "mpcsim_shares",
            "Key shares in an MPC node's store, by state, and whether they are suspended.",
            labels=("party", "state", "suspended"),
        )
        for node in self._nodes:
            role = ROLES[node.me]
            sessions.add_metric((role,), node.sessions)
            counts = {(state, held): n for state, held, n in node.store.count_by_state()}
            for state in (PREPARED, VOTED, ACTIVE):
                for held in (False, True):
                    labels = role, state, str(held).lower()
                    shares.add_metric(labels, counts.get((state, held), 0))
        yield sessions
        yield shares


def collectors(nodes: Sequence[MpcNode]) -> list[Collector]:
    return [
        MpcNodeMetrics(nodes),
        AbortCounts({ROLES[node.me]: node.aborts for node in nodes}),
        *(StoreSizes(ROLES[node.me], node.store.database) for node in nodes),
    ]


def probes(node: MpcNode) -> list[Probe]:
    """Return probes: the store can be written and lacks no suspension; the other node is known."""
    return [
        thread_probe(
            "store", lambda: write_problem(node.store.database, node.store.pending_suspensions)
        ),
        thread_probe("other_mpc_node", lambda: node.peer_problem),
    ]
