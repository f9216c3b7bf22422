"""A chunk of samples: the arithmetic of engine and transport on arrays. In milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from mpcsim.ids import PartyId
from mpcsim.sim.network.transport import (
    MAX_WINDOW,
    MIN_RTO_MS,
    SEGMENT_BYTES,
    SEGMENT_HEADER_BYTES,
)
from mpcsim.sim.replay.arrays import ZERO, Bools, Floats
from mpcsim.sim.replay.draws import ArraySource
from mpcsim.sim.replay.plan import Plan, PlannedHop
from mpcsim.sim.replay.steps import Step

SEGMENT_BITS: Final = (SEGMENT_BYTES + SEGMENT_HEADER_BYTES) * 8


@dataclass(slots=True)
class _PipeState:
    """What ``transport.Pipe`` keeps, for many samples; fields nobody will ask for stay unset."""

    free: Floats
    arrived: Floats
    window: Floats
    used: Floats
    opened: Floats
    forward: Floats
    burst: list[tuple[PlannedHop, Bools | bool]] = field(default_factory=list)
    """The transfers that the last one may share draws with, itself included, and in which samples
    each shares those of the one before it."""
    backward: dict[int, Floats] = field(default_factory=dict)
    """Latencies of acknowledgements that were needed so far, by place in ``burst``."""


class Chunk:
    """One chunk of samples. Arrays hold one value a sample, or a single one for all of them."""

    def __init__(self, plan: Plan, source: ArraySource, samples: slice, explain: bool) -> None:
        self.plan = plan
        self.source = source
        self.samples = samples
        self.n = samples.stop - samples.start
        self.explain = explain
        self.ends: dict[PartyId, Floats] = {}
        """End of the last step so far of each party."""
        self.last_step: dict[PartyId, int] = {}
        self.arrivals: dict[int, Floats] = {}
        self.joined: list[Bools | bool] = []
        """For each step, the samples in which it directly follows the one before it."""
        self.previous: list[int | None] = []
        self.starts: list[Floats] = []
        self.parts: dict[int, list[tuple[PlannedHop, dict[str, Floats | float]]]] = {}
        """Where the time of each message went, hop by hop; only if it is to be explained."""
        self._pipes: dict[tuple[PartyId, PartyId, int], _PipeState] = {}
        self._first_window: Floats = np.array([float(plan.connection.initial_window)])

    def run(self) -> None:
        """Work out all times."""
        for number, step in enumerate(self.plan.steps):
            start, joined = self._begin(step)
            self.joined.append(joined)
            cost = self.plan.costs_ms[number]
            end = start + cost if cost else start
            if self.explain:
                self.starts.append(start)
                self.previous.append(self.last_step.get(step.party))
            self.ends[step.party] = end
            self.last_step[step.party] = number
            for message in step.sends:
                at = end
                for hop in self.plan.routes[message]:
                    at = self._transfer(hop, at)
                self.arrivals[message] = at

    @cached_property
    def finished(self) -> Floats:
        """When the last party finished."""
        ends = iter(self.ends.values())
        latest = next(ends)
        for end in ends:
            latest = np.maximum(latest, end)
        return latest

    def _begin(self, step: Step) -> tuple[Floats, Bools | bool]:
        """When the step starts, and in which samples directly after the party's last one."""
        if self.explain:
            needs = [self.arrivals[message] for message in step.needs]
        else:
            needs = [self.arrivals.pop(message) for message in step.needs]
        before = self.ends.get(step.party)
        if before is None:
            return (_latest(needs) if needs else ZERO), False
        if not needs:
            return before, True
        start = _latest([before, *needs])
        joined = np.equal(start, before)
        return start, joined if joined.any() else False

    # ------------------------------------------------------------------ one transfer

    def _transfer(self, hop: PlannedHop, given: Floats) -> Floats:
        """When a message handed over at ``given`` is through: ``Pipe.transfer`` on arrays."""
        pipe = self._pipes.get(hop.pipe)
        first = pipe is None
        if pipe is None:
            pipe = _PipeState(ZERO, ZERO, ZERO, ZERO, ZERO, ZERO)
            self._pipes[hop.pipe] = pipe
        forward = self._forward(hop, pipe)
        begun = now = given if first else np.maximum(given, pipe.free)
        handshake: Floats | float = 0.0
        if hop.handshakes:
            handshake = hop.handshakes * self._round_trip(pipe)
            now = now + handshake
        window_ms: Floats | float = 0.0
        wire: Floats | float = hop.wire_ms
        if hop.tracked:
            self._open_window(hop, pipe, now, first)
        if hop.waits:
            ready = now
            now, wire = self._send_windows(hop, pipe, now)
            if self.explain:
                window_ms = now - ready - wire
        else:
            if hop.tracked:
                pipe.used = pipe.used + hop.count
            now = now + hop.wire_ms
        arrived = now + forward
        recovery: Floats | float = 0.0
        if hop.levels is not None:
            recovery, arrived = self._recover(hop, pipe, hop.levels, arrived)
        in_order = arrived if first else np.maximum(arrived, pipe.arrived)
        if self.explain:
            parts = {
                "queueing": (begun - given) + (in_order - arrived),
                "handshake": handshake,
                "window": window_ms,
                "transmission": wire,
                "propagation": forward,
                "recovery": recovery,
                "service": hop.service_ms,
            }
            self.parts.setdefault(hop.message, []).append((hop, parts))
        if hop.final:
            del self._pipes[hop.pipe]
        else:
            pipe.free, pipe.arrived = now, in_order
        return in_order + hop.service_ms if hop.service_ms else in_order

    def _open_window(self, hop: PlannedHop, pipe: _PipeState, now: Floats, first: bool) -> None:
        """The window that a transfer finds: begun again, opened anew, or as it was."""
        if first:
            pipe.window, pipe.used, pipe.opened = self._first_window, ZERO, now
            return
        rtt = self._round_trip(pipe)
        grow = now >= pipe.opened + hop.first_segment_ms + rtt
        out = pipe.used * grow
        pipe.window = np.minimum(pipe.window + out, MAX_WINDOW)
        pipe.used = pipe.used - out
        idle = now - pipe.free
        if self.plan.connection.slow_start_after_idle and float(idle.max()) > MIN_RTO_MS:
            reset = idle > rtt + MIN_RTO_MS
            if reset.any():
                grow = grow | reset
                pipe.window = np.where(reset, self._first_window, pipe.window)
                pipe.used = np.where(reset, 0.0, pipe.used)
        pipe.opened = np.where(grow, now, pipe.opened)

    def _send_windows(
        self, hop: PlannedHop, pipe: _PipeState, now: Floats
    ) -> tuple[Floats, Floats]:
        """Send a message window by window: when its last byte left, and its time on the wire.

        Samples that are through with it stay as they are: no segments left, no time passes.
        """
        rtt = self._round_trip(pipe)
        bits_per_ms = hop.direction.mbit_per_s * 1000
        window, used, opened = pipe.window, pipe.used, pipe.opened
        left: Floats = np.array([float(hop.count)])
        bits: Floats = np.array([(hop.size + hop.count * SEGMENT_HEADER_BYTES) * 8.0])
        wire = ZERO
        while True:
            sending = np.minimum(window - used, left)
            sent = np.minimum(sending * SEGMENT_BITS, bits)  # the last segment may be short
            span = sent / bits_per_ms
            now, used, left = now + span, used + sending, left - sending
            if self.explain:
                wire = wire + span
            going = left > 0
            if not going.any():
                break
            bits = bits - sent
            waited = opened + hop.first_segment_ms + rtt
            if going.all():
                now = opened = np.maximum(now, waited)
                window, used = np.minimum(window + used, MAX_WINDOW), ZERO
            else:
                now = np.where(going, np.maximum(now, waited), now)
                opened = np.where(going, now, opened)
                out = used * going
                window, used = np.minimum(window + out, MAX_WINDOW), used - out
        pipe.window, pipe.used, pipe.opened = window, used, opened
        return now, wire

    def _recover(
        self, hop: PlannedHop, pipe: _PipeState, levels: Floats, arrived: Floats
    ) -> tuple[Floats | float, Floats]:
        """Time lost to losses, and the arrivals with it."""
        uniform = self.source(hop.key, hop.direction, "loss", self.samples)
        lost = np.flatnonzero(np.broadcast_to(uniform, (self.n,)) >= levels[0])
        if not lost.size:
            return 0.0, arrived
        level = np.searchsorted(levels, np.broadcast_to(uniform, (self.n,))[lost], side="right")
        rtt = np.broadcast_to(self._round_trip(pipe), (self.n,))[lost]
        timeouts = (np.ldexp(1.0, level // 2) - 1) * (rtt + MIN_RTO_MS)
        added = np.where(level % 2, timeouts + rtt, timeouts)
        late = np.broadcast_to(arrived, (self.n,)).copy()
        late[lost] += added
        if not self.explain:
            return 0.0, late
        recovery = np.zeros(self.n)
        recovery[lost] = added
        return recovery, late

    # ------------------------------------------------------------------ its draws

    def _forward(self, hop: PlannedHop, pipe: _PipeState) -> Floats:
        """Latency of a transfer: packets of one burst meet the same queues."""
        shared = self._shared(hop)
        if shared is False:
            pipe.burst.clear()
            pipe.backward.clear()
        pipe.burst.append((hop, shared))
        if shared is not True:
            fresh = self.source(hop.key, hop.direction, "forward", self.samples)
            pipe.forward = fresh if shared is False else np.where(shared, pipe.forward, fresh)
        return pipe.forward

    def _shared(self, hop: PlannedHop) -> Bools | bool:
        """The samples in which a transfer is of the same burst as the one before it."""
        if not hop.index:
            return False
        shared: Bools | bool = True
        for step in hop.steps:
            joined = self.joined[step]
            if joined is False:
                return False
            if joined is not True:
                shared = joined if shared is True else np.logical_and(shared, joined)
        return shared

    def _round_trip(self, pipe: _PipeState) -> Floats:
        """Latency there and back of the transfer under way."""
        return pipe.forward + self._backward(pipe, len(pipe.burst) - 1)

    def _backward(self, pipe: _PipeState, place: int) -> Floats:
        found = pipe.backward.get(place)
        if found is None:
            hop, shared = pipe.burst[place]
            if shared is True:
                found = self._backward(pipe, place - 1)
            else:
                found = self.source(hop.key, hop.direction, "backward", self.samples)
                if shared is not False:
                    found = np.where(shared, self._backward(pipe, place - 1), found)
            pipe.backward[place] = found
        return found


def _latest(times: Sequence[Floats]) -> Floats:
    latest = times[0]
    for other in times[1:]:
        latest = np.maximum(latest, other)
    return latest
