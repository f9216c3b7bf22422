"""Carries the messages of a service under load: over the network, and then through the process
that they are for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from itertools import count
from typing import Final

import numpy as np

from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.real.calls import Call, Message, current
from mpcsim.capacity.real.clock import Clock
from mpcsim.capacity.real.machines import Machines
from mpcsim.capacity.simulation.driving import Drive
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.capacity.simulation.shape import END_OF
from mpcsim.carrier import AtOnce, Direct, End, Exchange, Pieces
from mpcsim.errors import UsageError
from mpcsim.service.web.transport import MAX_CONNECTIONS
from mpcsim.sim.network.traffic import Arrival, Traffic
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.run.realtime_traffic import RealtimeTraffic

ROLE_OF: Final = {end: role for role, end in END_OF.items()}
LATENCY, TASK = 2000, 3000
"""What draws are for, as the kernel has them."""


class LoadedCarrier(Direct):
    """Carries what is sent on behalf of a call; everything else is there at once.

    A message is given to its link; at the end of that it becomes a job of its process, and it is
    delivered when that is done.
    """

    instant = False

    def __init__(
        self,
        layout: Layout,
        drive: Drive,
        machines: Machines,
        clock: Clock,
        *,
        charged: bool,
    ) -> None:
        """
        Args:
            charged: whether handling a message takes what has been drawn for it.

        Raises:
            UsageError: the network streams.
        """
        self._connection = layout.model.connection
        if self._connection.forwarding != "store":
            raise UsageError(
                f"connection forwarding is {self._connection.forwarding!r}: under load the gateway "
                "stores messages and forwards them"
            )
        self.clock = clock
        self._links = layout.links
        self._model = layout.model
        self._drive = drive
        self._machines = machines
        self._charged = charged
        self._traffic: RealtimeTraffic | None = None
        self._waiting: dict[int, Callable[[bool], None]] = {}
        self._pairs = count()
        self._over = False

    def exchange(self, asking: End, asked: End) -> Exchange:
        """See ``Carrier``."""
        call = current()
        return (
            AtOnce()
            if call is None or self._over
            else _Loaded(self, call, asking, asked, next(self._pairs))
        )

    # ------------------------------------------------------------------ the network

    @property
    def traffic(self) -> RealtimeTraffic:
        """What is under way; it begins when something is sent first."""
        if self._traffic is None:
            traffic = Traffic(self._model, MAX_CONNECTIONS)  # as services have it
            self._traffic = RealtimeTraffic(traffic, self.clock.now_ms, self._told)
        return self._traffic

    def link(self, source: End, target: End) -> tuple[int, int, float]:
        """Between two ends: its number (NONE: they are at one site), the side of it that sends, and
        the service time at the other end."""
        if self._over:
            return NONE, 0, 0.0
        return self._links.between(ROLE_OF[source], ROLE_OF[target])

    def put(
        self,
        call: Call,
        message: Message,
        number: int,
        side: int,
        *,
        size: int,
        pair: int,
        session: int,
        told: Callable[[bool], None],
    ) -> None:
        """Put a message on its link.

        Args:
            number: of the link; ``side``: from where.
            pair: of the exchange; ``session``: whose connections may carry it.
            told: is called when it is at the other end, or has failed, and which of both.
        """
        link = self._model.links[number]
        sent = self.traffic.send(
            link.direction((link.a, link.b)[side]),
            self.clock.now_ms(),
            size + self._connection.overhead_bytes,
            self._draws(call, message, 2 * number + side),
            pair=pair,
            session=session,
            exclusive=self._connection.http == "1.1",
        )
        self._waiting[sent] = told

    def _draws(self, call: Call, message: Message, way: int) -> Draws:
        kernel, w = self._machines.kernel, self._drive.calls
        key = self.mixed(call.key, LATENCY + message.local)
        return Draws(
            kernel.latency(w, way, 0),
            kernel.latency(w, way, 1),
            int(self.mixed(key, 2)) if w.ways[way]["lossy"] else 0,
        )

    def mixed(self, key: np.uint64, number: int) -> np.uint64:
        """Another key."""
        return np.uint64(self._machines.kernel.mixed(key, number))

    def release(self, pair: int) -> None:
        """An exchange is over: others may have its connection."""
        if self._over:
            return
        with suppress(RuntimeError):  # the event loop is over, too
            self.traffic.release(pair, self.clock.now_ms())

    def finish(self) -> None:
        """From now on everything is there at once, also what is under way."""
        self._over = True
        self.traffic.close()
        for told in list(self._waiting.values()):
            told(False)

    def _told(self, arrival: Arrival) -> None:
        self.clock.at(arrival.at_ms)
        if arrival.whole:
            self.traffic.take_transfer(arrival.number)
            self._waiting.pop(arrival.number)(arrival.failed)

    # ------------------------------------------------------------------ processes

    def process(self, call: Call, role: int) -> int:
        """Who of a role a call has to do with, from its first message to it on; NONE: nobody is
        there."""
        processes = self._drive.calls.calls[call.slot]["process"]
        if processes[role] == NONE and not call.over:
            self._machines.step(self._machines.kernel.CHOOSE, call.slot, role)
            processes = self._drive.calls.calls[call.slot]["process"]
        return int(processes[role])

    async def work_off(self, call: Call, message: Message, source: int, target: int) -> None:
        """A message is there: wait until its process has handled it.

        Args:
            source: the role that it comes from; ``target``: that it is for.
        """
        call.there(message, self.clock.now_ms())
        worked = 0.0
        first, last, end = message.first_stage, message.last_stage, message.end_stage
        if self._charged and not self._over and not call.over and first != last:
            process = self.process(call, target)
            key = self.mixed(call.key, TASK + message.local)
            before = int(self._drive.calls.calls[call.slot]["process"][source])
            worked = await self._machines.hand(process, key, first, last, before)
            self._machines.hand(process, key, last, end, before)  # nobody waits for that
        call.handled(message, worked, self.clock.now_ms())


class _Loaded:
    """A request of a call, and its answer."""

    def __init__(
        self, carrier: LoadedCarrier, call: Call, asking: End, asked: End, number: int
    ) -> None:
        self._carrier = carrier
        self._call = call
        self._there = asking, asked
        self._number = number
        self._request, self._answer = call.request(asking, asked)
        self._session = carrier.process(call, ROLE_OF[asking])
        self._under_way = 0
        self._over = False
        self._taken = False
        """Whether it has a connection."""

    async def go(self, size: int) -> None:
        """See ``Exchange``."""
        await self._carry(self._request, self._there, size)

    async def come(self, size: int) -> None:
        """See ``Exchange``. The connection is free as soon as the answer is there."""
        await self._carry(self._answer, self._there[::-1], size, last=True)

    async def refuse(self, size: int) -> None:
        """See ``Exchange``. It costs who gets it nothing."""
        await self._carry(self._call.refusal(self._request), self._there[::-1], size, last=True)

    def going(self, pieces: Pieces) -> Pieces:
        """See ``Exchange``; here messages are stored, and forwarded whole."""
        return self._whole(pieces, self.go)

    def coming(self, pieces: Pieces) -> Pieces:
        """See ``Exchange``."""
        return self._whole(pieces, self.come)

    def close(self) -> None:
        """See ``Exchange``."""
        self._over = True
        self._release_if_over()

    async def _carry(
        self, message: Message, ends: tuple[End, End], size: int, *, last: bool = False
    ) -> None:
        carrier, role = self._carrier, ROLE_OF[ends[1]]
        self._call.sent(message, carrier.clock.now_ms())
        carrier.process(self._call, role)
        number, side, service_ms = carrier.link(*ends)
        if number != NONE:
            there: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def told(failed: bool) -> None:
                self._under_way -= 1
                self._over |= last
                self._release_if_over()
                if there.done():
                    return
                if failed:
                    there.set_exception(TimeoutError())
                else:
                    there.set_result(None)

            self._under_way += 1
            self._taken = True
            carrier.put(
                self._call,
                message,
                number,
                side,
                size=size,
                pair=self._number,
                session=self._session,
                told=told,
            )
            await there
            if service_ms:
                due_ms = carrier.clock.now_ms() + service_ms
                await asyncio.sleep(service_ms / 1000)
                carrier.clock.at(due_ms)
        await carrier.work_off(self._call, message, ROLE_OF[ends[0]], role)

    def _release_if_over(self) -> None:
        """What nobody waits for any more keeps the connection busy as long as it is under way."""
        if self._over and self._taken and not self._under_way:
            self._taken = False
            self._carrier.release(self._number)

    async def _whole(self, pieces: Pieces, carry: Callable[[int], Awaitable[None]]) -> Pieces:
        async with aclosing(pieces):
            body = b"".join([piece async for piece in pieces])
        await carry(len(body))
        yield body
