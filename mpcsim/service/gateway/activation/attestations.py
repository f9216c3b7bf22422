"""Carrier of attestations: each MPC node's signed list of suspended keys is brought to the other.

The protocol is on the page of ``suspensions`` (steps 2' to 5'). Carried are:

- at the gateway's start, what is suspended at either node
- after an MPC node aborted a signature: at once, before the client hears of it, and again until the
  other node has accepted it
- while vaults are opened by the signing node alone: every minute, and when a node demands it. A
  statement counts for an hour; the gateway keeps the last one, for a node that restarts meanwhile
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
from mpcsim.service.gateway.links.links import Link, Times, decode_answer
from mpcsim.service.process.backoff import retry_pauses
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.statements import GetAttestation, SignedAttestation

LOG = logging.getLogger(__name__)

T = TypeVar("T")

PROMPT_S: Final = 3.0
"""Longest time that a client waits until an MPC node has heard of the other's abort."""
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 60.0
"""Pause between two attempts: doubled after each, up to this."""
MINUTE_S: Final = 60.0
"""Age of the last exchange after which the next one starts in the background."""


class Attestations:
    """Carries attestations between both MPC nodes."""

    def __init__(self, links: Mapping[PartyId, Link], clock: Callable[[], float]) -> None:
        """
        Args:
            clock: monotonic seconds.
        """
        self._links = links
        self._clock = clock
        self._latest: dict[PartyId, SignedAttestation] = {}
        """Latest statement of each node."""
        self._exchanged_at: dict[PartyId, float] = {}
        """Time at which each node last accepted the other's statement."""
        self._exchanges: dict[PartyId, asyncio.Task[bool]] = {}
        self._requested: Counter[PartyId] = Counter()
        """Number of immediate deliveries requested for each node, and (next) the number that the
        last successful one covers."""
        self._delivered: Counter[PartyId] = Counter()
        self._deliveries: dict[PartyId, asyncio.Task[None]] = {}

    async def ask_with_attestation(self, party: PartyId, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask an MPC node for something that may need a recent statement of the other.

        If it demands one, deliver it and ask once more. The other node is brought one, too: it
        signs when this one is down.

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
        """Exchange statements now; for a minute none are exchanged in the background."""
        await asyncio.wait([self._start_exchange(each) for each in self._links])

    async def deliver_after_abort(self, by: PartyId) -> None:
        """Deliver at once the statement of a node that aborted a signature, since it may have
        suspended the key. A delivery that fails is repeated in the background."""
        (party,) = self._links.keys() - {by}
        self._requested[party] += 1
        task = self._deliveries.get(party)
        if task is None or task.done():
            task = asyncio.get_running_loop().create_task(self._deliver_until_accepted(party))
            self._deliveries[party] = task
        await asyncio.wait([task], timeout=PROMPT_S)

    async def _deliver_until_accepted(self, party: PartyId) -> None:
        pauses_s = retry_pauses(FIRST_RETRY_S, LAST_RETRY_S)
        while (requested := self._requested[party]) > self._delivered[party]:
            if await self._exchange(party):
                self._delivered[party] = requested
            else:
                await asyncio.sleep(next(pauses_s))

    async def exchange_at_start(self) -> None:
        """Deliver to each node what is suspended at the other; no other request is under way.

        Raises:
            LinkFailed: one cannot be reached.
        """
        for party, link in self._links.items():
            (other,) = self._links.keys() - {party}
            try:
                reply = await self._links[other].ask(Scope("attest"), GetAttestation())
                signed = decode_answer(SignedAttestation, other, reply)
                if signed.statement.suspended:
                    await link.ask(Scope("hear"), signed)
            except LinkFailed:
                raise
            except Refused as refused:
                LOG.warning(
                    "the %s has not accepted the %s's list of suspended keys: %s",
                    ROLES[party],
                    ROLES[other],
                    refused,
                )

    def _start_exchange(self, party: PartyId) -> asyncio.Task[bool]:
        """Start to bring an MPC node the other's statement, unless that is under way."""
        task = self._exchanges.get(party)
        if task is None or task.done():
            task = asyncio.get_running_loop().create_task(self._exchange(party))
            self._exchanges[party] = task
        return task

    async def _exchange(self, party: PartyId) -> bool:
        """Bring an MPC node the other's statement, and return whether it accepted a new one."""
        (other,) = self._links.keys() - {party}
        new = False
        with suppress(Refused):  # the last statement counts for a while
            reply = await self._links[other].call(Scope("attest"), GetAttestation(), Times())
            self._latest[other] = decode_answer(SignedAttestation, other, reply)
            new = True
        if other not in self._latest:
            return False
        try:
            await self._links[party].call(Scope("hear"), self._latest[other], Times())
            self._exchanged_at[party] = self._clock()
        except Refused as refused:
            LOG.warning(
                "the %s has not accepted the %s's list of suspended keys: %s",
                ROLES[party],
                ROLES[other],
                refused,
            )
            return False
        return new

    async def stop(self) -> None:
        """Cancel all deliveries."""
        tasks: list[asyncio.Task[Any]] = [*self._exchanges.values(), *self._deliveries.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
