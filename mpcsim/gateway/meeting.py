"""What is seen to when the gateway, after its start, first reaches both MPC nodes.

They hear of each other, end the sessions that the gateway's last run has left open, and what it
left undecided comes to its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Final

from mpcsim.gateway.activation import Activation
from mpcsim.gateway.links import Link
from mpcsim.ids import PartyId
from mpcsim.rpc import pins
from mpcsim.rpc.errors import LinkFailed, Refused
from mpcsim.rpc.grants import Scope

LOG = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""Between two attempts to reach MPC nodes that could not be reached."""
PATIENCE_S: Final = 3.0
"""How long the start waits for MPC nodes that are being started, too."""
PAUSE_S: Final = 0.05


class Meeting:
    """It takes place once, at the start or as soon as both MPC nodes can be reached."""

    def __init__(
        self, links: Mapping[PartyId, Link], activation: Activation, clock: Callable[[], float]
    ) -> None:
        """
        Args:
            clock: monotonic seconds.
        """
        self._links = links
        self._activation = activation
        self._clock = clock
        self._met = False
        """The MPC nodes have been introduced: once, for they end what they take for the sessions of
        an earlier gateway."""
        self._over = False
        self._attempt: asyncio.Task[None] | None = None
        self._trying: asyncio.Task[None] | None = None
        self._next = -float("inf")

    async def hold(self) -> None:
        """
        Raises:
            LinkFailed: an MPC node cannot be reached.
        """
        if not self._met:
            await self._introduce()
            self._met = True
        await self._activation.resolve_at_start()
        self._over = True

    async def _introduce(self) -> None:
        hellos = {party: await link.hello() for party, link in self._links.items()}
        identities = {party: hello.identity for party, hello in hellos.items()}
        LOG.info("the MPC nodes, for REST nodes: %s=%s", pins.VARIABLE, pins.text(identities))
        for one, other in permutations(self._links, 2):
            try:
                await self._links[one].ask(Scope("meet"), hellos[other])
            except LinkFailed:
                raise
            except Refused as refused:  # keys that are there can be used
                LOG.error("%s", refused)

    async def begin(self) -> None:
        """At the start: wait a little for MPC nodes that are not up yet, then go on trying: what
        does not fit is said even if nobody asks for anything."""
        deadline = self._clock() + PATIENCE_S
        while not self._over:
            try:
                await self.hold()
            except LinkFailed as failed:
                if self._clock() > deadline:
                    LOG.warning("%s; what the start has to see to waits until it can", failed)
                    self._trying = asyncio.create_task(self._keep_trying())
                    return
                await asyncio.sleep(PAUSE_S)

    async def attend(self) -> None:
        """Before a request: hold it if it could not be held before. It is nothing to the request
        that it cannot be held now."""
        if self._over:
            return
        if self._attempt is None and self._clock() >= self._next:
            self._attempt = asyncio.create_task(self._try())
        if self._attempt is not None:
            await asyncio.wait([self._attempt])

    async def stop(self) -> None:
        """Try no more."""
        for task in filter(None, (self._trying, self._attempt)):
            task.cancel()
            await asyncio.wait([task])

    async def _keep_trying(self) -> None:
        while not self._over:
            await asyncio.sleep(AGAIN_S)
            await self.attend()

    async def _try(self) -> None:
        try:
            await self.hold()
            LOG.info("both MPC nodes have been reached")
        except LinkFailed:
            self._next = self._clock() + AGAIN_S
        finally:
            self._attempt = None
