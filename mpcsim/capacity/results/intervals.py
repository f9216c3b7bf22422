"""Confidence intervals of a run's percentiles that have their coverage, or the reason why there is
none.

The share of slow calls is a mean over windows that depend on each other. Its error comes from
batches of windows (Law, *Simulation Modeling and Analysis*, 9.5.3), of three sizes, the widest of
which counts: batches as long as the correlation give the widest. It becomes an interval of times by
the quantiles beside the percentile.

A run that is too short for the correlation cannot show its length. The demand can: the queue at a
bottleneck with utilisation u and service time s has the relaxation time s / (1 - sqrt(u))^2 (M/M/1,
whose times vary more than measured costs do).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

import numpy as np

from mpcsim.sim.statistics.quantile_sketch import QuantileSketch

CONFIDENCE: Final = 0.95
SMALLEST: Final = (2, 3, 6)
"""Windows of a batch."""
FEWEST: Final = 30
"""Windows at least: five batches of the largest size."""
FORGETS: Final = 25.0
"""Least length of a run, in relaxation times divided by the share of calls beyond the percentile;
shorter ones cover less (M/M/1 at loads from 0.3 to 0.95)."""
BEYOND: Final = 150.0
"""Calls beyond the percentile at least."""
WIDEST: Final = 0.75
"""Largest error of the share of calls beyond the percentile, relative to it."""


Comparison = Literal["below", "above", "unknown"]
"""Side of a bound on which something is, or ``unknown``: the run does not decide it."""


class Interval(NamedTuple):
    """Confidence interval of a percentile, or the reason why there is none and which run would have
    one."""

    low_ms: float
    high_ms: float
    why_none: str = ""
    needs_s: float = math.nan
    """Seconds of the part asked about, in a run that would have an interval."""


def student_t_quantile(degrees: int, error: float = (1 - CONFIDENCE) / 2) -> float:
    """Return the value that Student's t exceeds with probability ``error`` (Abramowitz and Stegun,
    26.7.5)."""
    z, v = NormalDist().inv_cdf(1 - error), float(degrees)
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def relaxation_time_s(per_s: float, most_per_s: float) -> float:
    """Return how long the queue at the bottleneck depends on its past; infinite: for ever."""
    if not most_per_s < math.inf or per_s <= 0:
        return 0.0
    if per_s >= most_per_s:
        return math.inf
    return float(1 / most_per_s / (1 - math.sqrt(per_s / most_per_s)) ** 2)


def interval(
    windows: Sequence[QuantileSketch], share: float, *, length_s: float, relaxation_time_s: float
) -> Interval:
    """Return the confidence interval of a percentile.

    Args:
        windows: latencies of each window; windows are equally long.
        share: level of the percentile, e.g. 0.99.
        length_s: of all windows.
        relaxation_time_s: how long a state of the service depends on its past.
    """
    whole = QuantileSketch()
    for window in windows:
        whole.merge(window)
    tail = min(share, 1 - share)
    if tail <= 0:
        return _no_interval("of the quickest and the slowest call there is none")
    if len(windows) < FEWEST:
        return _no_interval(f"{len(windows)} windows are too few, it takes {FEWEST}")
    if relaxation_time_s == math.inf:
        return _no_interval("as many calls come as are possible, or more")
    needs_s = max(FORGETS * relaxation_time_s, BEYOND * length_s / max(1, whole.count)) / tail
    if needs_s > length_s:
        return _no_interval("the run is too short", needs_s)
    at = whole.quantile(share)
    counts = np.array([window.count for window in windows], float)
    beyond = counts - [window.cdf(at) * window.count if window.count else 0 for window in windows]
    error = _half_width(counts, beyond) / whole.count
    if error > WIDEST * tail:
        return _no_interval("the run is too short", length_s * (error / (WIDEST * tail)) ** 2)
    low, high = (whole.quantile(min(1.0, max(0.0, share + off))) for off in (-error, error))
    return Interval(low, high)


def _no_interval(why: str, needs_s: float = math.nan) -> Interval:
    return Interval(0.0, math.inf, why, needs_s)


def compare_share(
    counts: np.ndarray,
    beyond: np.ndarray,
    share: float,
    *,
    length_s: float,
    relaxation_time_s: float,
    error: float,
) -> Comparison:
    """Return on which side of ``share`` the probability is that a call is beyond something.

    Two one-sided tests have to agree. One is binomial, with as many independent calls as these are
    worth: the variance of a mean over time is at most that of independent calls times 1 + 2 * rate
    * relaxation time of the queue (Aldous and Fill, *Reversible Markov Chains*, 4.2); it needs no
    slow call to have been seen. The other is Student's, of batches of windows, for whatever else
    makes calls alike.

    Args:
        counts: calls of each window, which are equally long; ``beyond``: how many of these are.
        error: probability that ``below`` or ``above`` is wrong.
    """
    every, found = float(counts.sum()), float(beyond.sum())
    if not every or not relaxation_time_s < math.inf:
        return "unknown"
    worth = 1 / (1 + 2 * relaxation_time_s * every / length_s)
    width = _half_width(counts, beyond, error) if len(counts) >= FEWEST else math.inf
    calls = math.floor(every * worth)
    if found + width < share * every:
        at_most = binomial_at_most(math.ceil(found * worth), calls, share)
        return "below" if at_most < error else "unknown"
    if found - width > share * every:
        fewer = math.floor(found * worth) - 1
        at_least = 1 - binomial_at_most(fewer, calls, share) if fewer >= 0 else 1.0
        return "above" if at_least < error else "unknown"
    return "unknown"


def binomial_at_most(count: int, calls: int, share: float) -> float:
    """Return the probability of at most ``count`` successes in independent calls."""
    if count >= calls:
        return 1.0
    of = math.lgamma(calls + 1)
    terms = (
        of - math.lgamma(k + 1) - math.lgamma(calls - k + 1) + k * math.log(share)
        + (calls - k) * math.log1p(-share)
        for k in range(count + 1)
    )  # fmt: skip
    return min(1.0, math.fsum(map(math.exp, terms)))


def _half_width(
    counts: np.ndarray, beyond: np.ndarray, error: float = (1 - CONFIDENCE) / 2
) -> float:
    """Return the half width of the interval of the number of calls beyond a time; each of its ends
    is wrong with probability ``error``."""
    off = beyond - beyond.sum() / counts.sum() * counts
    widths = []
    for size in SMALLEST:
        batches = len(off) // size
        sums = np.array([part.sum() for part in np.array_split(off, batches)])
        spread = math.sqrt(batches / (batches - 1) * float((sums**2).sum()))
        widths.append(student_t_quantile(batches - 1, error) * spread)
    return max(widths)
