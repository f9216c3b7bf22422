"""Traffic by a clock that runs by itself: what arrives is told when it is due.

The traffic is simulated ahead to its next arrival, and somebody is woken then. If a message is sent
before, the look ahead was too far: it is taken back and begins again with the new message.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import cache
from typing import Final

from mpcsim.sim.network.topology import Direction, Network
from mpcsim.sim.network.traffic import Arrival, Traffic, TrafficState
from mpcsim.sim.network.transport import Draws, Transfer

SAME_INSTANT_MS: Final = 1e-6
"""Times closer than this are the same."""


@cache
def load_compiled_code() -> None:
    """Load all compiled code that traffic needs: some tenths of a second, which whoever keeps real
    time must not lose when the first message is sent."""
    network = Network.star()
    [first, *_] = network.links
    traffic = Traffic(network)
    number = traffic.send(
        first.direction(first.a), 0.0, 2, Draws(1.0, 1.0), pair=0, exclusive=True, available=1
    )
    traffic.extend(number, 0.0, 1)
    traffic.restore(traffic.save())
    traffic.advance(0.0, math.inf)
    traffic.release(0, 1.0)
    traffic.close_session(0)


class RealtimeTraffic:
    """Traffic in the time of the running event loop."""

    def __init__(
        self,
        traffic: Traffic,
        now_ms: Callable[[], float],
        on_arrival: Callable[[Arrival], None],
        *,
        spin_ms: float = 0.0,
    ) -> None:
        """
        Args:
            now_ms: the clock.
            on_arrival: is called for every arrival, not before it is due.
            spin_ms: the last part of a wait that is spent polling the clock.
        """
        load_compiled_code()
        self.traffic = traffic
        self._now_ms = now_ms
        self._on_arrival = on_arrival
        self._spin_ms = spin_ms
        self._simulated_ms = 0.0
        self._before: TrafficState | None = None
        """What the traffic was like then; None if nobody looked further."""
        self._spare = traffic.save()
        """Room for that."""
        self._next: Arrival | None = None
        self._handle: asyncio.Handle | None = None
        self._closed_sessions: list[int] = []

    def send(
        self,
        direction: Direction,
        now_ms: float,
        size: int,
        draws: Draws,
        *,
        pair: int,
        session: int = 0,
        exclusive: bool = False,
        available: int | None = None,
        stream: bool = False,
    ) -> int:
        """As ``Traffic.send``."""
        self._catch_up(now_ms)
        number = self.traffic.send(
            direction,
            self._simulated_ms,
            size,
            draws,
            pair=pair,
            session=session,
            exclusive=exclusive,
            available=available,
            stream=stream,
        )
        self._look_ahead()
        return number

    def extend(self, number: int, now_ms: float, size: int) -> None:
        """As ``Traffic.extend``."""
        self._catch_up(now_ms)
        self.traffic.extend(number, self._simulated_ms, size)
        self._look_ahead()

    def release(self, pair: int, now_ms: float) -> None:
        """As ``Traffic.release``."""
        self._catch_up(now_ms)
        self.traffic.release(pair, self._simulated_ms)
        self._look_ahead()

    def close_session(self, session: int) -> None:
        """As ``Traffic.close_session``, when the traffic is touched next."""
        self._closed_sessions.append(session)

    def take_transfer(self, number: int) -> Transfer:
        """As ``Traffic.take_transfer``; only for what was just told of."""
        return self.traffic.take_transfer(number)

    def close(self) -> None:
        """Tell nobody any more; the traffic is as it was when something was last told or sent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._before is not None:
            self.traffic.restore(self._before)
            self._before = self._next = None

    # ------------------------------------------------------------------ time

    def _catch_up(self, now_ms: float) -> None:
        """Let the traffic be as it is now; whoever is told of something may send, too."""
        while True:
            if self._before is not None:
                self.traffic.restore(self._before)
                self._before = self._next = None
            arrival = self.traffic.advance(self._simulated_ms, now_ms)
            if arrival is None:
                break
            self._simulated_ms = arrival.at_ms
            self._on_arrival(arrival)
        self._simulated_ms = max(self._simulated_ms, now_ms)
        while self._closed_sessions:
            self.traffic.close_session(self._closed_sessions.pop())

    def _look_ahead(self) -> None:
        """Find the next arrival, and be woken when it is due."""
        self._before = self._spare = self.traffic.save(self._spare)
        self._next = self.traffic.advance(self._simulated_ms, math.inf)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._next is not None:
            wait_ms = max(0.0, self._next.at_ms - self._now_ms() - self._spin_ms)
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        arrival = self._next
        if arrival is None:
            return
        if arrival.at_ms - self._now_ms() > SAME_INSTANT_MS:
            if self._spin_ms:
                self._handle = asyncio.get_running_loop().call_soon(self._on_timer)
            else:
                self._set_timer()
            return
        self._before = self._next = self._handle = None
        self._simulated_ms = arrival.at_ms
        self._on_arrival(arrival)
        if self._before is None:
            self._look_ahead()
