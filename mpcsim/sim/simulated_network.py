"""Simulated networks and faults on the links of a running service.

Model: that of ``mpcsim.sim.network``, in the time of the event loop, real or virtual. Each link has
a pool of connections, as HTTP clients keep it, for both directions: a request takes an idle one, or
waits for one, and its answer comes back over it. A message may come in pieces; each is sent when it
comes.

Where connections are cold, every session opens its own, as in ``mpcsim.sim.run.engine``: the first
request over each pays the handshakes of TCP and TLS, later requests of the session do not. The
caller marks a session's beginning (``begin_session``); all unmarked requests are one session.
Without a network nothing takes time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from contextvars import ContextVar
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary, finalize

from mpcsim.ids import CLIENT, ROLES, PartyId
from mpcsim.link_transport import Endpoint, Exchange, ImmediateExchange, Pieces
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.signing import PROTOCOLS
from mpcsim.sim.network.draws import DrawSource, SeededDraws, TransferKey
from mpcsim.sim.network.service_paths import DeliveredMessage, ServicePath, service_paths
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.traffic import Arrival, Traffic
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.run.faults import (
    Crash,
    Fault,
    FaultPlan,
    Partition,
    check_faults,
    kinds_of,
)
from mpcsim.sim.run.realtime_traffic import RealtimeTraffic

_KINDS: Final = {
    definition.number: tuple(sends.kind for _, sends in definition.kinds())
    for definition in PROTOCOLS.values()
}


MOST_PIECES: Final = 60
"""Most pieces of one message under way at a time (a connection has room for 64 messages)."""
_NO_KEY: Final = TransferKey(CLIENT, CLIENT, 0, 0)
"""Key of all draws here: they are made in the order of the transfers."""


class _Session:
    """Session: the owner of cold connections."""


_EVERYBODY: Final = _Session()
_SESSION: Final[ContextVar[_Session]] = ContextVar("_SESSION", default=_EVERYBODY)
"""Session of the running task."""


def begin_session() -> None:
    """Begin a session: further requests of this task, and of tasks it starts, belong to it."""
    _SESSION.set(_Session())


class SimulatedNetwork:
    """Network and faults on a service's links; can be changed while the service runs."""

    listener: Callable[[DeliveredMessage], None] | None = None
    """Called with every message on every link, once it has arrived."""

    def __init__(
        self, network: Network | None = None, faults: Iterable[Fault] = (), seed: int = 0
    ) -> None:
        """Begin with these conditions; arguments as for ``change``."""
        self.change(network, faults, seed)

    def change(
        self, network: Network | None = None, faults: Iterable[Fault] = (), seed: int = 0
    ) -> None:
        """Replace network and faults, from now on.

        Args:
            network: sites and links, with a site between the client and the MPC nodes for the
                gateway; None: nothing takes time.
            faults: message faults, partitions (in ms from now) and crashes.
            seed: of latencies, losses and random faults.

        Raises:
            UsageError: a share holder has no site in the network, or a site has a setting that
                has no effect here: ``cpu_factor`` or ``cores``; or a fault names no share holder,
                or no message of theirs.
        """
        links = None if network is None else _Links(network, SeededDraws(seed), self)
        faults = tuple(faults)
        check_faults(faults, ROLES, kinds_of(PROTOCOLS.values()))
        self.model = network
        self.faults = faults
        self.seed = seed
        self.crashes = [fault for fault in self.faults if isinstance(fault, Crash)]
        self._partitions = [fault for fault in self.faults if isinstance(fault, Partition)]
        self._plan = FaultPlan(self.faults, seed)
        self._links = links
        self._since: float | None = None
        self._handled: defaultdict[PartyId, int] = defaultdict(int)
        self._back_ms: dict[int, float] = {}
        """Times at which crashed nodes are back, by the crash's position in ``crashes``."""

    def now_ms(self) -> float:
        """Return the milliseconds since these conditions were first used."""
        now = asyncio.get_running_loop().time() * 1000
        if self._since is None:
            self._since = now
        return now - self._since

    @property
    def is_instant(self) -> bool:
        """Whether transfers take no time at present: there is no network."""
        return self.model is None

    @property
    def streams(self) -> bool:
        """Whether messages are forwarded as they arrive (``Connection.forwarding``)."""
        return self.model is not None and self.model.connection.forwarding == "stream"

    @property
    def has_faults(self) -> bool:
        """Whether there are faults: messages may get lost or late."""
        return bool(self.faults)

    def exchange(self, asking: Endpoint, asked: Endpoint) -> Exchange:
        """Return the exchange of a request and its answer between two ends.

        Messages under way when conditions change arrive under the old ones.
        """
        if self._links is None or (asking, asked) not in self._links.service_paths:
            return ImmediateExchange()
        return _LinkExchange(self._links, asking, asked)

    def notify_listener(self, carried: DeliveredMessage) -> None:
        """Call the listener with an arrived message."""
        if self.listener is not None:
            self.listener(carried)

    async def apply_faults(self, messages: Sequence[tuple[Envelope, bytes]]) -> tuple[bytes, ...]:
        """Apply message faults and partitions to messages that travel together.

        Returns:
            The encoded messages that arrive, copies included; after the longest delay of a fault.
        """
        if not self.faults:
            return tuple(data for _, data in messages)
        now = self.now_ms()
        kept: list[bytes] = []
        wait = 0.0
        for envelope, data in messages:
            sender, receiver = envelope.sender, envelope.receiver
            if any(p.separates(sender, receiver, now) for p in self._partitions):
                continue
            fate = self._plan.decide(_kind(envelope), sender, receiver)
            if fate.dropped:
                continue
            wait = max(wait, fate.extra_ms)
            kept += [data] * (1 + len(fate.copies_ms))
        if wait:
            await asyncio.sleep(wait / 1000)
        return tuple(kept)

    def is_down(self, party: PartyId, restart: Callable[[], None]) -> bool:
        """Return whether a crash keeps an MPC node down now; its first time calls ``restart``."""
        for index, crash in enumerate(self.crashes):
            if crash.party != party or self._handled[party] < crash.after_messages:
                continue
            now = self.now_ms()
            if index not in self._back_ms:
                self._back_ms[index] = now + crash.down_ms
                restart()
            if now < self._back_ms[index]:
                return True
        return False

    def on_handled(self, party: PartyId) -> None:
        """Count a request that an MPC node has handled under these conditions."""
        self._handled[party] += 1


