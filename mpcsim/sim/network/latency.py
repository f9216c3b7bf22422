"""Latency distributions, one way.

Every time is in milliseconds. A distribution is a frozen value: it holds parameters, no state;
randomness comes from the generator passed to ``sample``. ``median_ms`` and ``mean_ms`` are of the
whole latency, the floor included. The floor is the least latency: propagation.

Sampling is vectorised. In long vectors a sample costs less than 1 ns (``Constant``), 2 to 4 ns
(``Uniform``, ``Empirical``, ``Pareto``), 9 to 10 ns (``Normal``, ``LogNormal``), and 3 to 30 ns
(``Gamma``: 3 for shape 1, 15 above, 30 below); a call costs 1 to 4 us on top. Single-precision
normal variates save less than a tenth of that, so everything stays in double precision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import UsageError
from mpcsim.sim.network import columns
from mpcsim.sim.rich_display import counted

__all__ = [
    "Constant",
    "Empirical",
    "Gamma",
    "Latency",
    "LogNormal",
    "Normal",
    "Pareto",
    "Uniform",
]

LARGEST_SIGMA: Final = 10.0
"""Largest sigma of a log-normal: one deviation is then a factor of 22,000, beyond any network."""

SMALLEST_SHAPE: Final = 0.01
"""Smallest shape of a gamma: nearly all samples are then the floor, and few are enormous."""


class Latency(ABC):
    """Latency distribution, one way.

    Your own distribution is a frozen dataclass with five members: ``_sample``, ``mean_ms``,
    ``std_ms``, ``scaled`` and ``shifted``. It can be used wherever the package's can: in networks,
    simulations, sweeps and replays, and, once it has a kind (``mpcsim.sim.register_latency``), in
    files.

    ``_sample(generator, n)`` draws: an array of n floats in milliseconds, none of them negative,
    independent of each other, and by the generator alone, so that a seed gives the same run again.
    A replay asks for some thousand at a time: use the generator's vectors, not a loop. The two
    moments tell a warm connection what it has measured of its round trips; they are not sampled.
    Latencies that depend on the one before are another matter: see ``series``, ``run`` and
    ``mpcsim.sim.network.bursts``.
    """

    _trusted: ClassVar[bool]

    def __init_subclass__(cls, *, trusted: bool = False) -> None:
        """
        Args:
            trusted: draws are not checked, which would take a fifth of a fast family's time.
        """
        cls._trusted = trusted

    def sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Draw ``n`` independent latencies.

        Args:
            generator: the only source of randomness; the same state gives the same latencies.

        Returns:
            A new array of length ``n``, in milliseconds; nothing in it is negative.

        Raises:
            UsageError: ``n`` is negative, or a family that is not trusted has drawn something other
                than n latencies.
        """
        if n < 0:
            raise UsageError(f"cannot draw {n} latencies")
        drawn = self._sample(generator, n)
        return drawn if self._trusted else self._check_draws(drawn, n)

    def _check_draws(self, found: object, n: int) -> NDArray[np.float64]:
        name = type(self).__name__
        if not isinstance(found, np.ndarray) or found.shape != (n,) or found.dtype != np.float64:
            raise UsageError(
                f"{name}._sample: expected float64 values of shape ({n},), got "
                f"{getattr(found, 'dtype', type(found).__name__)} {getattr(found, 'shape', '')}"
            )
        drawn: NDArray[np.float64] = found
        if n and not (drawn.min() >= 0 and drawn.max() < math.inf):
            raise UsageError(f"{name}._sample: drew a latency that is negative or not finite")
        return drawn

    def series(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Draw latencies of ``n`` successive messages: independent, unless they come in bursts.

        Args, returns and raises as for ``sample``.
        """
        return self.sample(generator, n)

    @property
    def run(self) -> int:
        """Block length of a series, in latencies; 1: they are independent."""
        return 1

    @abstractmethod
    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Draw ``n`` independent latencies, n not negative, as ``sample`` describes them."""

    @property
    @abstractmethod
    def mean_ms(self) -> float:
        """Mean of the distribution in milliseconds: computed, not sampled."""

    @property
    @abstractmethod
    def std_ms(self) -> float:
        """Standard deviation of the distribution in milliseconds: computed, not sampled."""

    @abstractmethod
    def scaled(self, factor: float) -> Latency:
        """Return the distribution of ``factor`` times the latency.

        Raises:
            UsageError: ``factor`` is negative or not finite.
        """

    @abstractmethod
    def shifted(self, ms: float) -> Latency:
        """Return the distribution of the latency plus ``ms`` milliseconds.

        Raises:
            UsageError: a negative ``ms`` would make latencies negative.
        """


@dataclass(frozen=True)
class Constant(Latency, trusted=True):
    """Constant latency."""

    ms: float

    def __post_init__(self) -> None:
        _time("ms", self.ms)

    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        return np.full(n, self.ms, dtype=np.float64)

    @property
    def mean_ms(self) -> float:
        return float(self.ms)

    @property
    def std_ms(self) -> float:
        return 0.0

    def scaled(self, factor: float) -> Constant:
        return Constant(self.ms * _factor(factor))

    def shifted(self, ms: float) -> Constant:
        return Constant(self.ms + _shift(ms))

    def __str__(self) -> str:
        return f"constant, {_ms(self.ms)}"


@dataclass(frozen=True)
class Uniform(Latency, trusted=True):
    """Uniform distribution from ``low_ms`` to ``high_ms``."""

    low_ms: float
    high_ms: float

    def __post_init__(self) -> None:
        _time("low_ms", self.low_ms)
        _time("high_ms", self.high_ms)
        _order("low_ms", self.low_ms, "high_ms", self.high_ms)

    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        drawn = generator.random(n)
        drawn *= self.high_ms - self.low_ms
        drawn += self.low_ms
        return drawn

    @property
    def mean_ms(self) -> float:
        return self.low_ms + (self.high_ms - self.low_ms) / 2

    @property
    def std_ms(self) -> float:
        return (self.high_ms - self.low_ms) / math.sqrt(12)

    def scaled(self, factor: float) -> Uniform:
        by = _factor(factor)
        return Uniform(self.low_ms * by, self.high_ms * by)

    def shifted(self, ms: float) -> Uniform:
        by = _shift(ms)
        return Uniform(self.low_ms + by, self.high_ms + by)

    def __str__(self) -> str:
        return f"uniform, {_ms(self.low_ms)} to {_ms(self.high_ms)}"


@dataclass(frozen=True, init=False)
class Normal(Latency, trusted=True):
    """Normal distribution clipped from below: values under the floor become the floor.

    ``mean_ms`` and ``std_ms`` are those of the clipped distribution, exactly; the ones it was made
    from, before clipping, are ``centre_ms`` and ``spread_ms``.
    """

    centre_ms: float
    spread_ms: float
    floor_ms: float

    def __init__(self, mean_ms: float, std_ms: float, floor_ms: float = 0.0) -> None:
        """
        Args:
            mean_ms: mean before clipping.
            std_ms: standard deviation before clipping.
            floor_ms: the least latency.

        Raises:
            UsageError: one of them is negative or not finite.
        """
        _time("mean_ms", mean_ms)
        _time("std_ms", std_ms)
        _time("floor_ms", floor_ms)
        object.__setattr__(self, "centre_ms", mean_ms)
        object.__setattr__(self, "spread_ms", std_ms)
        object.__setattr__(self, "floor_ms", floor_ms)

    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        drawn = generator.standard_normal(n)
        drawn *= self.spread_ms
        drawn += self.centre_ms
        np.maximum(drawn, self.floor_ms, out=drawn)
        return drawn

    @property
    def mean_ms(self) -> float:
        return self.floor_ms + self._moments()[0]

    @property
    def std_ms(self) -> float:
        first, second = self._moments()
        return math.sqrt(max(0.0, second - first * first))

    def _moments(self) -> tuple[float, float]:
        """Return the first two moments of the excess over the floor, max(0, N(gap, spread^2))."""
        gap, spread = self.centre_ms - self.floor_ms, self.spread_ms
        if spread == 0:
            above = max(0.0, gap)
            return above, above * above
        z = gap / spread
        below = 0.5 * math.erfc(-z / math.sqrt(2))
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        first = gap * below + spread * density
        return max(0.0, first), max(0.0, spread * spread * below + gap * first)

    def scaled(self, factor: float) -> Normal:
        by = _factor(factor)
        return Normal(self.centre_ms * by, self.spread_ms * by, self.floor_ms * by)

    def shifted(self, ms: float) -> Normal:
        by = _shift(ms)
        return Normal(self.centre_ms + by, self.spread_ms, self.floor_ms + by)

    def __str__(self) -> str:
        return (
            f"normal, mean {_ms(self.centre_ms)}, std {_ms(self.spread_ms)}{_least(self.floor_ms)}"
        )


@dataclass(frozen=True)
class LogNormal(Latency, trusted=True):
    """Floor plus a log-normal part: the usual shape of queueing and radio delay."""

    median_ms: float
    """Median of the latency, floor included."""
    sigma: float
    """Standard deviation of the logarithm of the excess over the floor; from 0 to 10."""
    floor_ms: float = 0.0
    """The least latency."""

    def __post_init__(self) -> None:
        _time("median_ms", self.median_ms)
        _number("sigma", self.sigma)
        if not 0 <= self.sigma <= LARGEST_SIGMA:
            raise UsageError(
                f"latency sigma is {self.sigma}: it must be from 0 to {LARGEST_SIGMA:g}"
            )
        _time("floor_ms", self.floor_ms)
        _order("floor_ms", self.floor_ms, "median_ms", self.median_ms)

    @classmethod
    def with_mean(cls, mean_ms: float, std_ms: float, floor_ms: float = 0.0) -> LogNormal:
        """Return the log-normal with a mean and standard deviation.

        Args:
            mean_ms: mean of the whole, floor included.
            std_ms: standard deviation of the whole.
            floor_ms: the least latency.

        Raises:
            UsageError: an argument is negative or not finite, or the mean leaves no room above
                the floor.
        """
        _time("mean_ms", mean_ms)
        _time("std_ms", std_ms)
        _time("floor_ms", floor_ms)
        _order("floor_ms", floor_ms, "mean_ms", mean_ms)
        if std_ms == 0:
            return cls(mean_ms, 0.0, floor_ms)
        excess = mean_ms - floor_ms
        if excess == 0:
            raise UsageError(f"latency std_ms is {std_ms}: a mean at the floor allows only 0")
        log_variance = math.log1p((std_ms / excess) ** 2)
        return cls(
            floor_ms + excess * math.exp(-log_variance / 2), math.sqrt(log_variance), floor_ms
        )

    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        drawn = generator.standard_normal(n)
        drawn *= self.sigma
        np.exp(drawn, out=drawn)
        drawn *= self.median_ms - self.floor_ms
        if self.floor_ms:
            drawn += self.floor_ms
        return drawn

    @property
    def mean_ms(self) -> float:
        return self.floor_ms + self._mean_excess_ms()

    @property
    def std_ms(self) -> float:
        return self._mean_excess_ms() * math.sqrt(math.expm1(self.sigma * self.sigma))

    def _mean_excess_ms(self) -> float:
        return (self.median_ms - self.floor_ms) * math.exp(self.sigma * self.sigma / 2)

    def scaled(self, factor: float) -> LogNormal:
        by = _factor(factor)
        return LogNormal(self.median_ms * by, self.sigma, self.floor_ms * by)

    def shifted(self, ms: float) -> LogNormal:
        by = _shift(ms)
        return LogNormal(self.median_ms + by, self.sigma, self.floor_ms + by)

    def __str__(self) -> str:
        return (
            f"log-normal, median {_ms(self.median_ms)}, sigma {self.sigma:.3g}"
            f"{_least(self.floor_ms)}"
        )


@dataclass(frozen=True, init=False)
class Gamma(Latency, trusted=True):
    """Floor plus a gamma-distributed part: the smaller the shape, the heavier the tail.

    Shape 1 is the exponential distribution. The standard deviation is the mean excess over the
    floor, divided by the square root of the shape.
    """

    average_ms: float
    shape: float
    floor_ms: float

    def __init__(self, mean_ms: float, shape: float, floor_ms: float = 0.0) -> None:
        """
        Args:
            mean_ms: mean of the whole, floor included.
            shape: at least 0.01; no unit.
            floor_ms: the least latency.

        Raises:
            UsageError: one of them is out of range or not finite.
        """
        _time("mean_ms", mean_ms)
        _number("shape", shape)
        if shape < SMALLEST_SHAPE:
            raise UsageError(f"latency shape is {shape}: it must be at least {SMALLEST_SHAPE:g}")
        _time("floor_ms", floor_ms)
        _order("floor_ms", floor_ms, "mean_ms", mean_ms)
        object.__setattr__(self, "average_ms", mean_ms)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "floor_ms", floor_ms)

    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        drawn = generator.standard_gamma(self.shape, n)
        drawn *= (self.average_ms - self.floor_ms) / self.shape
        drawn += self.floor_ms
        return drawn

    @property
    def mean_ms(self) -> float:
        return float(self.average_ms)

    @property
    def std_ms(self) -> float:
        return (self.average_ms - self.floor_ms) / math.sqrt(self.shape)

    def scaled(self, factor: float) -> Gamma:
        by = _factor(factor)
        return Gamma(self.average_ms * by, self.shape, self.floor_ms * by)

    def shifted(self, ms: float) -> Gamma:
        by = _shift(ms)
        return Gamma(self.average_ms + by, self.shape, self.floor_ms + by)

    def __str__(self) -> str:
        return f"gamma, mean {_ms(self.average_ms)}, shape {self.shape:.3g}{_least(self.floor_ms)}"


