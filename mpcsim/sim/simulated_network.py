"""The simulator's networks and faults on the links of a running gateway.

Latency, bandwidth, loss and faults (``mpcsim.sim``) act in the time of the event loop, real or
virtual. Over each link there is a pool of connections, as HTTP clients have it, the same for both
directions: a request takes one that is idle, or waits for one, and its answer comes back over it. A
message may come in pieces, each put on the connection when it comes.

Where connections are cold, every session opens its own, as in ``mpcsim.sim.run.engine``: the first
request over each pays the handshakes of TCP and TLS, what follows in the session does not. What a
session is, its caller says (``begin_session``); all requests that nobody said it of are one.
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

from mpcsim.carrier import AtOnce, End, Exchange, Pieces
from mpcsim.ids import CLIENT, PartyId
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.signing import PROTOCOLS
from mpcsim.sim.network.draws import DrawSource, SeededDraws, TransferKey
from mpcsim.sim.network.service_paths import DeliveredMessage, ServicePath, service_paths
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.traffic import Arrival, Traffic
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.run.faults import Crash, Fault, FaultPlan, Partition
from mpcsim.sim.run.realtime_traffic import RealtimeTraffic

_KINDS: Final = {
    definition.number: tuple(sends.kind for _, sends in definition.kinds())
    for definition in PROTOCOLS.values()
}


MOST_PIECES: Final = 60
"""Pieces of one message that are under way at a time (a connection has room for 64 messages)."""
_NO_KEY: Final = TransferKey(CLIENT, CLIENT, 0, 0)
"""Here draws come in the order of transfers, whatever they are of."""


class _Session:
    """Whose connections are its own."""


_EVERYBODY: Final = _Session()
_SESSION: Final[ContextVar[_Session]] = ContextVar("_SESSION", default=_EVERYBODY)
"""The present one."""


def begin_session() -> None:
    """From now on, what this task and those it starts ask for is a session of its own."""
    _SESSION.set(_Session())


class SimulatedNetwork:
    """The network and the faults in force; may be changed while the gateway runs."""

    listener: Callable[[DeliveredMessage], None] | None = None
    """Is told of every message on every link, once it is there."""

    def __init__(
        self, network: Network | None = None, faults: Iterable[Fault] = (), seed: int = 0
    ) -> None:
        """As ``change``."""
        self.change(network, faults, seed)

    def change(
        self, network: Network | None = None, faults: Iterable[Fault] = (), seed: int = 0
    ) -> None:
        """Put another network and other faults in force, from now on.

        Args:
            network: sites and links, with a site between the client and the MPC nodes for the
                gateway; None: nothing takes time.
            faults: message faults, partitions (in ms from now) and crashes.
            seed: of latencies, losses and random faults.

        Raises:
            UsageError: a share holder has no site in the network, or a site has a setting that
                has no effect here: ``cpu_factor`` or ``cores``.
        """
        links = None if network is None else _Links(network, SeededDraws(seed), self)
        self.model = network
        self.faults = tuple(faults)
        self.seed = seed
        self.crashes = [fault for fault in self.faults if isinstance(fault, Crash)]
        self._partitions = [fault for fault in self.faults if isinstance(fault, Partition)]
        self._plan = FaultPlan(self.faults, seed)
        self._links = links
        self._since: float | None = None
        self._handled: defaultdict[PartyId, int] = defaultdict(int)
        self._back_ms: dict[int, float] = {}
        """When a node is back from a crash, by the crash's position."""

    def now_ms(self) -> float:
        """Since these conditions came into force (were first asked)."""
        now = asyncio.get_running_loop().time() * 1000
        if self._since is None:
            self._since = now
        return now - self._since

    @property
    def instant(self) -> bool:
        """Whether nothing takes time, for now."""
        return self.model is None

    @property
    def streams(self) -> bool:
        """See ``Carrier``: as the network in force has it (``Connection.forwarding``)."""
        return self.model is not None and self.model.connection.forwarding == "stream"

    @property
    def faulty(self) -> bool:
        """See ``Carrier``."""
        return bool(self.faults)

    def exchange(self, asking: End, asked: End) -> Exchange:
        """See ``Carrier``. What is under way when conditions change arrives by the old ones."""
        if self._links is None or (asking, asked) not in self._links.service_paths:
            return AtOnce()
        return _LinkExchange(self._links, asking, asked)

    def notify_listener(self, carried: DeliveredMessage) -> None:
        """Tell the listener of a message."""
        if self.listener is not None:
            self.listener(carried)

    async def apply_faults(self, messages: Sequence[tuple[Envelope, bytes]]) -> tuple[bytes, ...]:
        """What message faults and partitions leave of messages that travel together."""
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

    def down(self, party: PartyId, restart: Callable[[], None]) -> bool:
        """Whether a crash keeps an MPC node down at this moment."""
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

    def handled(self, party: PartyId) -> None:
        """An MPC node has handled a request under these conditions."""
        self._handled[party] += 1


