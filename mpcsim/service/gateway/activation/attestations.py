"""Each MPC node's statement which keys are suspended there, carried to the other.

It is demanded where the MPC node that signs opens a vault alone
(``mpcsim.service.rpc.statements.Attested``). The gateway gets a new one every minute while such
vaults are opened, and keeps the last one: it counts for an hour, also after an MPC node's restart.

Besides, each node remembers for the other what is suspended there, in case that one's store is ever
put back from a backup of before. So when one aborts a signature it is carried at once, before the
client hears of that, and at the start; and again, until it has been heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from mpcsim.ids import ROLES, PartyId
from mpcsim.service.errors import FAILED_DEPENDENCY, LinkFailed, Refused, Unmerged
from mpcsim.service.gateway.links.links import Link, Times, answered
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.statements import Attest, SignedAttestation

LOG = logging.getLogger(__name__)

T = TypeVar("T")

PROMPT_S: Final = 3.0
"""How long a client may wait until an MPC node has heard of the other's abort."""
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 60.0
"""Between two attempts: doubled after each, up to this."""
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
        self._latest: dict[PartyId, SignedAttestation] = {}
        """What each has said."""
        self._exchanged_at: dict[PartyId, float] = {}
        """When each has been told last what the other says."""
        self._exchanges: dict[PartyId, asyncio.Task[bool]] = {}
        self._requested: Counter[PartyId] = Counter()
        """How often each was to be told at once, and how often before it last was."""
        self._delivered: Counter[PartyId] = Counter()
        self._deliveries: dict[PartyId, asyncio.Task[None]] = {}

    async def ask_with_attestation(self, party: PartyId, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask an MPC node for something for which it wants to have heard from the other.

        The other one hears, too: it is who signs when this one is down.

        Raises:
            Refused: as from ``ask``.
        """
        for each in self._links:
            if self._clock() - self._exchanged_at.get(each, -MINUTE_S) >= MINUTE_S:
                self._start_exchange(each)
        try:
            return await ask()
        except Refused as refused:
            if refused.status != FAILED_DEPENDENCY or isinstance(refused, Unmerged):
                raise
            await asyncio.wait([self._start_exchange(party)])
        return await ask()

    async def exchange_now(self) -> None:
        """Tell both now: for a minute nothing is carried in the background."""
        await asyncio.wait([self._start_exchange(each) for each in self._links])

    async def deliver_after_abort(self, by: PartyId) -> None:
        """Have the other MPC node hear at once what one says that has aborted a signature: it may
        have suspended the key. What cannot be done now is done later."""
        (party,) = self._links.keys() - {by}
        self._requested[party] += 1
        task = self._deliveries.get(party)
        if task is None or task.done():
            task = asyncio.get_running_loop().create_task(self._deliver_until_accepted(party))
            self._deliveries[party] = task
        await asyncio.wait([task], timeout=PROMPT_S)

    async def _deliver_until_accepted(self, party: PartyId) -> None:
        delay = FIRST_RETRY_S
        while (requested := self._requested[party]) > self._delivered[party]:
            if await self._exchange(party):
                self._delivered[party] = requested
            else:
                await asyncio.sleep(delay)
                delay = min(2 * delay, LAST_RETRY_S)

    async def exchange_at_start(self) -> None:
        """Have each hear what is suspended at the other, if anything is; nothing else is under way.

        Raises:
            LinkFailed: one cannot be reached.
        """
        for party, link in self._links.items():
            (other,) = self._links.keys() - {party}
            try:
                reply = await self._links[other].ask(Scope("attest"), Attest())
                said = answered(SignedAttestation, other, reply)
                if said.statement.suspended:
                    await link.ask(Scope("hear"), said)
            except LinkFailed:
                raise
            except Refused as refused:
                LOG.warning("the %s has not heard: %s", ROLES[party], refused)

    def _start_exchange(self, party: PartyId) -> asyncio.Task[bool]:
        """Tell an MPC node, in the background, what the other says."""
        task = self._exchanges.get(party)
        if task is None or task.done():
            task = asyncio.get_running_loop().create_task(self._exchange(party))
            self._exchanges[party] = task
        return task

    async def _exchange(self, party: PartyId) -> bool:
        """Tell an MPC node what the other says; whether it has heard what that one says now."""
        (other,) = self._links.keys() - {party}
        new = False
        with suppress(Refused):  # what it said last counts for a while
            reply = await self._links[other].call(Scope("attest"), Attest(), Times())
            self._latest[other] = answered(SignedAttestation, other, reply)
            new = True
        if other not in self._latest:
            return False
        try:
            await self._links[party].call(Scope("hear"), self._latest[other], Times())
            self._exchanged_at[party] = self._clock()
        except Refused as refused:
            LOG.warning("the %s has not heard from the %s: %s", ROLES[party], ROLES[other], refused)
            return False
        return new

    async def stop(self) -> None:
        """Carry nothing more, in this process."""
        tasks: list[asyncio.Task[Any]] = [*self._exchanges.values(), *self._deliveries.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
