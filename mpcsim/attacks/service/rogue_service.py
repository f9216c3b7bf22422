"""Rogue gateway and MPC nodes: honest code in the attacker's hands, for one victim."""

from __future__ import annotations

from typing import Any

from mpcsim.attacks.service.attack_environment import (
    AttackEnvironment,
    StolenCredentials,
    Strings,
    User,
)
from mpcsim.attacks.service.hostile import Call, InterceptingProxy
from mpcsim.ids import MPC_NODES
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.operations import GatewayOptions, open_gateway
from mpcsim.service.web.transport import AsgiTransport, Limits
from node.gateway_client.client import GatewayClient

DIVERTED = ("/mpc/v1/", "/wallet/v1/")
"""Paths of requests that are diverted to the rogue service."""


class RogueService:
    """Gateway with both MPC nodes, to which a corrupt gateway diverts a victim's requests."""

    def __init__(
        self,
        env: AttackEnvironment,
        proxy: InterceptingProxy,
        victim: User,
        *,
        introduced: bool = True,
    ) -> None:
        """
        Args:
            introduced: whether the rogue MPC nodes' identities are shown; otherwise the real ones'.
        """
        self._env = env
        self._introduced = introduced

        self.gateway = open_gateway(
            options=GatewayOptions(clock=env.now, timer=env.now, now=env.now)
        )
        self._register_victim(victim)
        self._token = self.gateway.token(victim.name)
        proxy.before = self.divert_request

    def _register_victim(self, victim: User) -> None:
        """Register the victim under the same identifier."""
        with self.gateway.gateway.registry._database.transaction() as cursor:
            cursor.execute("INSERT INTO users VALUES (?, ?, '')", (victim.user_id, victim.name))

    def divert_request(self, call: Call) -> None:
        """Divert a request about keys to the rogue service."""
        if call.path == "/mpc/v1/nodes" and not self._introduced:
            return
        if call.path.startswith(DIVERTED):
            call.headers = {**call.headers, "authorization": f"Bearer {self._token}"}
            call.app = self.gateway.app

    def plant_key(self) -> Strings:
        """Generate a key of the attacker's own under the victim's name."""
        client = GatewayClient(AsgiTransport(self.gateway.app, Limits()))
        planting = StolenCredentials(self._env, self._token, client)
        return planting.make()

    def shares(self) -> list[KeyShare]:
        """Return both rogue MPC nodes' shares of the victim's key."""
        stores: list[Any] = [self.gateway.links[party].node.store for party in MPC_NODES]
        rows = [row for store in stores for row in store._database.rows("SELECT share FROM shares")]
        return [KeyShare.from_bytes(share) for (share,) in rows]
