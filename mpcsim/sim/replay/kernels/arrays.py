"""Shared types of the replay: arrays of samples, and the names of the parts of time."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Array of one value a sample, or of a single one that holds for all."""
Drawn = NDArray[np.float64] | NDArray[np.uint64]
"""Latencies, or keys of losses."""
Bools = NDArray[np.bool_]
Part = Literal["forward", "backward", "loss"]
"""Kind of draw for a transfer: latency there or back, or the key of its losses."""

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
