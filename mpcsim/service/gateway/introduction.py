"""The MPC nodes hear of each other, and what the gateway's start has to see to.

At the start, or as soon as both can be reached: they end the sessions that the gateway's last run
has left open, hear who the other is and what is suspended there, and what was left undecided comes
to its end. They hear of each other again when one of them says something else than it did, or was
refused: nothing that is said once stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Final

from mpcsim.ids import PartyId
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import UNAVAILABLE, LinkFailed, NodeFailed, Refused
from mpcsim.service.gateway.activation.activation import Activation
from mpcsim.service.gateway.activation.attestations import Attestations
from mpcsim.service.gateway.links.links import Link
from mpcsim.service.rpc import pins, wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.storage.database import StoreFailed

LOG = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Between two attempts while requests come in."""
START_WAIT_S: Final = 3.0
"""How long the start waits for MPC nodes that are being started, too."""
POLL_S: Final = 0.05


class NodeIntroduction:
    """Of both MPC nodes."""

    def __init__(
        self,
        links: Mapping[PartyId, Link],
        activation: Activation,
        attestations: Attestations,
        clock: Callable[[], float],
    ) -> None:
        """
        Args:
            clock: monotonic seconds.
        """
        self._links = links
        self._activation = activation
        self._attestations = attestations
        self._clock = clock
        self._reset_nodes: set[PartyId] = set()
        """Those that have ended the sessions of an earlier gateway: once, the others are ours."""
        self._introduced: dict[PartyId, bytes] = {}
        """Their identities when they last heard of each other."""
        self._refusals: list[tuple[str, PartyId]] = []
        """What they said to that, and of whom."""
        self.start_is_over = False
        """The start is. Before, the registry may know less than the MPC nodes."""
        self._introducing: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._next_attempt_at = -float("inf")

    async def introduce(self) -> None:
        """
        Raises:
            Refused: an MPC node cannot be reached, or does not do its part.
            StoreFailed: the registry cannot be written.
        """
        if self._is_stale:
            await self._exchange_hellos()
        if not self.start_is_over:
            await self._attestations.exchange_at_start()
            await self._activation.resolve_at_start()
            self.start_is_over = True

    @property
    def _is_stale(self) -> bool:
        """Whether they should hear of each other."""
        if self._refusals or not self._introduced:
            return True
        return any(
            link.last_hello is not None and link.last_hello.identity != self._introduced[party]
            for party, link in self._links.items()
        )

    async def _exchange_hellos(self) -> None:
        hellos = {party: await link.hello(fresh=True) for party, link in self._links.items()}
        for party in self._links.keys() - self._reset_nodes:
            await self._links[party].ask(Scope("reset"), wire.Reset())
            self._reset_nodes.add(party)
        refused = []
        for one, other in permutations(self._links, 2):
            try:
                await self._links[one].ask(Scope("meet"), hellos[other])
            except LinkFailed:
                raise
            except Refused as refusal:  # keys that are there can be used
                refused.append((str(refusal), getattr(refusal, "party", other)))
                if refused[-1] not in self._refusals:
                    LOG.error("%s", refusal)
        identities = {party: hello.identity for party, hello in hellos.items()}
        if identities != self._introduced:
            LOG.info("the MPC nodes, for REST nodes: %s=%s", pins.VARIABLE, pins.text(identities))
        self._introduced, self._refusals = identities, refused

    def check_introduced(self) -> None:
        """See that they know each other, before they make a key together.

        Raises:
            NodeFailed: one of them took the other for somebody else when last asked.
        """
        for text, party in self._refusals:
            raise NodeFailed(UNAVAILABLE, text, party, code=Code.UNTRUSTED_NODE)

    async def introduce_at_start(self) -> None:
        """At the start: wait a little for MPC nodes that are not up yet, then go on trying: what
        does not fit is said even if nobody asks for anything."""
        deadline = self._clock() + START_WAIT_S
        while not self.start_is_over:
            try:
                await self.introduce()
            except (Refused, StoreFailed) as failed:
                if self._clock() > deadline:
                    LOG.warning("%s; what the start has to see to waits until it can", failed)
                    self._retrying = asyncio.create_task(self._retry_in_background())
                    return
                await asyncio.sleep(POLL_S)

    async def ensure_introduced(self) -> None:
        """Before a request: hold it if that is due. It is nothing to the request that it cannot be
        held now."""
        if self.start_is_over and not self._is_stale:
            return
        if self._introducing is None and self._clock() >= self._next_attempt_at:
            self._introducing = asyncio.create_task(self._introduce_once())
        if self._introducing is not None:
            await asyncio.wait([self._introducing])

    async def stop(self) -> None:
        """Try no more."""
        for task in filter(None, (self._retrying, self._introducing)):
            task.cancel()
            await asyncio.wait([task])

    async def _retry_in_background(self) -> None:
        while not self.start_is_over:
            await asyncio.sleep(RETRY_S)
            await self.ensure_introduced()

    async def _introduce_once(self) -> None:
        starting = not self.start_is_over
        try:
            await self.introduce()
            if starting:
                LOG.info("both MPC nodes have been reached")
        except (Refused, StoreFailed):
            pass  # whoever needs it says so
        finally:
            self._next_attempt_at = self._clock() + RETRY_S
            self._introducing = None
