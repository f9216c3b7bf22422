"""Each MPC node's statement which keys are suspended there, carried to the other.

It is demanded where the MPC node that signs opens a vault alone (``rpc.statements.Attested``). The
gateway gets a new one every minute while such vaults are opened, and keeps the last one: it counts
for an hour, also after an MPC node's restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from mpcsim.gateway.links import Link, Times, answered
from mpcsim.ids import ROLES, PartyId
from mpcsim.rpc.errors import FAILED_DEPENDENCY, Refused, Unmerged
from mpcsim.rpc.grants import Scope
from mpcsim.rpc.statements import Attest, SignedAttestation

LOG = logging.getLogger(__name__)

T = TypeVar("T")

MINUTE_S: Final = 60.0
"""How old the last exchange may be before there is another one, in the background."""


class Attestations:
    """Of both MPC nodes."""

    def __init__(self, links: Mapping[PartyId, Link], clock: Callable[[], float]) -> None:
        """
        Args:
            clock: monotonic seconds.
        """
        self._links = links
        self._clock = clock
        self._last: dict[PartyId, SignedAttestation] = {}
        """What each has said."""
        self._exchanged: dict[PartyId, float] = {}
        """When each has been told last what the other says."""
        self._under_way: dict[PartyId, asyncio.Task[None]] = {}

    async def demanded(self, party: PartyId, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask an MPC node for something for which it wants to have heard from the other.

        The other one hears, too: it is who signs when this one is down.

        Raises:
            Refused: as from ``ask``.
        """
        for each in self._links:
            if self._clock() - self._exchanged.get(each, -MINUTE_S) >= MINUTE_S:
                self._begin(each)
        try:
            return await ask()
        except Refused as refused:
            if refused.status != FAILED_DEPENDENCY or isinstance(refused, Unmerged):
                raise
            await asyncio.wait([self._begin(party)])
        return await ask()

    async def renew(self) -> None:
        """Tell both now: for a minute nothing is carried in the background."""
        await asyncio.wait([self._begin(each) for each in self._links])

    def _begin(self, party: PartyId) -> asyncio.Task[None]:
        """Tell an MPC node, in the background, what the other says."""
        task = self._under_way.get(party)
        if task is None or task.done():
            task = asyncio.get_running_loop().create_task(self._exchange(party))
            self._under_way[party] = task
        return task

    async def _exchange(self, party: PartyId) -> None:
        (other,) = self._links.keys() - {party}
        with suppress(Refused):  # what it said last counts for a while
            reply = await self._links[other].call(Scope("attest"), Attest(), Times())
            self._last[other] = answered(SignedAttestation, other, reply)
        if other not in self._last:
            return
        try:
            await self._links[party].call(Scope("hear"), self._last[other], Times())
            self._exchanged[party] = self._clock()
        except Refused as refused:
            LOG.warning("the %s has not heard from the %s: %s", ROLES[party], ROLES[other], refused)

    async def stop(self) -> None:
        """Carry nothing more, in this process."""
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
