"""Carrier of the real service's messages: over the network, then through the receiving process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from itertools import count
from typing import Final

import numpy as np

from mpcsim.capacity.kernel.records import NONE
from mpcsim.capacity.real.async_kernel import AsyncKernel
from mpcsim.capacity.real.calls import Call, Message, current_call
from mpcsim.capacity.real.clock import Clock
from mpcsim.capacity.simulation.call_graph import END_OF
from mpcsim.capacity.simulation.driver import KernelDriver
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.errors import UsageError
from mpcsim.link_transport import DirectTransport, Endpoint, Exchange, ImmediateExchange, Pieces
from mpcsim.service.web.transport import MAX_CONNECTIONS
from mpcsim.sim.network.traffic import Arrival, Traffic
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.run.realtime_traffic import RealtimeTraffic

ROLE_OF: Final = {end: role for role, end in END_OF.items()}
LATENCY, TASK = 2000, 3000
"""Purposes of draws, as in the kernel."""


class LoadedCarrier(DirectTransport):
    """Carrier for messages sent on behalf of a call; everything else arrives at once.

    A message is given to its link; at the end of that it becomes a job of its process, and it is
    delivered when that is done.
    """

    is_instant = False

    def __init__(
        self,
        layout: Layout,
        driver: KernelDriver,
        kernel: AsyncKernel,
        clock: Clock,
        *,
        charged: bool,
    ) -> None:
        """
        Args:
            charged: whether handling a message takes the time that has been drawn for it.

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
        self._driver = driver
        self._kernel = kernel
        self._charged = charged
        self._traffic: RealtimeTraffic | None = None
        self._waiting: dict[int, Callable[[bool], None]] = {}
        self._pairs = count()
        self._over = False

    def exchange(self, asking: Endpoint, asked: Endpoint) -> Exchange:
        """Return the exchange for a request (see ``Carrier``)."""
        call = current_call()
        return (
            ImmediateExchange()
            if call is None or self._over
            else _LoadedExchange(self, call, asking, asked, next(self._pairs))
        )

    # ------------------------------------------------------------------ the network

    @property
    def traffic(self) -> RealtimeTraffic:
        """Traffic on the network; it begins with the first message."""
        if self._traffic is None:
            traffic = Traffic(self._model, MAX_CONNECTIONS)  # as in the service's HTTP clients
            self._traffic = RealtimeTraffic(traffic, self.clock.now_ms, self._on_arrival)
        return self._traffic

    def link(self, source: Endpoint, target: Endpoint) -> tuple[int, int, float]:
        """Return the link between two ends (NONE: both are at one site), the sending side of it,
        and the service time at its far end."""
        if self._over:
            return NONE, 0, 0.0
        return self._links.between(ROLE_OF[source], ROLE_OF[target])

    def send_message(
        self,
        call: Call,
        message: Message,
        number: int,
        side: int,
        *,
        size: int,
        pair: int,
        session: int,
        on_arrival: Callable[[bool], None],
    ) -> None:
        """Send a message over its link.

        Args:
            number: of the link; ``side``: from where.
            pair: of the exchange; ``session``: whose connections may carry it.
            on_arrival: called when it has arrived or failed, with whether it has failed.
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
        self._waiting[sent] = on_arrival

    def _draws(self, call: Call, message: Message, direction: int) -> Draws:
        kernel, w = self._kernel.stepping, self._driver.calls
        key = self.hash64(call.key, LATENCY + message.number)
        return Draws(
            kernel.draw_latency(w, direction, 0),
            kernel.draw_latency(w, direction, 1),
            int(self.hash64(key, 2)) if w.directions[direction]["lossy"] else 0,
        )

    def hash64(self, key: np.uint64, number: int) -> np.uint64:
        """Return the key of a draw."""
        return np.uint64(self._kernel.stepping.hash64(key, number))

    def release(self, pair: int) -> None:
        """Release the connection of an exchange that is over."""
        if self._over:
            return
        with suppress(RuntimeError):  # the event loop has ended, too
            self.traffic.release(pair, self.clock.now_ms())

    def finish(self) -> None:
        """Deliver everything at once from now on, also what is under way."""
        self._over = True
        self.traffic.close()
        for on_arrival in list(self._waiting.values()):
            on_arrival(False)

    def _on_arrival(self, arrival: Arrival) -> None:
        self.clock.at(arrival.at_ms)
        if arrival.whole:
            self.traffic.take_transfer(arrival.number)
            self._waiting.pop(arrival.number)(arrival.failed)

    # ------------------------------------------------------------------ processes

    def process(self, call: Call, role: int) -> int:
        """Return the process of a role for a call, assigned at its first message there; NONE: none
        is up."""
        processes = self._driver.calls.calls[call.slot]["process"]
        if processes[role] == NONE and not call.over:
            self._kernel.step(self._kernel.stepping.CHOOSE_PROCESS, call.slot, role)
            processes = self._driver.calls.calls[call.slot]["process"]
        return int(processes[role])

    async def handle_message(self, call: Call, message: Message, source: int, target: int) -> None:
        """Wait until the receiving process has handled a message that has arrived.

        Args:
            source: role of the sender; ``target``: of the receiver.
        """
        call.note_arrived(message, self.clock.now_ms())
        worked = 0.0
        first, last, end = message.first_stage, message.last_stage, message.end_stage
        if self._charged and not self._over and not call.over and first != last:
            process = self.process(call, target)
            key = self.hash64(call.key, TASK + message.number)
            before = int(self._driver.calls.calls[call.slot]["process"][source])
            worked = await self._kernel.enqueue_job(process, key, first, last, before)
            self._kernel.enqueue_job(process, key, last, end, before)  # deferred work
        call.note_handled(message, worked, self.clock.now_ms())


class _LoadedExchange:
    """Request of a call, and its answer."""

    def __init__(
        self, carrier: LoadedCarrier, call: Call, asking: Endpoint, asked: Endpoint, number: int
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
        """Whether it holds a connection."""

    async def send_request(self, size: int) -> None:
        """Carry the request (see ``Exchange``)."""
        await self._carry(self._request, self._there, size)

    async def receive_reply(self, size: int) -> None:
        """Carry the answer (see ``Exchange``); the connection is released as soon as it has
        arrived."""
        await self._carry(self._answer, self._there[::-1], size, last=True)

    async def receive_refusal(self, size: int) -> None:
        """Carry a refusal (see ``Exchange``); it costs its receiver nothing."""
        await self._carry(self._call.refusal(self._request), self._there[::-1], size, last=True)

    def stream_request(self, pieces: Pieces) -> Pieces:
        """Carry a streamed request (see ``Exchange``): stored, and forwarded whole."""
        return self._whole(pieces, self.send_request)

    def stream_reply(self, pieces: Pieces) -> Pieces:
        """Carry a streamed answer (see ``Exchange``): stored, and forwarded whole."""
        return self._whole(pieces, self.receive_reply)

    def close(self) -> None:
        """End the exchange (see ``Exchange``)."""
        self._over = True
        self._release_if_over()

    async def _carry(
        self, message: Message, ends: tuple[Endpoint, Endpoint], size: int, *, last: bool = False
    ) -> None:
        carrier, role = self._carrier, ROLE_OF[ends[1]]
        self._call.note_sent(message, carrier.clock.now_ms())
        carrier.process(self._call, role)
        number, side, service_ms = carrier.link(*ends)
        if number != NONE:
            there: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def on_arrival(failed: bool) -> None:
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
            carrier.send_message(
                self._call,
                message,
                number,
                side,
                size=size,
                pair=self._number,
                session=self._session,
                on_arrival=on_arrival,
            )
            await there
            if service_ms:
                due_ms = carrier.clock.now_ms() + service_ms
                await asyncio.sleep(service_ms / 1000)
                carrier.clock.at(due_ms)
        await carrier.handle_message(self._call, message, ROLE_OF[ends[0]], role)

    def _release_if_over(self) -> None:
        """Release the connection once the exchange is over and nothing of it is under way."""
        if self._over and self._taken and not self._under_way:
            self._taken = False
            self._carrier.release(self._number)

    async def _whole(self, pieces: Pieces, carry: Callable[[int], Awaitable[None]]) -> Pieces:
        async with aclosing(pieces):
            body = b"".join([piece async for piece in pieces])
        await carry(len(body))
        yield body
