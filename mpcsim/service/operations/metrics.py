"""Metrics (``mpcsim.service.metrics``) of a gateway, or an MPC node, that is about to serve."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.registry import Collector

from mpcsim.ids import ROLES
from mpcsim.service.gateway.api import metrics as of_gateways
from mpcsim.service.gateway.gateway import Gateway
from mpcsim.service.metrics.exposition import Seen
from mpcsim.service.metrics.requests import Requests, named
from mpcsim.service.mpc_node import metrics as of_mpc_nodes
from mpcsim.service.mpc_node.node import MpcNode
from mpcsim.service.rpc.wire import HELLO_PATH
from mpcsim.service.storage.database import REGISTRY
from mpcsim.service.web.http import App


def of_gateway(app: App, gateway: Gateway, nodes: Sequence[MpcNode]) -> Seen:
    """
    Args:
        app: whose requests are counted from now on.
        nodes: MPC nodes in the same process.
    """
    verbs = {f"/mpc/v1/{verb}": verb for verb in gateway.verbs}
    requests = Requests(named(app.routes) | verbs)
    app.book.counters.append(requests.count)
    collectors: list[Collector] = [requests, *of_gateways.collectors(gateway)]
    if nodes:
        collectors += of_mpc_nodes.collectors(nodes)
    return Seen(REGISTRY, collectors, of_gateways.probes(gateway))


def of_mpc_node(app: App, node: MpcNode) -> Seen:
    """
    Args:
        app: whose requests are counted from now on.
    """
    verbs = {f"/{verb}": verb for verb in node.verbs} | {HELLO_PATH: "hello"}
    requests = Requests(verbs)
    app.book.counters.append(requests.count)
    collectors = [requests, *of_mpc_nodes.collectors([node])]
    return Seen(ROLES[node.me], collectors, of_mpc_nodes.probes(node))
