"""Two sites, a line between them, and messages whose times are compared with arithmetic.

Throughout, unless a test says otherwise: a full segment is 1448 bytes of payload and 52 of headers,
1500 in all; at 100 Mbit/s that is 12 000 bit / (100 000 bit/ms) = 0.12 ms, and an acknowledgement
of 52 bytes takes 0.00416 ms. ns-3's links put two bytes more around each packet: 0.12016 ms and
0.00432 ms. One way takes 40 ms, there and back 80 ms.
"""

from __future__ import annotations

import math
from typing import Any, Final

from mpcsim.ids import PartyId
from mpcsim.sim.network.topology import Link, Network, Site
from mpcsim.sim.network.traffic import Traffic
from mpcsim.sim.network.transport import Connection, Draws, Transfer
from tests.helpers import losing

FULL: Final = 1448
"""Bytes of payload in a full segment."""
SEGMENT_MS: Final = {"linux": 0.12, "ns3": 0.12016}
ACK_MS: Final = {"linux": 0.00416, "ns3": 0.00432}
SACK_MS: Final = {"linux": 0.0048, "ns3": 0.00496}
"""An acknowledgement that tells of a hole: 8 bytes more."""
WAY: Final = 40.0
TICK: Final = 2.0
"""Linux's timers ring half a tick of 4 ms late on average."""
LONG_TICK: Final = 16.0
"""The same for a wait of more than a quarter of a second, whose ticks are 32 ms."""


def plain(profile: str = "linux", algorithm: str = "cubic", **settings: Any) -> Connection:
    """Warm connections without TLS."""
    return Connection(
        **{
            "tls_round_trips": 0,
            "overhead_bytes": 0,
            "profile": profile,
            "congestion": algorithm,
            **settings,
        }
    )


class Line:
    """A link from ``here`` to ``there``; time goes on by what is sent, and by ``run``."""

    def __init__(
        self,
        connection: Connection | None = None,
        *,
        mbit_per_s: float = 100.0,
        loss: float = 0.0,
        back_loss: float = 0.0,
        way: float = WAY,
        back_mbit_per_s: float | None = None,
        back_way: float | None = None,
    ) -> None:
        sites = {name: Site(name) for name in ("here", "there")}
        link = Link(
            "here",
            "there",
            way,  # type: ignore[arg-type]
            mbit_per_s,
            loss,
            back_latency=back_way,  # type: ignore[arg-type]
            back_mbit_per_s=back_mbit_per_s,
            back_loss=back_loss,
        )
        ends = {PartyId(1): "here", PartyId(2): "there"}
        self.network = Network(sites, (link,), ends, connection or plain())
        self.traffic = Traffic(self.network)
        self.ways = link.direction("here"), link.direction("there")
        self.draws = [
            Draws(direction.forward.mean_ms, direction.backward.mean_ms) for direction in self.ways
        ]
        self.losses = loss, back_loss
        self.now = 0.0
        self.done: dict[int, Transfer] = {}
        """Transfers that are over, by the number that ``send`` has given; in order of arrival."""
        self.failed: set[int] = set()
        """Those of them that did not arrive: TCP gave up."""
        self.heard: dict[int, list[tuple[float, int]]] = {}
        """When how many bytes of a message were there."""
        self._numbers: dict[int, int] = {}
        self._sent = 0

    def send(
        self,
        now: float,
        size: int,
        *,
        back: bool = False,
        key: int = 0,
        draws: Draws | None = None,
        pair: int = 0,
        **how: Any,
    ) -> int:
        """Let time pass, then send a message; its number."""
        self.run(now)
        drawn = (draws or self.draws[back])._replace(key=key)
        number = self.traffic.send(self.ways[back], now, size, drawn, pair=pair, **how)
        self._numbers[number] = self._sent
        self._sent += 1
        return self._sent - 1

    def run(self, until: float = math.inf, number: int | None = None) -> None:
        """Let time pass, but no further than to the arrival of message ``number``."""
        while number is None or number not in self.done:
            arrival = self.traffic.advance(self.now, until)
            if arrival is None:
                self.now = until
                return
            assert self.now <= arrival.at_ms <= until
            self.now = arrival.at_ms
            found = self._numbers[arrival.number]
            self.heard.setdefault(found, []).append((arrival.at_ms, arrival.size))
            if arrival.failed:
                self.failed.add(found)
            if arrival.whole:
                del self._numbers[arrival.number]
                self.done[found] = self.traffic.take_transfer(arrival.number)

    def __call__(self, now: float, size: int, **how: Any) -> Transfer:
        """What becomes of a message."""
        number = self.send(now, size, **how)
        self.run(number=number)
        return self.done[number]

    def lose(
        self,
        pause: float,
        segments: float,
        *lost: losing.GraphMessage,
        back: bool = False,
        round_trip: float = 0.0,
        wait: bool = True,
    ) -> None:
        """Send a message ``pause`` after the last arrival, of which exactly ``lost`` is lost: of
        data, acknowledgements and first repetitions, where the direction loses any.

        Args:
            round_trip: of its segments and their acknowledgements, if not the line's.
            wait: whether to let time pass until it has arrived.
        """
        places = range(math.ceil(segments))
        there, here = self.losses[back], self.losses[not back]
        of = {losing.syn(), *map(losing.data, places)} if there else set()
        of |= {losing.data(packet.place, packet.tries + 1) for packet in lost if not packet.what}
        if here:
            of |= {kind(k) for k in places for kind in (losing.ack, losing.late_ack)}
            of |= {losing.ack(packet.place, 2) for packet in lost if not packet.what}
        key = losing.key(*lost, of=of, loss=there or here or losing.LOSS)
        draws = Draws(round_trip / 2, round_trip / 2) if round_trip else None
        now, size = self.now + pause, round(segments * FULL)
        number = self.send(now, size, back=back, key=key, draws=draws)
        if wait:
            self.run(number=number)

    def state(self, name: str, h: int = 0) -> float:
        """Return a variable of the first connection's sender of half ``h`` (``state.HALF``)."""
        return float(self.traffic._records.connections["half"][name][0, h])

    def flights(self, now: float, segments: int, **how: Any) -> list[tuple[float, int]]:
        """Send so many full segments; when how many of them arrived, in milliseconds after ``now``.

        Those that arrive at the same moment are counted together: on an infinitely fast line, all
        that left together.
        """
        number = self.send(now, segments * FULL, stream=True, **how)
        self.run(number=number)
        counted: list[tuple[float, int]] = []
        before = 0
        for at, size in self.heard[number]:
            more, before = (size - before) // FULL, size
            after = round(at - now, 6)
            if counted and after == counted[-1][0]:
                more += counted.pop()[1]
            counted.append((after, more))
        return counted


def took(transfer: Transfer) -> float:
    return transfer.arrived_ms - transfer.given_ms


def parts(transfer: Transfer) -> tuple[float, ...]:
    return (
        transfer.queueing_ms,
        transfer.handshake_ms,
        transfer.window_ms,
        transfer.transmission_ms,
        transfer.propagation_ms,
        transfer.recovery_ms,
    )