class _Links:
    """Links of one network, and the messages under way on them."""

    def __init__(self, network: Network, draws: DrawSource, clock: SimulatedNetwork) -> None:
        self.service_paths = service_paths(network)
        self.overhead_bytes = network.connection.overhead_bytes
        self.cold = network.connection.cold
        self._exclusive = network.connection.http == "1.1"
        self.notify_listener = clock.notify_listener
        self._draws = draws
        self._began_ms: float | None = None
        self._live = RealtimeTraffic(Traffic(network), self.now_ms, self._on_arrival)
        self._waiting: dict[int, Callable[[Arrival], None]] = {}
        self._pairs = count()
        self._numbers = count(1)
        self._sessions: WeakKeyDictionary[_Session, int] = WeakKeyDictionary()

    def now_ms(self) -> float:
        """Return the milliseconds since the first use."""
        now = asyncio.get_running_loop().time() * 1000
        if self._began_ms is None:
            self._began_ms = now
        return now - self._began_ms

    def pair(self) -> int:
        """Return a new number for an exchange."""
        return next(self._pairs)

    def session(self) -> int:
        """Return the present session's number; 0 for all where connections are kept."""
        session = _SESSION.get()
        if not self.cold or session is _EVERYBODY:
            return 0
        number = self._sessions.get(session)
        if number is None:
            number = self._sessions[session] = next(self._numbers)
            finalize(session, self._live.close_session, number)
        return number

    def draw(self, path: ServicePath) -> Draws:
        """Draw latencies and loss key of a message."""
        return self._draws(_NO_KEY, path.direction)

    def put(
        self,
        path: ServicePath,
        size: int,
        draws: Draws,
        pair: int,
        session: int,
        on_arrival: Callable[[Arrival], None],
    ) -> None:
        """Send a message, or a piece of one, on the connection of its exchange.

        Args:
            on_arrival: called for every part that arrives.
        """
        number = self._live.send(
            path.direction,
            self.now_ms(),
            size,
            draws,
            pair=pair,
            session=session,
            exclusive=self._exclusive,
            stream=True,
        )
        self._waiting[number] = on_arrival

    def release(self, pair: int) -> None:
        """Release the connection of an exchange that is over."""
        with suppress(RuntimeError):  # the event loop is over, too
            self._live.release(pair, self.now_ms())

    def _on_arrival(self, arrival: Arrival) -> None:
        on_arrival = self._waiting[arrival.number]
        if arrival.whole:
            del self._waiting[arrival.number]
            self._live.take_transfer(arrival.number)
        on_arrival(arrival)


