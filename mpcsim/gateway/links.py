"""The link from the gateway to an MPC node: where time passes, and where it can fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from mpcsim.ids import ROLES, PartyId
from mpcsim.rpc import wire
from mpcsim.rpc.carrier import GATEWAY, Carrier
from mpcsim.rpc.errors import at_odds, timed_out, unreachable
from mpcsim.rpc.grants import AnotherBoot, GrantIssuer, GrantRefused, Scope
from mpcsim.rpc.threads import in_thread

LOG = logging.getLogger(__name__)

LINK_TIMEOUT_S: Final = 20.0
"""How long the gateway waits for an MPC node."""


class Handler(Protocol):
    """An MPC node, as its link sees it."""

    @property
    def me(self) -> PartyId: ...
    def hello(self) -> wire.Hello: ...
    def handle(self, verb: str, grant: bytes, body: bytes) -> bytes: ...
    def restart(self) -> None: ...


@dataclass
class Times:
    """Where the time of a request went: milliseconds by name."""

    spent: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, ms: float) -> None:
        self.spent[name] = self.spent.get(name, 0.0) + ms

    def header(self) -> str:
        """As a Server-Timing header."""
        return ", ".join(f"{name};dur={ms:.2f}" for name, ms in self.spent.items())


class Link:
    """From the gateway to one MPC node and back."""

    def __init__(
        self,
        node: Handler,
        issuer: GrantIssuer,
        carrier: Carrier,
        *,
        timer: Callable[[], float],
        timeout_s: float = LINK_TIMEOUT_S,
    ) -> None:
        """A link.

        Args:
            issuer: of grants for this node.
            timer: seconds, to measure what the node computes and the link takes.
        """
        self.node = node
        self.timeout_s = timeout_s
        self.down = False
        """True: nothing gets through."""
        self._issuer = issuer
        self._carrier = carrier
        self._timer = timer
        self._boot: bytes | None = None
        """The node's, as last heard."""

    async def call(
        self, scope: Scope, body: wire.Body, times: Times, *, quick: bool = False
    ) -> bytes:
        """Ask the node. When this ends, the node is done with the request, or never had it.

        Args:
            scope: what is asked for, and in whose name.
            quick: it computes for a few milliseconds and does not wait for the disk, so that a
                thread is not worth its while.

        Raises:
            Refused: the node refuses; ``LinkFailed``: it cannot be reached, or is late.
        """
        party, carrier = self.node.me, self._carrier
        if self.down or carrier.down(party, self.node.restart):
            raise unreachable(party)
        data = body.to_bytes()
        began, compute = self._timer(), 0.0
        try:
            async with asyncio.timeout(self.timeout_s):
                await carrier.carry(GATEWAY, party, len(data))
                called = self._timer()
                try:
                    reply = await self._ask(scope, data, quick)
                finally:
                    compute = self._timer() - called
                    carrier.handled(party)
                await carrier.carry(party, GATEWAY, len(reply))
        except TimeoutError:
            raise timed_out(party) from None
        finally:
            times.add(ROLES[party], compute * 1000)
            times.add(f"{ROLES[party]}-link", (self._timer() - began - compute) * 1000)
        return reply

    async def _ask(self, scope: Scope, data: bytes, quick: bool) -> bytes:
        with self._agreeing(scope):
            try:
                return await self._granted(scope, data, quick)
            except AnotherBoot:  # it has been started anew since it was last asked
                self._boot = None
                return await self._granted(scope, data, quick)

    async def _granted(self, scope: Scope, data: bytes, quick: bool) -> bytes:
        grant = self.grant(scope)
        if quick:
            return self.node.handle(scope.verb, grant, data)
        return await in_thread(self.node.handle, scope.verb, grant, data)

    def call_now(self, scope: Scope, body: wire.Body) -> bytes:
        """Ask the node before the first request, when no time passes on the way.

        Raises:
            Refused: the node refuses.
        """
        with self._agreeing(scope):
            return self.node.handle(scope.verb, self.grant(scope), body.to_bytes())

    @contextmanager
    def _agreeing(self, scope: Scope) -> Iterator[None]:
        try:
            yield
        except GrantRefused as refused:
            LOG.error("%s at the %s: %s", scope.verb, ROLES[self.node.me], refused)
            raise at_odds(self.node.me) from None

    def grant(self, scope: Scope) -> bytes:
        """What the node is shown with a request."""
        if self._boot is None:
            self._boot = self.node.hello().boot
        return self._issuer.issue(scope, self._boot)