@dataclass(frozen=True)
class Pareto(Latency, trusted=True):
    """Floor plus a power-law tail (Lomax): P(latency > floor + x) = (1 + x / scale)^-alpha.

    With ``floor_ms`` equal to ``scale_ms`` it is the classical Pareto distribution.
    """

    scale_ms: float
    alpha: float
    """Exponent of the tail, above 2 so that there is a standard deviation."""
    floor_ms: float = 0.0
    """The least latency."""

    def __post_init__(self) -> None:
        _time("scale_ms", self.scale_ms)
        _number("alpha", self.alpha)
        if not self.alpha > 2:
            raise UsageError(f"latency alpha is {self.alpha}: it must be above 2")
        _time("floor_ms", self.floor_ms)

    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        drawn = generator.standard_exponential(n)
        drawn /= self.alpha
        np.expm1(drawn, out=drawn)
        drawn *= self.scale_ms
        drawn += self.floor_ms
        return drawn

    @property
    def mean_ms(self) -> float:
        return self.floor_ms + self.scale_ms / (self.alpha - 1)

    @property
    def std_ms(self) -> float:
        return self.scale_ms / (self.alpha - 1) * math.sqrt(self.alpha / (self.alpha - 2))

    def scaled(self, factor: float) -> Pareto:
        by = _factor(factor)
        return Pareto(self.scale_ms * by, self.alpha, self.floor_ms * by)

    def shifted(self, ms: float) -> Pareto:
        return Pareto(self.scale_ms, self.alpha, self.floor_ms + _shift(ms))

    def __str__(self) -> str:
        return f"Pareto, mean {_ms(self.mean_ms)}, exponent {self.alpha:.3g}{_least(self.floor_ms)}"


