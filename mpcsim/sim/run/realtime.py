"""The second clock: the same parties in real time, over HTTP on this machine's loopback.

Every party has an HTTP server of its own on 127.0.0.1, and so has every site in the middle of a
route (the gateway), which terminates connections and forwards whole messages. A message is one POST
with the envelope as its body; the answer is 202 before anything is done with it. Each hop of each
(sender, receiver) flow keeps one connection, as the model has it.

What the loopback does not have is injected: each hop takes as long as ``transport`` says of it
(handshake, slow start, transmission, propagation, loss), less what the loopback itself took. The
message is posted at once and held at the other end until it is due, so HTTP costs time only where
the network is faster than the loopback (1 to 3 ms a hop in Python). Computation takes what it takes
here; a site's ``cpu_factor`` above 1 stretches it.

Everything runs in one event loop, hence on one core: parties that compute at the same moment wait
for each other, which they do not in virtual time. ``mpcsim.bench.realtime`` measures what that
comes to.

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
from itertools import count
from typing import Any, Final

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.protocol import Prepared, Send
from mpcsim.runner import Participant
from mpcsim.sim.network.draws import DrawSource, SeededDraws, TransferKey
from mpcsim.sim.network.topology import Direction, Network, Site
from mpcsim.sim.network.transport import Draws, Pipe
from mpcsim.sim.run.ending import Validate, conclude, inner_party
from mpcsim.sim.run.faults import Crash, Fault, FaultPlan, Partition
from mpcsim.sim.run.loopback import End, Servers, kept_client
from mpcsim.sim.run.own_loop import in_a_loop, in_a_thread
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Hop, MessageRecord, WorkRecord
from mpcsim.trace import Event, Listener, StepFinished, StepStarted

SPIN_MS: Final = 2.0
"""The last part of a wait is spent polling the clock: an event loop's timers are up to 1 ms late
(epoll counts whole milliseconds), and a sleeping core needs time to wake."""


PAUSE_MS: Final = 2.0
"""A message is posted this long after it was sent, or a quarter of its way, whichever is less: a
party at the other end of the same moment computes first, and HTTP goes where nobody waits."""


def real_time(
    parties: Iterable[Participant[Any]],
    network: Network,
    *,
    seed: int = 0,
    faults: Iterable[Fault] = (),
    deadline_s: float = 60.0,
    draws: DrawSource | None = None,
    validate: Validate = lambda results: True,
    name: str = "",
) -> Trace:
    """Run one session in real time, and wait for it.

    Works inside a running event loop, too (Jupyter's): the session then has a thread and a loop of
    its own. Servers, connections, tasks and thread are gone when it returns.

    Args:
        seed: of latencies, losses and random faults. Real runs with one seed differ a little.
        faults: message faults and partitions.
        deadline_s: when the session is stopped, finished or not; in seconds, finite.
        draws: in place of seeded draws from the network's distributions.
        validate: judges the results; a run whose results it refuses is INVALID.

    Raises:
        UsageError: a party has no site, the deadline is not positive and finite, or a fault cannot
            happen in real time.
    """
    run = RealRun(
        parties,
        network,
        seed=seed,
        faults=faults,
        deadline_s=deadline_s,
        draws=draws,
        validate=validate,
        name=name,
    )
    if in_a_loop():
        return in_a_thread(run.run())
    return asyncio.run(run.run())


async def run_real_time(
    parties: Iterable[Participant[Any]], network: Network, **options: Any
) -> Trace:
    """The same for callers with an event loop to spare; arguments as for ``real_time``.

    Whatever else runs in that loop delays the session.
    """
    return await RealRun(parties, network, **options).run()


@dataclass
class _Packet:
    """A message on its way."""

    number: int
    key: TransferKey
    body: bytes
    burst: int
    extra_ms: float
    copies_ms: tuple[float, ...]


@dataclass
class _Arrival:
    """A message in a party's inbox."""

    number: int
    sender: PartyId
    body: bytes
    at_ms: float


@dataclass(eq=False)
class _Lane:
    """One hop of a flow: a kept connection, and what waits at its two ends."""

    end: End
    """Whose server it leads to."""
    direction: Direction | None = None
    """None, and no pipe, within a site."""
    pipe: Pipe | None = None
    service_ms: float = 0.0
    """At its far end, before a message goes on."""
    outgoing: asyncio.Queue[tuple[_Packet, float]] = field(default_factory=asyncio.Queue)
    """With the time at which it was given to the connection."""
    held: asyncio.Queue[tuple[_Packet, bytes]] = field(default_factory=asyncio.Queue)
    due_ms: dict[int, float] = field(default_factory=dict)
    """When a message may leave the far end, by its number."""
    burst: int = -1
    draws: Draws | None = None


class _Node:
    """A party at its site."""

    def __init__(self, party: Participant[Any], site: Site, clock: Callable[[], float]) -> None:
        inner = inner_party(party)
        self.party = party
        self.site = site
        self.definition = inner.definition.name
        self.session = inner.session_id.hex()[:8]
        self.reproducible = inner.reproducible
        self.watch = _Marks(inner.listener, clock)
        inner.listener = self.watch
        self.inbox: asyncio.Queue[_Arrival | None] = asyncio.Queue()
        self.last_work: int | None = None
        self.busy_until = 0.0
        self.burst = -1
        self.ended_ms: float | None = None


@dataclass
class _Marks:
    """A listener that notes when outermost rounds begin, and passes events on."""

    onward: Listener
    clock: Callable[[], float]
    begun: list[tuple[StepStarted, float]] = field(default_factory=list)
    _depth: int = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepStarted):
            if not self._depth:
                self.begun.append((event, self.clock()))
            self._depth += 1
        elif isinstance(event, StepFinished):
            self._depth -= 1
        self.onward(event)

    def take(self) -> list[tuple[StepStarted, float]]:
        """The rounds begun since the last call."""
        begun, self.begun = self.begun, []
        return begun


