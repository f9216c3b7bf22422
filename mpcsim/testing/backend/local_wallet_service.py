"""A whole wallet service in this process, in virtual time, with the switches of fault injection.

    with LocalWalletService() as service:
        alice = service.user("alice")
        service.control.fail_next("sign", 504)
        with service.control.down("operator"):
            ...

Nothing is started and nobody waits: a hundred services a minute, so that Hypothesis can draw what
fails when. ``mpcsim.testing.wallet_plugin`` has it as the fixture ``local_wallet_service``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import httpx
from starlette.applications import Starlette

from mpcsim.errors import UsageError
from mpcsim.ids import MPC_NODES, ROLES
from mpcsim.service.fault_injection import ProcessFaults
from mpcsim.service.fault_injection.client import Control
from mpcsim.service.fault_injection.commands import PARTS, check_answer, find_command
from mpcsim.service.vault import Argon2Cost
from mpcsim.service.web.transport import ConnectFailed, Reply, Transport
from mpcsim.sim.run.faults import Crash
from mpcsim.sim.scenario import Scenario
from node.controlled import fault_middleware
from node.local import LocalService

_PARTIES: Final = {ROLES[party]: party for party in MPC_NODES}
CHEAP: Final = Argon2Cost(operations=1, memory_kib=64)
SHORT_S: Final = 1.0
"""Seconds for which a token holds that is to have expired."""


class LocalWalletService(LocalService):
    """``LocalService`` with the switches of a service that runs with ``--control``.

    =================  ===========================================================================
    ``fail_next``      as there, with the same answers
    ``down``, ``up``   an MPC node is restarted, and cannot be reached until it is up; the gateway,
    ``kill``           and the node, keep what they have in memory
    ``slow``, ``cut``  of the node alone
    ``expire``         tokens that this object issues, in place of those of a login
    ``network``        as there
    =================  ===========================================================================

    The clock is that of the service: ``wait`` moves it. Users stay; ``example`` has new ones.
    """

    control: Control
    """The switches."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Start the service; arguments as for ``LocalService``, but passwords are cheap.

        Raises:
            UsageError: as there.
        """
        self._faults = ProcessFaults()
        self._down: set[str] = set()
        self._expired_due = 0
        self._numbers = count(1)
        super().__init__(*args, **{"cost": CHEAP, **options})
        network = self.gateway.network
        self._as_started = network.model, network.faults, network.seed
        self._in_force = self._as_started
        self.control = Control(self._execute)

    # ------------------------------------------------------------------ of tests

    @contextmanager
    def example(self) -> Iterator[str]:
        """Yield the name of a new user; at the end all faults are undone. For one example of
        Hypothesis, whose examples share a fixture."""
        try:
            yield f"user-{next(self._numbers)}"
        finally:
            self.control.reset()

    def token(self, user: str) -> str:
        """Return a new access token for a user, who is signed up first if need be."""
        if not self._expired_due:
            return self.gateway.token(user)
        self._expired_due -= 1
        token = self.gateway.token(user, SHORT_S)
        self.wait(2000 * SHORT_S)
        return token

    # ------------------------------------------------------------------ hooks of LocalService

    def gateway_transport(self, transport: Transport) -> Transport:
        """Return a transport that makes no connection while the gateway is down."""
        return _SwitchedTransport(transport, self._down)

    def prepare_node(self, app: Starlette) -> None:
        """Insert the faults around a node, innermost, so that its log shows them."""
        app.user_middleware.append(fault_middleware(self._faults))

    async def answer(self, request: httpx.Request, node: int = 0) -> httpx.Response:
        """Answer one request.

        Raises:
            httpx.ConnectError: the node is down.
            httpx.ReadTimeout: the request's timeout is over.
        """
        if "node" in self._down:
            raise httpx.ConnectError("nobody listens", request=request)
        return await super().answer(request, node)

    # ------------------------------------------------------------------ the switches

    def _execute(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        given = find_command(name).parse_arguments(arguments)
        do = getattr(self, f"_do_{name}", None)
        if do is None:
            raise UsageError(f"{name} needs a service of processes: the fixture wallet_service")
        found: dict[str, Any] = do(**given) or {}
        return found

    def _do_down(self, part: str) -> None:
        self._down.add(part)
        self._put()

    def _do_up(self, part: str) -> None:
        self._down.discard(part)
        self._put()

    def _do_kill(self, part: str) -> None:
        self._do_down(part)
        self._do_up(part)

    def _do_slow(self, part: str, ms: float) -> None:
        self._set_node("slow", part, delay_ms=ms)

    def _do_cut(self, part: str) -> None:
        self._set_node("cut", part, cut=True)

    def _do_mend(self, part: str) -> None:
        self._set_node("mend", part, cut=False)

    def _do_network(self, scenario: str | None = None) -> None:
        self._in_force = self._as_started
        if scenario is not None:
            under = Scenario.loads(scenario)
            under.check_service()
            self._in_force = under.network, tuple(under.faults), under.seed
        self._put()

    def _do_expire(self, times: int = 1) -> None:
        self._expired_due = times

    def _do_fail(self, endpoint: str, answer: str, times: int = 1, done: bool = False) -> None:
        check_answer(endpoint, answer)
        self._say("fail", endpoint=endpoint, answer=answer, times=times, done=done)

    def _do_status(self) -> dict[str, Any]:
        conditions = self._faults.conditions
        return {
            "parts": {part: {"runs": part not in self._down} for part in PARTS},
            "fail": self._faults.apply("tell")["fail"],
            "expire": self._expired_due,
            "slow_ms": conditions.delay_ms,
            "cut": conditions.cut,
        }

    def _do_reset(self) -> None:
        self._down.clear()
        self._expired_due = 0
        self._say("clear")
        self._say("set")
        self._do_network()

    def _set_node(self, name: str, part: str, **changed: Any) -> None:
        if part != "node":
            raise UsageError(f"{name}: of a local service the node alone; {part} needs a process")
        conditions = self._faults.conditions
        now = {"delay_ms": conditions.delay_ms, "cut": conditions.cut}
        self._say("set", **(now | changed))

    def _say(self, do: str, **fields: Any) -> None:
        async def said() -> None:
            self._faults.apply(do, **fields)

        self.run(said())

    def _put(self) -> None:
        """Apply network and faults; an MPC node that is down has crashed for good."""
        network, faults, seed = self._in_force
        down = [Crash(_PARTIES[part], 0) for part in sorted(self._down & _PARTIES.keys())]
        self.change(network, (*faults, *down), seed)


class _SwitchedTransport:
    """Transport to a gateway that may be down."""

    def __init__(self, transport: Transport, down: set[str]) -> None:
        self._transport = transport
        self._down = down

    async def request(self, method: str, path: str, **options: Any) -> Reply:
        """Implement ``Transport.request``."""
        if "gateway" in self._down:
            raise ConnectFailed
        return await self._transport.request(method, path, **options)

    async def close(self) -> None:
        await self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
