"""Metrics (``mpcsim.service.metrics``) of a gateway, or an MPC node, that is about to serve."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.registry import Collector

from mpcsim.ids import ROLES
from mpcsim.service.gateway.api import metrics as of_gateways
from mpcsim.service.gateway.gateway import Gateway
from mpcsim.service.metrics.exposition import MetricsSource
from mpcsim.service.metrics.requests import RequestCounts, operations_by_path
from mpcsim.service.mpc_node import metrics as of_mpc_nodes
from mpcsim.service.mpc_node.node import MpcNode
from mpcsim.service.rpc.wire import HELLO_PATH
from mpcsim.service.storage.roles import REGISTRY
from mpcsim.service.web.http import App


def gateway_metrics_source(app: App, gateway: Gateway, nodes: Sequence[MpcNode]) -> MetricsSource:
    """
    Args:
        app: whose requests are counted from now on.
        nodes: MPC nodes in the same process.
    """
    verbs = {f"/mpc/v1/{verb}": verb for verb in gateway.verbs}
    requests = RequestCounts(operations_by_path(app.routes) | verbs)
    app.recorder.counters.append(requests.count)
    collectors: list[Collector] = [requests, *of_gateways.collectors(gateway)]
    if nodes:
        collectors += of_mpc_nodes.collectors(nodes)
    return MetricsSource(REGISTRY, collectors, of_gateways.probes(gateway))


def mpc_node_metrics_source(app: App, node: MpcNode) -> MetricsSource:
    """
    Args:
        app: whose requests are counted from now on.
    """
    verbs = {f"/{verb}": verb for verb in node.verbs} | {HELLO_PATH: "hello"}
    requests = RequestCounts(verbs)
    app.recorder.counters.append(requests.count)
    collectors = [requests, *of_mpc_nodes.collectors([node])]
    return MetricsSource(ROLES[node.me], collectors, of_mpc_nodes.probes(node))
