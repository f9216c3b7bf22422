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
from mpcsim.service.rpc import pinned_identities, wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.storage.database import StoreFailed

LOG = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""Between two attempts while requests come in."""
PATIENCE_S: Final = 3.0
"""How long the start waits for MPC nodes that are being started, too."""
PAUSE_S: Final = 0.05


class Meeting:
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
        self._reset: set[PartyId] = set()
        """Those that have ended the sessions of an earlier gateway: once, the others are ours."""
        self._introduced: dict[PartyId, bytes] = {}
        """Their identities when they last heard of each other."""
        self._refused: list[tuple[str, PartyId]] = []
        """What they said to that, and of whom."""
        self.over = False
        """The start is. Before, the registry may know less than the MPC nodes."""
        self._attempt: asyncio.Task[None] | None = None
        self._trying: asyncio.Task[None] | None = None
        self._next = -float("inf")

    async def hold(self) -> None:
        """
        Raises:
            Refused: an MPC node cannot be reached, or does not do its part.
            StoreFailed: the registry cannot be written.
        """
        if self._strange:
            await self._introduce()
        if not self.over:
            await self._attestations.at_start()
            await self._activation.resolve_at_start()
            self.over = True

    @property
    def _strange(self) -> bool:
        """Whether they should hear of each other."""
        if self._refused or not self._introduced:
            return True
        return any(
            link.known is not None and link.known.identity != self._introduced[party]
            for party, link in self._links.items()
        )

    async def _introduce(self) -> None:
        hellos = {party: await link.hello(fresh=True) for party, link in self._links.items()}
        for party in self._links.keys() - self._reset:
            await self._links[party].ask(Scope("reset"), wire.Reset())
            self._reset.add(party)
        refused = []
        for one, other in permutations(self._links, 2):
            try:
                await self._links[one].ask(Scope("meet"), hellos[other])
            except LinkFailed:
                raise
            except Refused as refusal:  # keys that are there can be used
                refused.append((str(refusal), getattr(refusal, "party", other)))
                if refused[-1] not in self._refused:
                    LOG.error("%s", refusal)
        identities = {party: hello.identity for party, hello in hellos.items()}
        if identities != self._introduced:
            LOG.info(
                "the MPC nodes, for REST nodes: %s=%s",
                pinned_identities.VARIABLE,
                pinned_identities.format_identities(identities),
            )
        self._introduced, self._refused = identities, refused

    def check(self) -> None:
        """See that they know each other, before they make a key together.

        Raises:
            NodeFailed: one of them took the other for somebody else when last asked.
        """
        for text, party in self._refused:
            raise NodeFailed(UNAVAILABLE, text, party, code=Code.UNTRUSTED_NODE)

    async def begin(self) -> None:
        """At the start: wait a little for MPC nodes that are not up yet, then go on trying: what
        does not fit is said even if nobody asks for anything."""
        deadline = self._clock() + PATIENCE_S
        while not self.over:
            try:
                await self.hold()
            except (Refused, StoreFailed) as failed:
                if self._clock() > deadline:
                    LOG.warning("%s; what the start has to see to waits until it can", failed)
                    self._trying = asyncio.create_task(self._keep_trying())
                    return
                await asyncio.sleep(PAUSE_S)

    async def attend(self) -> None:
        """Before a request: hold it if that is due. It is nothing to the request that it cannot be
        held now."""
        if self.over and not self._strange:
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
        while not self.over:
            await asyncio.sleep(AGAIN_S)
            await self.attend()

    async def _try(self) -> None:
        starting = not self.over
        try:
            await self.hold()
            if starting:
                LOG.info("both MPC nodes have been reached")
        except (Refused, StoreFailed):
            pass  # whoever needs it says so
        finally:
            self._next = self._clock() + AGAIN_S
            self._attempt = None