class RealRun:
    """One session in real time."""

    def __init__(
        self,
        parties: Iterable[Participant[Any]],
        network: Network,
        *,
        seed: int = 0,
        faults: Iterable[Fault] = (),
        deadline_s: float = 60.0,
        draws: DrawSource | None = None,
        validate: Validate = lambda results: True,
        name: str = "",
    ) -> None:
        """Prepare a run; arguments and errors as for ``real_time``."""
        if not 0 < deadline_s < math.inf:
            raise UsageError(f"real time deadline_s is {deadline_s}: not positive and finite")
        faults = tuple(faults)
        if any(isinstance(fault, Crash) for fault in faults):
            raise UsageError("crashes need virtual time: in real time a party is not killed")
        self.network = network
        self.seed = seed
        self.deadline_s = deadline_s
        self.validate = validate
        self.name = name
        self.prepared: dict[PartyId, Any] = {}
        self._draws = draws or SeededDraws(seed)
        self._faults = FaultPlan(faults, seed)
        self._partitions = [fault for fault in faults if isinstance(fault, Partition)]
        self._began = time.perf_counter_ns()
        self._nodes: dict[PartyId, _Node] = {}
        for party in parties:
            if party.me not in network.placement:
                raise UsageError(f"party {party.me} has no site in this network")
            site = network.sites[network.placement[party.me]]
            self._nodes[party.me] = _Node(party, site, self._now)
        self._lanes: dict[tuple[PartyId, PartyId, int], _Lane] = {}
        self._hops: dict[tuple[PartyId, PartyId], int] = {}
        self._flows: dict[tuple[PartyId, PartyId], int] = {}
        self._packets: dict[int, _Packet] = {}
        self._messages: list[MessageRecord] = []
        self._work: list[WorkRecord] = []
        self._bursts = count()
        self._open = 0
        """Starts and messages that may still lead to something; 0 is quiescence."""
        self._over: asyncio.Future[None]
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ running

    async def run(self) -> Trace:
        """Run to quiescence or to the deadline, and close everything."""
        self._over = asyncio.get_running_loop().create_future()
        async with AsyncExitStack() as stack:
            try:
                await self._connect(stack)
                self._began = time.perf_counter_ns()
                self._open = len(self._nodes)
                for node in self._nodes.values():
                    self._task(self._drive(node))
                done, _ = await asyncio.wait({self._over}, timeout=self.deadline_s)
                ended_ms = self._now() if done else self.deadline_s * 1000
            finally:
                self._over.cancel()
                tasks = list(self._tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        if done:
            self._over.result()
        return self._trace(ended_ms)

    def _now(self) -> float:
        return (time.perf_counter_ns() - self._began) / 1e6

    async def _until(self, when_ms: float) -> None:
        """Wait until then, to some 20 us."""
        left = when_ms - self._now()
        if left > SPIN_MS:
            await asyncio.sleep((left - SPIN_MS) / 1000)
        while self._now() < when_ms:
            await asyncio.sleep(0)

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that fails ends the run."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self._over.done():
            self._over.set_exception(error)

    def _settle(self) -> None:
        self._open -= 1
        if not self._open and not self._over.done():
            self._over.set_result(None)

    # ------------------------------------------------------------------ servers and connections

    async def _connect(self, stack: AsyncExitStack) -> None:
        """Open servers and warm connections; what a cold one costs is the model's business."""
        servers = await stack.enter_async_context(Servers())
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # spares httpx loading certificates
        for i in self._nodes:
            await servers.open(i, self._app(i))
        for i in self._nodes:
            for j in self._nodes:
                lanes = self._route(i, j) if i != j else []
                self._hops[i, j] = len(lanes)
                for hop, lane in enumerate(lanes):
                    if lane.end not in servers.addresses:
                        await servers.open(lane.end, self._app(lane.end))
                    client = kept_client(servers.addresses[lane.end], unused)
                    await stack.enter_async_context(client)
                    (await client.get("/ready")).raise_for_status()
                    self._lanes[i, j, hop] = lane
                    self._task(self._post(lane, client))
                    self._task(self._hold(lane))

    def _route(self, sender: PartyId, receiver: PartyId) -> list[_Lane]:
        """The lanes of a flow; one without delay within a site."""
        connection = self.network.connection
        lanes = []
        for direction in self.network.route(sender, receiver):
            pipe = connection.pipe(direction.mbit_per_s, direction.loss)
            service = self.network.sites[direction.target].service_ms
            lanes.append(_Lane(direction.target, direction, pipe, service))
        if not lanes:
            return [_Lane(receiver)]
        lanes[-1].end, lanes[-1].service_ms = receiver, 0.0
        return lanes

    def _app(self, end: End) -> Starlette:
        """What a server answers."""

        async def ready(request: Request) -> Response:
            return Response(status_code=204)

        async def take(request: Request) -> Response:
            """Accept a message; what becomes of it is another task's work."""
            body = await request.body()
            packet = self._packets.get(request.path_params["number"])
            if packet is None or (lane := self._lane(packet)).end != end:
                return Response(status_code=404)
            lane.held.put_nowait((packet, body))
            return Response(status_code=202)

        return Starlette(
            routes=[
                Route("/ready", ready, methods=["GET"]),
                Route("/messages/{number:int}", take, methods=["POST"]),
            ]
        )

    def _lane(self, packet: _Packet) -> _Lane:
        """Where a message is."""
        return self._lanes[packet.key.sender, packet.key.receiver, packet.key.hop]

    async def _post(self, lane: _Lane, client: httpx.AsyncClient) -> None:
        """The near end of a connection: one request behind the other."""
        while True:
            packet, given = await lane.outgoing.get()
            due = self._transfer(lane, packet, given)
            lane.due_ms[packet.number] = due
            await self._until(given + min(PAUSE_MS, (due - given) / 4))
            response = await client.post(f"/messages/{packet.number}", content=packet.body)
            response.raise_for_status()

    async def _hold(self, lane: _Lane) -> None:
        """The far end: let every message go on when it is due, in order."""
        while True:
            packet, body = await lane.held.get()
            await self._until(lane.due_ms.pop(packet.number))
            packet.body = body
            packet.key = packet.key._replace(hop=packet.key.hop + 1)
            if packet.key.hop < self._hops[packet.key.sender, packet.key.receiver]:
                self._forward(packet)
            else:
                self._arrive(packet)

    # ------------------------------------------------------------------ messages

    def _send(self, node: _Node, send: Send, by: int | None) -> None:
        sender = node.party.me
        number = len(self._messages)
        now = self._now()
        self._messages.append(
            MessageRecord(
                number,
                node.session,
                node.definition,
                send.round,
                send.kind,
                sender,
                send.to,
                len(send.data),
                now,
                None,
                (),
                by,
            )
        )
        fate = self._faults.strike(send.kind, sender, send.to) if send.to in self._nodes else None
        if (
            fate is None
            or fate.dropped
            or any(p.separates(sender, send.to, now) for p in self._partitions)
        ):
            self._messages[number] = replace(self._messages[number], fate="dropped")
            return
        flow = (sender, send.to)
        nth = self._flows[flow] = self._flows.get(flow, -1) + 1
        self._open += 1 + len(fate.copies_ms)
        packet = self._packets[number] = _Packet(
            number,
            TransferKey(sender, send.to, nth, 0),
            send.data,
            node.burst,
            fate.extra_ms,
            fate.copies_ms,
        )
        self._forward(packet)

    def _forward(self, packet: _Packet) -> None:
        """Put a message on one hop of its way."""
        self._lane(packet).outgoing.put_nowait((packet, self._now()))

    def _transfer(self, lane: _Lane, packet: _Packet, given: float) -> float:
        """When a message may leave the far end of a lane, and a record of why."""
        if lane.pipe is None or lane.direction is None:
            return given
        draws = self._draws(packet.key, lane.direction)
        if lane.burst == packet.burst and lane.draws is not None:
            # Packets of one burst meet the same queues.
            draws = lane.draws._replace(loss=draws.loss)
        lane.burst, lane.draws = packet.burst, draws
        size = len(packet.body) + self.network.connection.overhead_bytes
        transfer = lane.pipe.transfer(given, size, draws)
        record = self._messages[packet.number]
        hop = Hop(lane.direction.source, lane.direction.target, transfer, lane.service_ms)
        self._messages[packet.number] = replace(record, hops=(*record.hops, hop))
        return transfer.arrived_ms + lane.service_ms

    def _arrive(self, packet: _Packet) -> None:
        """A message has come to the end of its way."""
        del self._packets[packet.number]
        if packet.extra_ms or packet.copies_ms:
            self._task(self._late(packet))
        else:
            self._deliver(packet, packet.number)

    async def _late(self, packet: _Packet) -> None:
        """What faults add: a delay, and copies."""
        await self._until(self._now() + packet.extra_ms)
        arrived = self._deliver(packet, packet.number)
        copies = []
        for later in packet.copies_ms:
            number = len(self._messages)
            copies.append((arrived + later, number))
            record = self._messages[packet.number]
            copy = replace(record, number=number, received_ms=None, fate="duplicate")
            self._messages.append(copy)
        for when, number in sorted(copies):
            await self._until(when)
            self._deliver(packet, number)

    def _deliver(self, packet: _Packet, number: int) -> float:
        """Put a message into its receiver's inbox; returns when that was."""
        now = self._now()
        self._messages[number] = replace(self._messages[number], received_ms=now)
        arrival = _Arrival(number, packet.key.sender, packet.body, now)
        self._nodes[packet.key.receiver].inbox.put_nowait(arrival)
        return now

    # ------------------------------------------------------------------ parties

    async def _drive(self, node: _Node) -> None:
        """A party's task: start, then one message behind the other."""
        node.inbox.put_nowait(None)
        while True:
            await self._perform(node, await node.inbox.get())
            self._settle()

    async def _perform(self, node: _Node, arrival: _Arrival | None) -> None:
        """Let a party work on its start or on a message, and send what comes of it."""
        began = self._now()
        if arrival is None:
            outputs = node.party.start()
        else:
            outputs = node.party.receive(arrival.sender, arrival.body)
        ended = self._now()
        factor = node.site.cpu_factor
        if factor > 1:
            ended = began + (ended - began) * factor
            await self._until(ended)
        by = self._note(node, arrival, began, ended, max(1.0, factor))
        for output in outputs:
            if isinstance(output, Send):
                self._send(node, output, by.get(output.round, node.last_work))
            elif isinstance(output, Prepared):
                self.prepared[node.party.me] = output.result
            else:
                node.ended_ms = ended

    def _note(
        self, node: _Node, arrival: _Arrival | None, began: float, ended: float, factor: float
    ) -> dict[int, int]:
        """Record a piece of work: opening the message, then every round with what it sends.

        Returns:
            The number of the work record of each round.
        """
        rounds = [(step, began + (at - began) * factor) for step, at in node.watch.take()]
        cause: tuple[str, int] | None = None
        if arrival is not None:
            cause = ("message", arrival.number)
        if arrival is None or arrival.at_ms > node.busy_until or node.last_work is None:
            node.burst = next(self._bursts)
        elif rounds:
            cause = ("work", node.last_work)
        first = rounds[0][1] if rounds else ended
        pieces: list[tuple[StepStarted | None, float]] = [(None, began)] if first > began else []
        pieces += rounds
        by: dict[int, int] = {}
        for (step, start), end in zip(pieces, [at for _, at in pieces[1:]] + [ended], strict=True):
            node.last_work = len(self._work)
            self._work.append(
                WorkRecord(
                    node.last_work,
                    node.party.me,
                    node.site.name,
                    step.protocol if step else "",
                    step.round if step else 0,
                    step.step if step else "handle message",
                    start,
                    end,
                    cause,
                )
            )
            cause = ("work", node.last_work)
            if step:
                by[step.round] = node.last_work
        node.busy_until = ended
        return by

    # ------------------------------------------------------------------ the end

    def _trace(self, ended_ms: float) -> Trace:
        verdict, endings, outcomes = conclude(
            {i: (node.party, node.ended_ms) for i, node in self._nodes.items()},
            ended_ms,
            self.validate,
        )
        return Trace(
            self.name,
            self.network.name,
            self.seed,
            "real",
            "real",
            verdict,
            tuple(self._messages),
            tuple(self._work),
            endings,
            max(ending.at_ms for ending in endings),
            any(node.reproducible for node in self._nodes.values()),
            outcomes,
        )
