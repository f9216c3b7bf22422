"""What can be seen of an MPC node from outside (``mpcsim.service.metrics``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mpcsim.ids import ROLES
from mpcsim.service.metrics.aborts import Aborts
from mpcsim.service.metrics.readiness import Probe, in_a_thread
from mpcsim.service.metrics.stores import StoreSizes, writable
from mpcsim.service.mpc_node.node import MpcNode
from mpcsim.service.rpc.standing import ACTIVE, PREPARED, VOTED


class MpcNodeMetrics(Collector):
    """A collector: sessions and shares of the MPC nodes in this process."""

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
            counts = {(state, held): n for state, held, n in node.store.counts()}
            for state in (PREPARED, VOTED, ACTIVE):
                for held in (False, True):
                    labels = role, state, str(held).lower()
                    shares.add_metric(labels, counts.get((state, held), 0))
        yield sessions
        yield shares


def collectors(nodes: Sequence[MpcNode]) -> list[Collector]:
    return [
        MpcNodeMetrics(nodes),
        Aborts({ROLES[node.me]: node.aborts for node in nodes}),
        *(StoreSizes(ROLES[node.me], node.store.database) for node in nodes),
    ]


def probes(node: MpcNode) -> list[Probe]:
    """The store can be written, and has been, and the other MPC node has been met."""
    return [
        in_a_thread("store", lambda: writable(node.store.database, node.store.pending_suspensions)),
        in_a_thread("other_mpc_node", lambda: node.peer_problem),
    ]
