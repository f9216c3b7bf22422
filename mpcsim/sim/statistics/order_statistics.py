"""Distribution-free confidence intervals of percentiles by order statistics.

Of n independent times, the number below a percentile is binomially distributed, whatever their
distribution; so two order statistics enclose the percentile with at least the confidence asked for
(David and Nagaraja, *Order Statistics*, section 7.1).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import UsageError

MOST_EXACT: Final = 100_000
"""Number of times above which the binomial distribution is approximated by a normal one."""


def enclosing_ranks(n: int, share: float, confidence: float) -> tuple[int, int]:
    """Return the ranks, from 1 on, of the times that enclose a percentile; 0 or n + 1: open end.

    Args:
        share: level of the percentile, between 0 and 1.
    """
    if n > MOST_EXACT:
        beside = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(n * share * (1 - share))
        return max(0, math.floor(n * share - beside)), min(n + 1, math.ceil(n * share + beside) + 1)
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))  # of factorials
    below = np.arange(n + 1)
    density = logs[n] - logs - logs[::-1]
    density += below * math.log(share) + (n - below) * math.log1p(-share)
    at_most = np.cumsum(np.exp(density))
    tail = (1 - confidence) / 2
    low = int(np.count_nonzero(at_most <= tail))
    return low, 1 + min(n, int(np.count_nonzero(at_most < 1 - tail)))


def interval_of(
    ranked: NDArray[np.float64], percent: float, confidence: float
) -> tuple[float, float]:
    """Return the confidence interval of a percentile of independent times, which are sorted; an
    open end is 0 or infinite.

    Raises:
        UsageError: percent is not between 0 and 100, or confidence not between 0 and 1.
    """
    if not 0 < percent < 100:
        raise UsageError(f"percentile {percent}: not between 0 and 100")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence {confidence}: not between 0 and 1")
    low, high = enclosing_ranks(len(ranked), percent / 100, confidence)
    return (
        float(ranked[low - 1]) if low else 0.0,
        float(ranked[high - 1]) if high <= len(ranked) else math.inf,
    )
