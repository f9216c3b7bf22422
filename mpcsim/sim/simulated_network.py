"""The simulator's networks and faults on the links of a running gateway.

Latency, bandwidth, loss and faults (``mpcsim.sim``) act in the time of the event loop, real or
virtual. Between two ends there is a pool of kept-alive connections, as HTTP clients have it: a
message takes one that is idle. Answers come back over the connection of their request. A message
may come in pieces (``stream``), each put on the connection when it comes.

Where connections are cold, every session opens its own, as in ``mpcsim.sim.run.engine``: the first
request over each pays the handshakes of TCP and TLS, what follows in the session does not. What a
session is, its caller says (``begin_session``); all requests that nobody said it of are one.
Without a network nothing takes time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT, MPC_NODES, PartyId
from mpcsim.protocol.envelope import Envelope
from mpcsim.protocols.signing import PROTOCOLS
from mpcsim.rpc.carrier import GATEWAY, End, Pieces
from mpcsim.sim.network.draws import SeededDraws, TransferKey
from mpcsim.sim.network.topology import Direction, Network, Site
from mpcsim.sim.network.transport import Burst, Connection, Draws, Pipe
from mpcsim.sim.run.faults import Crash, Fault, FaultPlan, Partition

_KINDS: Final = {
    definition.number: tuple(sends.kind for _, sends in definition.kinds())
    for definition in PROTOCOLS.values()
}


_NO_KEY: Final = TransferKey(CLIENT, CLIENT, 0, 0)
"""Here draws come in the order of transfers, whatever they are of."""

_OPENED: Final[ContextVar[defaultdict[_Pool, list[_Line]] | None]] = ContextVar(
    "_OPENED", default=None
)
"""The connections of the present session."""


def begin_session() -> None:
    """From now on, what this task and those it starts ask for is a session of its own."""
    _OPENED.set(defaultdict(list))


@dataclass(frozen=True)
class Carried:
    """A message that has been put on a link, and when its last byte arrives; milliseconds as
    ``SimulatedNetwork.now_ms``."""

    source: End
    target: End
    size: int
    """Bytes, without what the connection adds."""
    given_ms: float
    arrived_ms: float


class SimulatedNetwork:
    """The network and the faults in force; may be changed while the gateway runs."""

    listener: Callable[[Carried], None] | None = None
    """Is told of every message on every link."""

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
        pools = {} if network is None else _pools(network)
        self.model = network
        self.faults = tuple(faults)
        self.seed = seed
        self.crashes = [fault for fault in self.faults if isinstance(fault, Crash)]
        self._partitions = [fault for fault in self.faults if isinstance(fault, Partition)]
        self._plan = FaultPlan(self.faults, seed)
        self._draws = SeededDraws(seed)
        self._pools = pools
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

    async def delay(self, source: End, target: End, size: int) -> None:
        """Take as long as ``size`` bytes need from one end of a link to the other."""
        pool = self._pools.get((source, target))
        if pool is None or self.model is None:
            return
        now = self.now_ms()
        draws = self._draws(_NO_KEY, pool.direction)
        due = pool.send(now, size + self.model.connection.overhead_bytes, draws)
        self._tell(source, target, size, now, due)
        await asyncio.sleep((due - now) / 1000)

    async def stream(self, source: End, target: End, pieces: Pieces) -> Pieces:
        """See ``Carrier``. What is under way when conditions change arrives by the old ones."""
        pool = self._pools.get((source, target))
        if pool is None:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
            return
        loop = asyncio.get_running_loop()
        arriving: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        sending = loop.create_task(self._send((source, target), pieces, arriving))
        try:
            while (found := await arriving.get()) is not None:
                at_s, piece = found
                await asyncio.sleep(max(0.0, at_s - loop.time()))
                yield piece
            await sending
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    async def _send(
        self,
        ends: tuple[End, End],
        pieces: Pieces,
        arriving: asyncio.Queue[tuple[float, bytes] | None],
    ) -> None:
        """Put the pieces of a message on a connection; say when what of them is there."""
        pool, loop = self._pools[ends], asyncio.get_running_loop()
        began_ms = loop.time() * 1000 - self.now_ms()
        draw = self._draws
        line = pool.take(loop.time() * 1000 - began_ms)
        line.busy = True
        overhead = pool.connection.overhead_bytes  # leaves first
        latencies: Draws | None = None
        size, given_ms, arrived_ms = 0, 0.0, 0.0

        def put(piece: bytes) -> None:
            nonlocal overhead, latencies, size, given_ms, arrived_ms
            draws, now_ms = draw(_NO_KEY, pool.direction), loop.time() * 1000 - began_ms
            if latencies is None:
                given_ms = now_ms
            else:  # the parts of a message meet the same queues
                draws = Draws(latencies.forward_ms, latencies.backward_ms, draws.loss)
            latencies = draws
            bursts: list[Burst] = []
            line.pipe.transfer(now_ms, overhead + len(piece), draws, bursts)
            start = -overhead
            for burst in bursts:
                end = start + burst.size
                at_s = (began_ms + burst.at_ms + pool.service_ms) / 1000
                arriving.put_nowait((at_s, piece[max(0, start) : max(0, end)]))
                start = end
            overhead = 0
            size, arrived_ms = size + len(piece), bursts[-1].at_ms + pool.service_ms

        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    if piece:
                        put(piece)
            if latencies is None:
                put(b"")
        finally:
            line.busy = False
            arriving.put_nowait(None)
            if latencies is not None:
                self._tell(*ends, size, given_ms, arrived_ms)

    def _tell(self, source: End, target: End, size: int, given: float, arrived: float) -> None:
        if self.listener is not None:
            self.listener(Carried(source, target, size, given, arrived))

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
            fate = self._plan.fate(_kind(envelope), sender, receiver)
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


@dataclass(eq=False)
class _Line:
    """A connection of a pool."""

    pipe: Pipe
    busy: bool = False
    """Something of a message is still to come."""


@dataclass(eq=False)
class _Pool:
    """One direction of a link, and its pool of connections."""

    direction: Direction
    service_ms: float
    connection: Connection
    answers: bool
    """Answers find their connection open."""
    lines: list[_Line] = field(default_factory=list)

    def send(self, now_ms: float, size: int, draws: Draws) -> float:
        """When a message handed over now has arrived and been forwarded."""
        pipe = self.take(now_ms).pipe
        return pipe.transfer(now_ms, size, draws).arrived_ms + self.service_ms

    def take(self, now_ms: float) -> _Line:
        """An idle connection, or a new one."""
        opened = _OPENED.get() if self.connection.cold else None
        lines = self.lines if opened is None else opened[self]
        for line in lines:
            if not line.busy and line.pipe.arrived_ms <= now_ms:
                return line
        lines.append(_Line(self._open()))
        return lines[-1]

    def _open(self) -> Pipe:
        kept = replace(self.connection, cold=self.connection.cold and not self.answers)
        return kept.pipe(self.direction.mbit_per_s, self.direction.loss)


def _pools(network: Network) -> dict[tuple[End, End], _Pool]:
    """Each holder's link to the site in the middle, as its routes have it."""
    _check_sites(network)
    pools: dict[tuple[End, End], _Pool] = {}

    def pool(source: End, target: End, direction: Direction, *, forwarded: bool) -> None:
        service_ms = network.sites[direction.target].service_ms if forwarded else 0.0
        answers = target == CLIENT or source in MPC_NODES
        pools[source, target] = _Pool(direction, service_ms, network.connection, answers)

    for party in MPC_NODES:
        there, back = network.route(CLIENT, party), network.route(party, CLIENT)
        if there:
            pool(GATEWAY, party, there[-1], forwarded=False)
            pool(party, GATEWAY, back[0], forwarded=True)
        if len(there) > 1:
            pool(CLIENT, GATEWAY, there[0], forwarded=True)
            pool(GATEWAY, CLIENT, back[-1], forwarded=False)
    return pools


def _check_sites(network: Network) -> None:
    """Refuse what would have no effect: the service computes on the machine it runs on."""
    for site in network.sites.values():
        usual = Site(site.name)
        for setting in ("cpu_factor", "cores"):
            if (value := getattr(site, setting)) != getattr(usual, setting):
                raise UsageError(
                    f"site {site.name}: {setting} is {value}, which has no effect on a running "
                    "service; it has one in a Simulation"
                )


def _kind(envelope: Envelope) -> str:
    kinds = _KINDS.get(envelope.protocol, ())
    return kinds[envelope.kind - 1] if 1 <= envelope.kind <= len(kinds) else "AbortNotice"