class _Links:
    """The links of one network, and what is under way on them."""

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
        """Since something was first asked of it."""
        now = asyncio.get_running_loop().time() * 1000
        if self._began_ms is None:
            self._began_ms = now
        return now - self._began_ms

    def pair(self) -> int:
        """A number for an exchange."""
        return next(self._pairs)

    def session(self) -> int:
        """The number of the present session; only cold connections have owners."""
        session = _SESSION.get()
        if not self.cold or session is _EVERYBODY:
            return 0
        number = self._sessions.get(session)
        if number is None:
            number = self._sessions[session] = next(self._numbers)
            finalize(session, self._live.close_session, number)
        return number

    def draw(self, path: ServicePath) -> Draws:
        """What a message meets."""
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
        """Put a message, or a piece of one, on the connection of its exchange.

        Args:
            on_arrival: is called for every part that arrives.
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
        """An exchange is over."""
        with suppress(RuntimeError):  # the event loop is over, too
            self._live.release(pair, self.now_ms())

    def _on_arrival(self, arrival: Arrival) -> None:
        on_arrival = self._waiting[arrival.number]
        if arrival.whole:
            del self._waiting[arrival.number]
            self._live.take_transfer(arrival.number)
        on_arrival(arrival)


class _LinkExchange:
    """An exchange over a link."""

    def __init__(self, links: _Links, asking: End, asked: End) -> None:
        self.links = links
        self._there = asking, asked
        self.number = links.pair()
        self._session = links.session()
        self._under_way = 0
        self._closed = False

    async def go(self, size: int) -> None:
        """See ``Exchange``."""
        await self._transmit_size(self._there, size)

    async def come(self, size: int) -> None:
        """See ``Exchange``."""
        await self._transmit_size(self._there[::-1], size)

    async def refuse(self, size: int) -> None:
        """See ``Exchange``: here they do."""

    def going(self, pieces: Pieces) -> Pieces:
        """See ``Exchange``."""
        return self._transmit(self._there, pieces)

    def coming(self, pieces: Pieces) -> Pieces:
        """See ``Exchange``."""
        return self._transmit(self._there[::-1], pieces)

    def close(self) -> None:
        """See ``Exchange``."""
        self._closed = True
        self._release_if_finished()

    def put(
        self, path: ServicePath, size: int, draws: Draws, on_arrival: Callable[[Arrival], None]
    ) -> None:
        """Put a message, or a piece of one, on the connection; see ``_Links.put``."""

        def count_arrival(arrival: Arrival) -> None:
            on_arrival(arrival)
            if arrival.whole:
                self._under_way -= 1
                self._release_if_finished()

        self._under_way += 1
        self.links.put(path, size, draws, self.number, self._session, count_arrival)

    def _release_if_finished(self) -> None:
        """What nobody waits for any more keeps the connection busy as long as it is under way."""
        if self._closed and not self._under_way:
            self.links.release(self.number)

    async def _transmit_size(self, ends: tuple[End, End], size: int) -> None:
        async def one() -> Pieces:
            yield bytes(size)

        async for _ in self._transmit(ends, one()):
            pass

    async def _transmit(self, ends: tuple[End, End], pieces: Pieces) -> Pieces:
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
    """A message on its way over the connection of an exchange, in the pieces in which it comes."""

    def __init__(self, exchange: _LinkExchange, ends: tuple[End, End]) -> None:
        self.arriving: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        """What of it is at the other end, and from when on; None: no more comes."""
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
        """Put the pieces on the connection, and wait until they are at its other end."""
        try:
            try:
                async with aclosing(pieces):
                    async for piece in pieces:
                        if piece:
                            self._put(piece)
                if self._latencies is None:
                    self._put(b"")
            except Exception:  # it breaks off, once what was sent before is there
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
        """Put a piece on the connection; while many are under way, with others that come."""
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
