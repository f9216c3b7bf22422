"""Breakdown of a call's latency."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel

PLACES: Final = ("caller", "node", "gateway", "operator", "institution")
"""Roles, in the kernel's order."""
PARTS: Final = (
    "earlier attempts",
    "on the way",
    "for a connection",
    "for admission",
    *(f"{place}: waiting" for place in PLACES),
    *(f"{place}: working" for place in PLACES),
)
"""Parts of the latency of a call that succeeded; they add up to it. Working is service time without
contention; waiting is the rest: for the event loop, a thread or a core."""


def latencies(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the latencies of rows, from when calls were due (ms)."""
    return rows[:, kernel.ENDED] - rows[:, kernel.DUE]


def latency_parts(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the milliseconds of each of ``PARTS`` for rows of calls that succeeded: calls x
    parts."""
    return np.column_stack(
        [
            rows[:, kernel.BEGAN] - rows[:, kernel.DUE],
            rows[:, kernel.NETWORK],
            rows[:, kernel.POOL],
            rows[:, kernel.LIMIT],
            rows[:, kernel.FIRST_ROLE : kernel.COLUMNS],
        ]
    )
