"""Random numbers as hashes of their purpose, so that they do not depend on the order of events."""

from __future__ import annotations

import numpy as np

from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import Record

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@compiled
def hash64(key: np.uint64, number: int) -> np.uint64:
    """Return the key of draw ``number`` below a key (SplitMix64)."""
    z = key + (np.uint64(number) + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@compiled
def uniform(key: np.uint64) -> float:
    """Return a uniform number from [0, 1) for a key."""
    return float(key >> np.uint64(11)) * 2.0**-53


@compiled
def quantile(tables: Record, levels: Record, evens: Record, table: int, u: float) -> float:
    """Return the quantile at level ``u`` of a tabulated distribution, interpolated linearly."""
    if evens[table] > 0:
        place = u * evens[table]
        k = int(place)
        low = tables[table, k]
        return float(low + (place - k) * (tables[table, k + 1] - low))
    k, above = 0, levels.shape[1] - 1
    while above - k > 1:
        middle = (k + above) // 2
        if levels[table, middle] <= u:
            k = middle
        else:
            above = middle
    low = tables[table, k]
    part = (u - levels[table, k]) / (levels[table, above] - levels[table, k])
    return float(low + part * (tables[table, above] - low))
