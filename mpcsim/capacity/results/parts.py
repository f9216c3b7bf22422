"""What the time of a call is made of."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel

PLACES: Final = ("caller", "node", "gateway", "operator", "institution")
"""In the order of the kernel's roles."""
PARTS: Final = (
    "earlier attempts",
    "on the way",
    "for a connection",
    "for admission",
    *(f"{place}: waiting" for place in PLACES),
    *(f"{place}: working" for place in PLACES),
)
"""They add up to the latency of a call that succeeded. Working is what would have been needed if
nothing else had gone on there; waiting is the rest, for the event loop, a thread or a core."""


def latencies(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """From when a call was due to its end. Milliseconds."""
    return rows[:, kernel.ENDED] - rows[:, kernel.DUE]


def parts_of(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Milliseconds by ``PARTS``, of calls that succeeded: calls x parts."""
    return np.column_stack(
        [
            rows[:, kernel.BEGAN] - rows[:, kernel.DUE],
            rows[:, kernel.NETWORK],
            rows[:, kernel.POOL],
            rows[:, kernel.LIMIT],
            rows[:, kernel.FIXED : kernel.COLUMNS],
        ]
    )