@dataclass(frozen=True, repr=False)
class Empirical(Latency, trusted=True):
    """Measured latencies, drawn with replacement (bootstrap); moments are those of the samples."""

    samples_ms: tuple[float, ...]
    _table: NDArray[np.float64] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        samples = tuple(self.samples_ms)
        if not samples:
            raise UsageError("latency samples_ms is empty: at least one sample is needed")
        for i, sample in enumerate(samples):
            _time(f"samples_ms[{i}]", sample)
        table = np.array(samples, dtype=np.float64)
        table.setflags(write=False)
        object.__setattr__(self, "samples_ms", tuple(map(float, samples)))
        object.__setattr__(self, "_table", table)

    @classmethod
    def of(cls, samples_ms: Iterable[float]) -> Empirical:
        """Make a distribution of any iterable of milliseconds: a list, an array, a column.

        Raises:
            UsageError: it is empty, or a sample is negative or not finite.
        """
        return cls(tuple(samples_ms))

    @classmethod
    def from_rtt(
        cls,
        rtts: Iterable[float] | str | Path,
        column: str | int | None = None,
        *,
        unit: str | None = None,
    ) -> Empirical:
        """Make a distribution of measured round trips, such as pings: one way is half of each.

        That both ways take equally long is an assumption. Each way of a link draws independently:
        the sum of two draws has the mean of the round trips, but only 0.71 of their standard
        deviation.

        Args:
            rtts: round trips, or the path of a CSV file of them.
            column: of the file, as for ``from_csv``.
            unit: ``ns``, ``us``, ``ms`` or ``s``; by default the unit at the end of the heading
                (``rtt_us``), or else milliseconds.

        Raises:
            UsageError: as for ``of`` and ``from_csv``.
            OSError: the file cannot be read.
        """
        if isinstance(rtts, str | Path):
            found = columns.read(rtts, column)
            if found.is_one_way:
                raise UsageError(
                    f"column {found.name!r} of {rtts} is one way by its name and is not halved: "
                    "Empirical.from_csv takes it as it is"
                )
            return cls._from(found, unit).scaled(0.5)
        if column is not None:
            raise UsageError(f"column {column!r}: columns are of files")
        return cls.of(rtts).scaled(columns.unit_in_ms(unit or "ms") / 2)

    @classmethod
    def from_csv(
        cls, path: str | Path, column: str | int | None = None, *, unit: str | None = None
    ) -> Empirical:
        """Make a distribution of one-way latencies in a column of a CSV file.

        Args:
            column: its name in the first line, or its number from 0; may be left out if the file
                has only one. A first line that is no number there is a heading; empty lines are
                skipped.
            unit: ``ns``, ``us``, ``ms`` or ``s``; by default the unit at the end of the heading
                (``latency_us``), or else milliseconds.

        Raises:
            UsageError: the file has no such column, or several and none is named; a heading speaks
                of round trips (``rtt``, ``ping``), which are for ``from_rtt``, or of another unit;
                or a cell is no latency: names the line.
            OSError: the file cannot be read.
        """
        found = columns.read(path, column)
        if found.is_round_trip:
            raise UsageError(
                f"column {found.name!r} of {path} holds round trips by its name, but a latency is "
                "one way: Empirical.from_rtt halves them"
            )
        return cls._from(found, unit)

    @classmethod
    def _from(cls, column: columns.Column, unit: str | None) -> Empirical:
        in_ms = column.unit_in_ms(unit)
        for line, value in column.values.items():
            _time(f"in {column.path}, line {line},", value)
        return cls(tuple(value * in_ms for value in column.values.values()))

    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        return self._table[generator.integers(0, len(self._table), n)]

    @property
    def mean_ms(self) -> float:
        return math.fsum(self.samples_ms) / len(self.samples_ms)

    @property
    def std_ms(self) -> float:
        mean = self.mean_ms
        return math.sqrt(math.fsum((s - mean) ** 2 for s in self.samples_ms) / len(self.samples_ms))

    def scaled(self, factor: float) -> Empirical:
        by = _factor(factor)
        return Empirical(tuple(sample * by for sample in self.samples_ms))

    def shifted(self, ms: float) -> Empirical:
        by = _shift(ms)
        return Empirical(tuple(sample + by for sample in self.samples_ms))

    def __repr__(self) -> str:
        return f"Empirical(<{len(self.samples_ms)} samples>)"

    def __str__(self) -> str:
        median, tail = np.percentile(self._table, (50, 99))
        samples = counted(len(self.samples_ms), "sample")
        return f"empirical, {samples}, median {_ms(float(median))}, 99% below {_ms(float(tail))}"


def _number(name: str, value: object) -> None:
    """Refuse a value that is not a finite number."""
    if not isinstance(value, Real):
        raise UsageError(f"latency {name} is {value!r}: it must be a number")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an int beyond any float
        finite = False
    if not finite:
        raise UsageError(f"latency {name} is {value}: it must be finite")


def _time(name: str, value: float) -> None:
    """Refuse a value that is not a finite time of at least 0 ms."""
    _number(name, value)
    if value < 0:
        raise UsageError(f"latency {name} is {value}: it cannot be negative")


def _order(low_name: str, low: float, high_name: str, high: float) -> None:
    if low > high:
        raise UsageError(f"latency {low_name} is {low}: it cannot exceed {high_name}, {high}")


def _factor(factor: float) -> float:
    _time("factor", factor)
    return factor


def _shift(ms: float) -> float:
    _number("shift", ms)
    return ms


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value >= 1 or value == 0 else f"{value:.2g} ms"


def _least(floor_ms: float) -> str:
    return f", at least {_ms(floor_ms)}" if floor_ms else ""
