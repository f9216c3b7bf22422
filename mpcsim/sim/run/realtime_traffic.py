"""Simulated traffic in the time of an asyncio event loop: arrivals are reported when they are due.

Optimistic simulation: traffic is simulated ahead to its next arrival, and a timer is set for it. A
message that is sent before then invalidates the lookahead: the saved state is restored, and the
simulation starts again from there with the new message.
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
"""Difference below which times are equal."""


@cache
def load_compiled_code() -> None:
    """Load all compiled code that traffic needs.

    It takes some tenths of a second, which a run in real time must not lose at its first message.
    """
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
    """Traffic in the time of the running event loop, with callbacks for arrivals."""

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
            on_arrival: called for every arrival, not before it is due.
            spin_ms: last part of a wait, spent polling the clock.
        """
        load_compiled_code()
        self.traffic = traffic
        self._now_ms = now_ms
        self._on_arrival = on_arrival
        self._spin_ms = spin_ms
        self._simulated_ms = 0.0
        self._before: TrafficState | None = None
        """State at ``_simulated_ms``, before the lookahead; None if there is none."""
        self._spare = traffic.save()
        """Buffer for saved states."""
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
        """Send a message, as ``Traffic.send`` does."""
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
        """Make more bytes of a message available, as ``Traffic.extend`` does."""
        self._catch_up(now_ms)
        self.traffic.extend(number, self._simulated_ms, size)
        self._look_ahead()

    def release(self, pair: int, now_ms: float) -> None:
        """Release an exchange's connection, as ``Traffic.release`` does."""
        self._catch_up(now_ms)
        self.traffic.release(pair, self._simulated_ms)
        self._look_ahead()

    def close_session(self, session: int) -> None:
        """Close a session's connections, as ``Traffic.close_session`` does, before the next use."""
        self._closed_sessions.append(session)

    def take_transfer(self, number: int) -> Transfer:
        """Return the transfer of a message whose arrival was just reported."""
        return self.traffic.take_transfer(number)

    def close(self) -> None:
        """Report no more arrivals; the traffic has its state of the last arrival or sending."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._before is not None:
            self.traffic.restore(self._before)
            self._before = self._next = None

    # ------------------------------------------------------------------ time

    def _catch_up(self, now_ms: float) -> None:
        """Advance the traffic to the present, reporting arrivals; their callbacks may send."""
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
        """Simulate ahead to the next arrival, and set a timer for it."""
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
