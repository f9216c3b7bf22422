"""Introduction of both MPC nodes to each other, and the work that a starting gateway owes them.

``introduce`` does, in this order:

1. ask both nodes who they are (``hello``), and have each end the sessions of the gateway's last run
2. bring each node the other's hello (``meet``), whose identity it pins when it first hears of it
3. once after the start: carry suspensions from each node to the other, and finish activations that
   the last run left undecided

The gateway tries this at its start, then in the background. Steps 1 and 2 are repeated before a
request if a node's identity has changed or a node refused the other: nothing said once is kept.
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
from mpcsim.service.web.logs import OF_START

LOG = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Pause between two attempts while requests come in."""
START_WAIT_S: Final = 3.0
"""Time that the start waits for MPC nodes that are starting, too."""
POLL_S: Final = 0.05
"""Pause between two attempts within that time."""


class NodeIntroduction:
    """Makes both MPC nodes exchange identities, and repeats that when one changes or refuses."""

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
        """Nodes that have ended the sessions of an earlier gateway; later ones are this one's."""
        self._introduced: dict[PartyId, bytes] = {}
        """Identities that the nodes had at the last introduction."""
        self._refusals: list[tuple[str, PartyId]] = []
        """Refusals of the last introduction: text, and the node that was refused."""
        self.start_is_over = False
        """True once ``introduce`` has succeeded; before, the registry may know less than the MPC
        nodes."""
        self._introducing: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._next_attempt_at = -float("inf")

    async def introduce(self) -> None:
        """Introduce the nodes to each other if that is due; after the start, finish what is open.

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
        """Whether the nodes must be introduced again."""
        if self._refusals or not self._introduced:
            return True
        return any(
            link.last_hello is not None and link.last_hello.identity != self._introduced[party]
            for party, link in self._links.items()
        )

    async def _exchange_hellos(self) -> None:
        """Carry each node's hello to the other. A refusal is logged: existing keys still work."""
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
            except Refused as refusal:
                refused.append((str(refusal), getattr(refusal, "party", other)))
                if refused[-1] not in self._refusals:
                    LOG.error("%s", refusal)
        identities = {party: hello.identity for party, hello in hellos.items()}
        if identities != self._introduced:
            LOG.info(
                "identities of the MPC nodes, for the settings of REST nodes: %s=%s",
                pinned_identities.VARIABLE,
                pinned_identities.format_identities(identities),
                extra={OF_START: True},
            )
        self._introduced, self._refusals = identities, refused

    def check_introduced(self) -> None:
        """Check that the nodes know each other, before they make a key together.

        Raises:
            NodeFailed: one of them took the other for somebody else when last introduced.
        """
        for text, party in self._refusals:
            raise NodeFailed(UNAVAILABLE, text, party, code=Code.UNTRUSTED_NODE)

    async def introduce_at_start(self) -> None:
        """Introduce the nodes when the gateway starts.

        Wait ``START_WAIT_S`` for nodes that are not up yet, then retry in the background, so that
        inconsistent stores are logged even if no request comes.
        """
        deadline = self._clock() + START_WAIT_S
        while not self.start_is_over:
            try:
                await self.introduce()
            except (Refused, StoreFailed) as failed:
                if self._clock() > deadline:
                    LOG.warning("%s; the gateway retries in the background", failed)
                    self._retrying = asyncio.create_task(self._retry_in_background())
                    return
                await asyncio.sleep(POLL_S)

    async def ensure_introduced(self) -> None:
        """Introduce the nodes before a request, if that is due. A failure does not fail the
        request: the operation that needs the nodes reports it."""
        if self.start_is_over and not self._is_stale:
            return
        if self._introducing is None and self._clock() >= self._next_attempt_at:
            self._introducing = asyncio.create_task(self._introduce_once())
        if self._introducing is not None:
            await asyncio.wait([self._introducing])

    async def stop(self) -> None:
        """Cancel attempts that are under way."""
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
                LOG.info("connected to operator and institution")
        except (Refused, StoreFailed):
            pass  # the operation that needs the nodes reports it
        finally:
            self._next_attempt_at = self._clock() + RETRY_S
            self._introducing = None
