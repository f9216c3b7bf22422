"""Array types of samples, and names of the parts of time."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Values of samples: one each, or a single one for all."""
Drawn = NDArray[np.float64] | NDArray[np.uint64]
"""Drawn latencies, or keys of losses."""
Bools = NDArray[np.bool_]
Part = Literal["forward", "backward", "loss"]
"""Draws of a transfer: its latency there and back, and the key of its losses."""

PARTS: Final = (
    "compute",
    "propagation",
    "transmission",
    "window",
    "handshake",
    "queueing",
    "recovery",
    "service",
)
"""Parts of the time on a critical path, named as in ``traces.message_segments.PARTS``."""
