"""A whole service in this process that can be looked at: node, gateway, both MPC nodes."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from mpcsim.service.metrics.exposition import expose_metrics
from mpcsim.service.operations import RunningGateway, open_gateway
from mpcsim.service.operations.supervisor import HOST, free_port
from mpcsim.service.process.http_limits import ConnectionLimits, Connections
from mpcsim.service.web.transport import AsgiTransport
from node.api.metrics import metrics_source
from node.app import create_app
from node.gateway_client.client import GatewayClient
from node.wallet.wallet import Wallet
from tests.node.harness import CHEAP, PASSWORD, SETTINGS, Api, Loop, answer

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class LookedAt:
    api: Api
    gateway: RunningGateway
    ports: dict[str, str]
    """Addresses at which node and gateway can be looked at."""

    def samples(self, part: str) -> Samples:
        """What is shown of a part, as the client library's own parser reads it."""
        text = httpx.get(f"{self.ports[part]}/metrics", trust_env=False).text
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


@contextmanager
def looked_at() -> Iterator[LookedAt]:
    """With a key on ed25519, which has signed three times."""
    loop, gateway, lifespans = Loop(), open_gateway(), AsyncExitStack()
    client = GatewayClient(AsgiTransport(gateway.app))
    app = create_app(SETTINGS, client, Wallet(client, cost=CHEAP))
    with ExitStack() as opened:
        opened.callback(loop.close)
        opened.callback(gateway.close)
        ports = {}
        for name, what, of in (
            ("gateway", gateway.app, gateway.metrics_source()),
            ("node", app, metrics_source(app)),
        ):
            port, connections = free_port(), Connections(ConnectionLimits())
            opened.enter_context(expose_metrics(what, of, HOST, port, connections))
            ports[name] = f"http://{HOST}:{port}"
            loop.run(lifespans.enter_async_context(what.router.lifespan_context(what)))
        opened.callback(lambda: loop.run(lifespans.aclose()))
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://node")
        opened.callback(lambda: loop.run(http.aclose()))
        found = LookedAt(Api(app, loop, http), gateway, ports)
        alice = found.api.as_user(gateway.token("alice"))
        new = {"curve": "ed25519", "password": PASSWORD}
        share = answer(alice.post("/v3/wallet/generate", new))
        for _ in range(3):
            answer(alice.post("/v3/wallet/sign", {**share, "message": "11" * 32}))
        yield found