class _LinkExchange:
    """Exchange of a request and its answer over a simulated link (``carrier.Exchange``)."""

    def __init__(self, links: _Links, asking: Endpoint, asked: Endpoint) -> None:
        self.links = links
        self._there = asking, asked
        self.number = links.pair()
        self._session = links.session()
        self._under_way = 0
        self._closed = False

    async def send_request(self, size: int) -> None:
        """Wait while a request of this size travels."""
        await self._transmit_size(self._there, size)

    async def receive_reply(self, size: int) -> None:
        """Wait while an answer of this size travels back."""
        await self._transmit_size(self._there[::-1], size)

    async def receive_refusal(self, size: int) -> None:
        """Treat an answer that refuses like any other: it takes its time."""

    def stream_request(self, pieces: Pieces) -> Pieces:
        """Return the pieces of a request as they arrive at the other end."""
        return self._transmit(self._there, pieces)

    def stream_reply(self, pieces: Pieces) -> Pieces:
        """Return the pieces of an answer as they arrive back."""
        return self._transmit(self._there[::-1], pieces)

    def close(self) -> None:
        """End the exchange; its connection is free once nothing is under way."""
        self._closed = True
        self._release_if_finished()

    def put(
        self, path: ServicePath, size: int, draws: Draws, on_arrival: Callable[[Arrival], None]
    ) -> None:
        """Send a message, or a piece of one, on the connection; see ``_Links.put``."""

        def count_arrival(arrival: Arrival) -> None:
            on_arrival(arrival)
            if arrival.whole:
                self._under_way -= 1
                self._release_if_finished()

        self._under_way += 1
        self.links.put(path, size, draws, self.number, self._session, count_arrival)

    def _release_if_finished(self) -> None:
        """Release the connection once the exchange is closed and nothing is under way on it."""
        if self._closed and not self._under_way:
            self.links.release(self.number)

    async def _transmit_size(self, ends: tuple[Endpoint, Endpoint], size: int) -> None:
        async def one() -> Pieces:
            yield bytes(size)

        async for _ in self._transmit(ends, one()):
            pass

    async def _transmit(self, ends: tuple[Endpoint, Endpoint], pieces: Pieces) -> Pieces:
        loop = asyncio.get_running_loop()
        body = _MessageBody(self, ends)
        sending = loop.create_task(body.send(pieces))
        try:
            while (found := await body.arriving.get()) is not None:
                at_s, piece = found
                await asyncio.sleep(max(0.0, at_s - loop.time()))
                if piece:
                    yield piece
            await sending
        finally:
            sending.cancel()
            await asyncio.wait([sending])


class _MessageBody:
    """Message under way over an exchange's connection, in the pieces in which it comes."""

    def __init__(self, exchange: _LinkExchange, ends: tuple[Endpoint, Endpoint]) -> None:
        self.arriving: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        """Pieces at the other end, each with its time of arrival; None at the end."""
        self._exchange = exchange
        self._links = exchange.links
        self._ends = ends
        self._path = self._links.service_paths[ends]
        self._overhead = self._links.overhead_bytes  # leaves first
        self._latencies: Draws | None = None
        self._held = bytearray()
        self._under_way = 0
        self._all_there = asyncio.Event()
        self._failed = False
        self._size = 0
        self._given_ms = self._arrived_ms = 0.0

    async def send(self, pieces: Pieces) -> None:
        """Send the pieces, and wait until all have arrived at the other end."""
        try:
            try:
                async with aclosing(pieces):
                    async for piece in pieces:
                        if piece:
                            self._put(piece)
                if self._latencies is None:
                    self._put(b"")
            except Exception:  # the error passes on once the earlier pieces have arrived
                if self._under_way:
                    await self._all_there.wait()
                raise
            await self._all_there.wait()
            if self._failed:
                raise TimeoutError  # what the operating system says of a connection given up
            number = self._exchange.number
            self._links.notify_listener(
                DeliveredMessage(number, *self._ends, self._size, self._given_ms, self._arrived_ms)
            )
        finally:
            self._held.clear()
            self.arriving.put_nowait(None)

    def _put(self, piece: bytes) -> None:
        """Send a piece; while ``MOST_PIECES`` are under way, pieces are collected into one."""
        if self._under_way == MOST_PIECES:
            self._held += piece
            return
        links = self._links
        draws = links.draw(self._path)
        if self._latencies is None:
            self._given_ms = links.now_ms()
        else:  # the parts of a message meet the same queues
            draws = self._latencies._replace(key=draws.key)
        self._latencies = draws
        before, self._overhead = self._overhead, 0
        reported = 0

        def arrived(arrival: Arrival) -> None:
            nonlocal reported
            if arrival.failed:
                self._failed = True
                self._held.clear()
                self._arrived(arrival.at_ms)
                return
            there = max(0, arrival.size - before)
            at_s = asyncio.get_running_loop().time() + self._path.service_ms / 1000
            self.arriving.put_nowait((at_s, piece[reported:there]))
            reported = there
            if arrival.whole:
                self._arrived(arrival.at_ms)

        self._under_way += 1
        self._all_there.clear()
        self._size += len(piece)
        self._exchange.put(self._path, max(1, before + len(piece)), draws, arrived)

    def _arrived(self, at_ms: float) -> None:
        self._under_way -= 1
        self._arrived_ms = at_ms + self._path.service_ms
        if self._held:
            held = bytes(self._held)
            self._held.clear()
            self._put(held)
        elif not self._under_way:
            self._all_there.set()


def _kind(envelope: Envelope) -> str:
    kinds = _KINDS.get(envelope.protocol, ())
    return kinds[envelope.kind - 1] if 1 <= envelope.kind <= len(kinds) else "AbortNotice"
