"""This project's own node as a target of the kit: in process, in virtual time, on files.

Every ability that a target can have: parts can be stopped and killed, messages lost, tokens expire,
logs are read. In virtual time nothing of that takes any time.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mpcsim.ids import ROLES
from mpcsim.service.rpc.tokens import TokenIssuer
from mpcsim.service.vault import Argon2Cost
from mpcsim.service.web.logs import JsonLines
from mpcsim.service.web.transport import AsgiTransport, Reply, Transport
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.faults import drop
from mpcsim.testing import AsgiService, AsgiTarget, Part
from node.app import create_app
from node.errors import Unreachable
from node.gateway_client.client import GatewayClient
from node.local import VIRTUAL_START, LocalService
from node.process.settings import Settings
from node.wallet.wallet import Wallet

CHEAP = Argon2Cost(operations=1, memory_kib=8)
EXPIRY_MS = 61_000.0
"""Any session has expired after that."""
LOGGERS = ("node", "mpcsim")

Wrap = Callable[[Any], Any]
"""From the node's ASGI application to another one, which may be faulty."""


def our_app(gateway: Any) -> Any:
    """The node's application at an open gateway, in real time; with none of the abilities."""
    client = GatewayClient(AsgiTransport(gateway.app))
    return create_app(Settings(waas_api_url="http://gateway"), client, Wallet(client, cost=CHEAP))


class Cable:
    """A transport to the gateway that can be pulled out."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.down = False

    async def request(self, method: str, path: str, **options: Any) -> Reply:
        if self.down:
            raise Unreachable
        return await self.inner.request(method, path, **options)

    async def close(self) -> None:
        await self.inner.close()


class OwnNode(AsgiTarget):
    """The target."""

    stoppable: Sequence[Part] = ("gateway", "operator", "institution")
    restartable: Sequence[Part] = ("gateway", "operator", "institution")
    signers = ("operator", "institution")
    deepest = 10
    most_presignatures = 64
    recipe = "from tests.testing.own_node import OwnNode\n\ntarget = OwnNode()"

    def __init__(self, wrap: Wrap = lambda app: app) -> None:
        self.wrap = wrap
        self._folder = Path(tempfile.mkdtemp(prefix="own-node-"))
        super().__init__(
            self._open(),
            lambda user: self.local.gateway.token(user),
            loop=self.local,
            lifespan=False,
            loggers=LOGGERS,
            formatter=JsonLines(),
            recipe=self.recipe,
        )

    def _open(self) -> Any:
        """Start the node and its gateway on the files; the application."""
        network = Network.star(20.0, 5.0, 140.0)
        self.local = LocalService(network, folder=self._folder, cost=CHEAP)
        gateway_client: Any = self.local.app.state.authenticator._gateway
        self.cable = Cable(gateway_client._transport)
        gateway_client._transport = self.cable
        return self.wrap(self.local.app)

    def expired_token(self, user: str) -> str:
        registry = self.local.gateway.gateway.registry
        found = registry.user_by_name(user)
        assert found is not None
        past = TokenIssuer(registry.signing_key(), lambda: VIRTUAL_START - 7200)
        return past.issue_access(found.user_id, found.username, 3600)

    def stop(self, part: Part) -> None:
        self._way_to(part).down = True

    def start(self, part: Part) -> None:
        self._way_to(part).down = False
        self.local.wait(EXPIRY_MS)

    def restart(self, part: Part) -> None:
        if part == "gateway":
            down = [link.down for link in self.local.gateway.links.values()]
            self.service.close()
            self.service = AsgiService(self._open(), self.local, lifespan=False)
            for link, was_down in zip(self.local.gateway.links.values(), down, strict=True):
                link.down = was_down
        else:
            self.local.run(_done(self._way_to(part).node.restart))

    def lose(self, nth: int) -> None:
        self.local.change(self.local.gateway.network.model, [drop(nth=nth)])

    def lose_nothing(self) -> None:
        self.local.change(self.local.gateway.network.model)
        self.local.wait(EXPIRY_MS)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._folder)

    def _way_to(self, part: Part) -> Any:
        """The cable to the gateway, or its link to an MPC node."""
        links = self.local.gateway.links
        return {"gateway": self.cable, **{ROLES[party]: links[party] for party in links}}[part]


async def _done(act: Callable[[], object]) -> None:
    await asyncio.sleep(0)
    act()
