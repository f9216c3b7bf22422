"""What the round trips of the files in this folder were drawn with; README.md says which is which.

Nothing here was measured.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

SEED: Final = 20260108
FILES: Final = (
    *("ping_linux.txt", "ping_macos.txt", "hping3.txt", "tcpping.txt", "mtr.json", "iperf3.json"),
    *("calls.har", "curl.txt", "curl.jsonl", "pairs.csv", "regions.csv", "network.toml"),
)

Times = NDArray[np.float64]


def series(n: int, floor: float, median: float, sigma: float, memory: float, *, of: int) -> Times:
    """Round trips in ms: a floor and a log-normal part, whose logarithms remember each other.

    Args:
        memory: correlation of neighbours' logarithms, from 0 on and below 1.
        of: which series it is; each has a generator of its own.
    """
    steps = np.random.default_rng([SEED, of]).standard_normal(n)
    logs = np.empty(n)
    logs[0] = steps[0]
    for at in range(1, n):
        logs[at] = memory * logs[at - 1] + np.sqrt(1 - memory**2) * steps[at]
    return np.asarray(floor + (median - floor) * np.exp(sigma * logs))


def losses(n: int, share: float, *, of: int) -> NDArray[np.bool_]:
    """Which of so many probes get lost."""
    return np.asarray(np.random.default_rng([SEED, of, 1]).random(n) < share)
