"""What the modules of the replay share: arrays of samples, and the names of the parts of time."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""One value a sample; or a single one that holds for all samples."""
Drawn = NDArray[np.float64] | NDArray[np.uint64]
"""Latencies, or keys of losses."""
Bools = NDArray[np.bool_]
Part = Literal["forward", "backward", "loss"]
"""What is drawn for a transfer: latency there and back, and the key of its losses."""

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
