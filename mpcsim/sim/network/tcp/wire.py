"""Direction of a link: a FIFO queue of bounded size, random losses, arrivals in order.

A packet's loss is a function of its message's key, its segment's index there and the number of
transmissions: it is the same wherever and however a run is repeated.
"""

from __future__ import annotations

import math

import numpy as np

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import PACKETS, Record

LOST = -1
DROPPED = -2
"""Dropped: there was no room in the link's queue."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ODD = np.uint64(0xD1B54A32D192ED03)
_THIRD = np.uint64(0x8CB92BA72F3D8DD7)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_30 = np.uint64(30)
_27 = np.uint64(27)
_31 = np.uint64(31)
_11 = np.uint64(11)


@compiled
def hash64(x: np.uint64) -> np.uint64:
    """Return SplitMix64's finalizer of ``x`` (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x ^ (x >> _30)) * _M1
    x = (x ^ (x >> _27)) * _M2
    return x ^ (x >> _31)


@compiled
def uniform(key: np.uint64, place: int, tries: int, what: int) -> float:
    """Return a uniform number in [0, 1), determined by these four."""
    x = key + np.uint64(place + 8) * _GOLDEN + np.uint64(tries) * _ODD + np.uint64(what) * _THIRD
    return np.float64(hash64(hash64(x) + _GOLDEN) >> _11) * (1.0 / 9007199254740992.0)


@compiled
def launch(
    c: Record,
    d: int,
    now: float,
    size: int,
    latency: float,
    key: np.uint64,
    place: int,
    tries: int,
    what: int,
) -> int:
    """Send a packet of ``size`` bytes in direction ``d``.

    Returns:
        Its slot among the packets under way; LOST or DROPPED if it will not arrive.
    """
    half = c.half[d]
    wire = half.wire[0]
    start = max(now, wire.free)
    if (start - now) * wire.bits_per_ms > wire.queue * 8:
        return DROPPED
    wire.free = start + size * 8 / wire.bits_per_ms
    chance = wire.loss
    if wire.change_rate > 0:
        bad_now = wire.bad_share
        if wire.bad >= 0:
            kept = math.exp(-wire.change_rate * (start - wire.seen))
            bad_now += (wire.bad - bad_now) * kept
        wire.bad = 1 if uniform(key, place, tries, what + 8) < bad_now else 0
        wire.seen = start
        if wire.bad:
            chance = wire.bad_loss
    elif wire.to_bad > 0:
        turn = uniform(key, place, tries, what + 8)
        if wire.bad < 0:
            wire.bad = 1 if turn < wire.to_bad / (wire.to_bad + wire.to_good) else 0
        elif wire.bad:
            if turn < wire.to_good:
                wire.bad = 0
        elif turn < wire.to_bad:
            wire.bad = 1
        if wire.bad:
            chance = wire.bad_loss
    if chance > 0 and uniform(key, place, tries, what) < chance:
        return LOST
    half.last_arrival = max(half.last_arrival, wire.free + latency)
    slot = half.tail & PACKETS
    half.tail += 1
    half.packet[slot].arrives = half.last_arrival
    return slot
