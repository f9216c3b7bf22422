"""Sessions in real time: parties over HTTP on the loopback, with the network's delays injected.

Every party has an HTTP server of its own on 127.0.0.1, and so has every site in the middle of a
route (the gateway), which terminates connections and forwards whole messages. A message is one POST
with the envelope as its body; the answer is 202 before anything is done with it. Each hop of each
(sender, receiver) flow keeps one connection, whatever pools and HTTP/2 the model has.

Delays are injected: each hop takes as long as ``traffic`` simulates (handshake, slow start,
transmission, propagation, loss), less what the loopback itself took. The
message is posted at once and held at the other end until it is due, so HTTP costs time only where
the network is faster than the loopback (1 to 3 ms a hop in Python). Computation takes its real
time; a site's ``cpu_factor`` above 1 stretches it.

A message that is forwarded as it arrives (``Connection.forwarding``) goes over the loopback whole,
when the first of it is due, and is held until the last is.

Everything runs in one event loop, hence on one core: parties that compute at the same moment wait
for each other, unlike in virtual time. ``mpcsim.bench.realtime`` measures the effect.

All times are milliseconds from the start of the session, unless a name ends in ``_s``.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final, Unpack

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Send
from mpcsim.protocols.local_run import Participant
from mpcsim.sim.network.draws import TransferKey
from mpcsim.sim.network.topology import Network, Site
from mpcsim.sim.network.traffic import Arrival
from mpcsim.sim.run.faults import Crash
from mpcsim.sim.run.realtime.event_loop import has_running_loop, run_in_own_loop
from mpcsim.sim.run.realtime.loopback import End, LoopbackServers, persistent_client
from mpcsim.sim.run.realtime_traffic import RealtimeTraffic
from mpcsim.sim.run.session import (
    Cause,
    MessageInTransit,
    PlacedParty,
    RunOptions,
    SessionRun,
    run_settings,
)
from mpcsim.sim.trace import Trace

SPIN_MS: Final = 2.0
"""Last milliseconds of a wait, spent polling the clock: an event loop's timers are up to 1 ms late
(epoll counts whole milliseconds), and a sleeping core needs time to wake."""


PAUSE_MS: Final = 2.0
"""Delay of a POST after its message was sent, at most a quarter of the hop: parties that work at
this moment compute first, and HTTP runs while they wait."""


def real_time(
    parties: Iterable[Participant[Any]],
    network: Network,
    *,
    deadline_s: float = 60.0,
    **options: Unpack[RunOptions],
) -> Trace:
    """Run one session in real time, and wait for it.

    Works inside a running event loop, too (Jupyter's): the session then has a thread and a loop of
    its own. Servers, connections, tasks and thread are gone when it returns.

    Args:
        deadline_s: when the session is stopped, finished or not; in seconds, finite.
        options: the fields of ``RunSettings``. Real runs with one seed differ a little; ``faults``
            are message faults and partitions.

    Raises:
        UsageError: a party has no site, the deadline is not positive and finite, or a fault cannot
            happen in real time.
    """
    run = RealRun(parties, network, deadline_s=deadline_s, **options)
    if has_running_loop():
        return run_in_own_loop(run.run())
    return asyncio.run(run.run())


async def run_real_time(
    parties: Iterable[Participant[Any]], network: Network, **options: Any
) -> Trace:
    """Run one session in the caller's event loop; arguments as for ``real_time``.

    Other tasks of that loop delay the session.
    """
    return await RealRun(parties, network, **options).run()


@dataclass
class _InboxMessage:
    """Message in a party's inbox."""

    number: int
    sender: PartyId
    data: bytes
    at_ms: float


@dataclass(eq=False)
class _HttpHop:
    """Persistent HTTP connection of a hop, with its outgoing messages."""

    end: End
    """Owner of the server that it leads to."""
    outgoing: asyncio.Queue[tuple[MessageInTransit, float]] = field(default_factory=asyncio.Queue)
    """Messages to send, each with the time of its POST."""


class _RealParty(PlacedParty):
    """Party with an inbox."""

    def __init__(self, party: Participant[Any], site: Site, clock: Callable[[], float]) -> None:
        super().__init__(party, site, clock)
        self.inbox: asyncio.Queue[_InboxMessage | None] = asyncio.Queue()


class RealRun(SessionRun[_RealParty]):
    """Run of one session in real time."""

    clock = "real"

    def __init__(
        self,
        parties: Iterable[Participant[Any]],
        network: Network,
        *,
        deadline_s: float = 60.0,
        **options: Unpack[RunOptions],
    ) -> None:
        """Prepare a run; arguments and errors as for ``real_time``."""
        if not 0 < deadline_s < math.inf:
            raise UsageError(f"real time deadline_s is {deadline_s}: not positive and finite")
        settings = run_settings(options)
        if any(isinstance(fault, Crash) for fault in settings.faults):
            raise UsageError("crashes need virtual time: in real time a party is not killed")
        super().__init__(
            parties,
            network,
            lambda party, site: _RealParty(party, site, self._now_ms),
            settings,
            compute="real",
        )
        self.deadline_s = deadline_s
        self._began = time.perf_counter_ns()
        self._routes: dict[tuple[PartyId, PartyId], list[_HttpHop]] = {}
        self._live = RealtimeTraffic(self._traffic, self._now_ms, self._on_arrival, spin_ms=SPIN_MS)
        self._half_passed: set[tuple[int, int]] = set()
        """Message hops of which one of two conditions holds: body arrived, or time due."""
        self._open = 0
        """Number of starts and messages in progress; 0 is quiescence."""
        self._over: asyncio.Future[None]
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ running

    async def run(self) -> Trace:
        """Run to quiescence or to the deadline, close everything, and return the trace."""
        self._over = asyncio.get_running_loop().create_future()
        async with AsyncExitStack() as stack:
            try:
                await self._connect(stack)
                self._began = time.perf_counter_ns()
                self._open = len(self._parties)
                for placed in self._parties.values():
                    self._task(self._drive(placed))
                done, _ = await asyncio.wait({self._over}, timeout=self.deadline_s)
                ended_ms = self._now_ms() if done else self.deadline_s * 1000
            finally:
                self._live.close()
                self._over.cancel()
                tasks = list(self._tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        if done:
            self._over.result()
        return self._trace(ended_ms)

    def _now_ms(self) -> float:
        return (time.perf_counter_ns() - self._began) / 1e6

    async def _wait_until(self, when_ms: float) -> None:
        """Wait until a time, to within some 20 us."""
        left = when_ms - self._now_ms()
        if left > SPIN_MS:
            await asyncio.sleep((left - SPIN_MS) / 1000)
        while self._now_ms() < when_ms:
            await asyncio.sleep(0)

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """End the run if a task has failed."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self._over.done():
            self._over.set_exception(error)

    def _finish_activity(self) -> None:
        self._open -= 1
        if not self._open and not self._over.done():
            self._over.set_result(None)

    # ------------------------------------------------------------------ servers and connections

    async def _connect(self, stack: AsyncExitStack) -> None:
        """Open servers and warm connections; the handshakes of cold ones are simulated."""
        servers = await stack.enter_async_context(LoopbackServers())
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # spares httpx loading certificates
        for i in self._parties:
            await servers.open(i, self._app(i))
        for (i, j), (_, hops) in self._flows.items():
            ends: list[End] = [*(hop.direction.target for hop in hops[:-1]), j]
            self._routes[i, j] = list(map(_HttpHop, ends))
            for hop in self._routes[i, j]:
                if hop.end not in servers.addresses:
                    await servers.open(hop.end, self._app(hop.end))
                client = persistent_client(servers.addresses[hop.end], unused)
                await stack.enter_async_context(client)
                (await client.get("/ready")).raise_for_status()
                self._task(self._post(hop, client))

    def _app(self, end: End) -> Starlette:
        """Return the ASGI application of a server."""

        async def ready(request: Request) -> Response:
            return Response(status_code=204)

        async def take(request: Request) -> Response:
            """Accept a message; another task processes it."""
            body = await request.body()
            transit = self._transits.get(request.path_params["number"])
            if transit is None or self._current_hop(transit).end != end:
                return Response(status_code=404)
            transit.data = body
            self._pass_hop(transit, transit.key.hop)
            return Response(status_code=202)

        return Starlette(
            routes=[
                Route("/ready", ready, methods=["GET"]),
                Route("/messages/{number:int}", take, methods=["POST"]),
            ]
        )

    def _current_hop(self, transit: MessageInTransit) -> _HttpHop:
        """Return the hop that a message is on."""
        sender, receiver, _, at = transit.key
        return self._routes[sender, receiver][at]

    def _carrier(self) -> RealtimeTraffic:
        return self._live

    async def _post(self, hop: _HttpHop, client: httpx.AsyncClient) -> None:
        """Post messages over a connection, one request after the other."""
        while True:
            transit, when = await hop.outgoing.get()
            await self._wait_until(when)
            response = await client.post(f"/messages/{transit.number}", content=transit.data)
            response.raise_for_status()

    def _on_arrival(self, arrival: Arrival) -> None:
        """Handle a simulated arrival at the end of a hop."""
        transit, at = self._complete_hop(arrival)
        if arrival.failed:
            self._record_loss(transit)
            self._finish_activity()
            return
        service_ms = transit.route[at].service_ms
        if service_ms:
            self._task(self._reach_later(arrival.at_ms + service_ms, transit, at, arrival.size))
        else:
            self._on_hop_end(transit, at, arrival.size)

    async def _reach_later(
        self, when: float, transit: MessageInTransit, at: int, size: int
    ) -> None:
        await self._wait_until(when)
        self._on_hop_end(transit, at, size)

    def _on_hop_end(self, transit: MessageInTransit, at: int, size: int) -> None:
        """Forward the bytes of a message that may leave the far end of a hop."""
        before = transit.forwarded[at]
        transit.forwarded[at] = size
        if len(transit.transfer_numbers) > at + 1:
            self._live.extend(transit.transfer_numbers[at + 1], self._now_ms(), size - before)
        elif not before:
            self._pass_hop(transit, at)

    def _pass_hop(self, transit: MessageInTransit, at: int) -> None:
        """Note that the body has arrived or its time is due; the message goes on after both."""
        meeting = transit.number, at
        if meeting not in self._half_passed:
            self._half_passed.add(meeting)
            return
        self._half_passed.remove(meeting)
        sender, receiver, nth, _ = transit.key
        if at + 1 < len(self._routes[sender, receiver]):
            transit.key = TransferKey(sender, receiver, nth, at + 1)
            self._forward(transit)
        else:
            self._finish_route(transit)

    # ------------------------------------------------------------------ messages

    def _send(self, placed: _RealParty, send: Send, when: float, by: int | None) -> None:
        """Send a message on its route now, whenever the round that made it ended."""
        transit = self._dispatch(placed, send, self._now_ms(), by, placed.burst)
        if transit is not None:
            self._open += 1 + len(transit.copies_ms)
            self._forward(transit)

    def _forward(self, transit: MessageInTransit) -> None:
        """Send a message on one hop of its route."""
        now, at = self._now_ms(), transit.key.hop
        pause = 0.0
        if transit.route:
            there = transit.forwarded[at - 1] if at else self._size(transit)
            self._send_on_hop(transit, now, there)
            if at and transit.forwarded[at - 1] > there:  # more of it came at the same moment
                self._live.extend(
                    transit.transfer_numbers[at], now, transit.forwarded[at - 1] - there
                )
            drawn = transit.route[at].draws
            pause = min(PAUSE_MS, drawn.forward_ms / 4) if drawn is not None else 0.0
        else:
            self._half_passed.add((transit.number, at))
        self._current_hop(transit).outgoing.put_nowait((transit, now + pause))

    def _finish_route(self, transit: MessageInTransit) -> None:
        """Handle a message at the end of its route."""
        self._record_arrival(transit, None)
        if transit.extra_ms or transit.copies_ms:
            self._task(self._deliver_with_faults(transit))
        else:
            self._deliver(transit, transit.number)

    async def _deliver_with_faults(self, transit: MessageInTransit) -> None:
        """Deliver a message with the delay and the copies of faults."""
        await self._wait_until(self._now_ms() + transit.extra_ms)
        arrived = self._deliver(transit, transit.number)
        copies = []
        for later in transit.copies_ms:
            number = len(self._messages)
            copies.append((arrived + later, number))
            record = self._messages[transit.number]
            copy = replace(record, number=number, received_ms=None, fate="duplicate")
            self._messages.append(copy)
        for when, number in sorted(copies):
            await self._wait_until(when)
            self._deliver(transit, number)

    def _deliver(self, transit: MessageInTransit, number: int) -> float:
        """Deliver a message to its receiver's inbox; return the time."""
        now = self._now_ms()
        self._messages[number] = replace(self._messages[number], received_ms=now)
        arrival = _InboxMessage(number, transit.key.sender, transit.data, now)
        self._parties[transit.key.receiver].inbox.put_nowait(arrival)
        return now

    # ------------------------------------------------------------------ parties

    async def _drive(self, placed: _RealParty) -> None:
        """Run a party: its start, then one message after the other."""
        placed.inbox.put_nowait(None)
        while True:
            await self._perform(placed, await placed.inbox.get())
            self._finish_activity()

    async def _perform(self, placed: _RealParty, arrival: _InboxMessage | None) -> None:
        """Run a party's start or its handling of a message, and send its messages."""
        began = self._now_ms()
        if arrival is None:
            outputs = placed.party.start()
        else:
            outputs = placed.party.receive(arrival.sender, arrival.data)
        ended = self._now_ms()
        factor = max(1.0, placed.site.cpu_factor)
        if factor > 1:
            ended = began + (ended - began) * factor
            await self._wait_until(ended)
        self._handle_outputs(
            placed, outputs, self._record_rounds(placed, arrival, began, ended, factor), ended
        )

    def _record_rounds(
        self,
        placed: _RealParty,
        arrival: _InboxMessage | None,
        began: float,
        ended: float,
        factor: float,
    ) -> dict[int, tuple[float, int]]:
        """Record the handling of the message, then every round.

        Returns:
            The end of each round, and the number of its record.
        """
        rounds = placed.watch.take()
        cause: Cause | None = None if arrival is None else ("message", arrival.number)
        if arrival is None or arrival.at_ms > placed.busy_until or placed.last_work is None:
            placed.burst = next(self._bursts)
        elif rounds:
            cause = ("work", placed.last_work)
        starts = [began + (work.began_ms - began) * factor for work in rounds]
        first = starts[0] if rounds else ended
        if first > began:
            cause = self._record_work(placed, None, began, first, cause)
        ends: dict[int, tuple[float, int]] = {}
        for work, start, end in zip(rounds, starts, [*starts[1:], ended], strict=False):
            cause = self._record_work(placed, work, start, end, cause)
            ends[work.number] = end, cause[1]
        placed.busy_until = ended
        return ends
