"""Arrival processes of an open workload (rates over time, given times), and closed workloads.

Times are seconds since the beginning of a run. Arrivals at a rate are a Poisson process, piecewise
constant in time (``draw_times``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.model import arrival_files
from mpcsim.errors import UsageError
from mpcsim.sim.network.transport import is_whole_number
from mpcsim.sim.streams import generator

DAY_S = 86_400.0


class RatePiece(NamedTuple):
    """Interval of time with a constant arrival rate."""

    begin_s: float
    end_s: float
    per_s: float


@dataclass(frozen=True)
class Steady:
    """Poisson arrivals at one rate."""

    per_s: float

    def __str__(self) -> str:
        return f"{self.per_s:g} calls a second"

    def __post_init__(self) -> None:
        _check_rate("arrivals per_s", self.per_s)

    def pieces(self, begin_s: float, end_s: float) -> Iterator[RatePiece]:
        """Return the rates between two times."""
        yield RatePiece(begin_s, end_s, self.per_s)


@dataclass(frozen=True)
class Bursts:
    """Poisson arrivals at one rate, and at another during bursts."""

    per_s: float
    burst_per_s: float
    """Rate during a burst, in place of ``per_s``."""
    lasting_s: float
    every_s: float = math.inf
    """Period, from the beginning of a burst to the next one's; by default there is one burst."""
    first_s: float = 60.0

    def __str__(self) -> str:
        again = f", again every {self.every_s:g} s" if self.every_s < math.inf else ""
        return (
            f"{self.per_s:g} calls a second, {self.burst_per_s:g} for {self.lasting_s:g} s after "
            f"{self.first_s:g} s{again}"
        )

    def __post_init__(self) -> None:
        _check_rate("arrivals per_s", self.per_s)
        _check_rate("arrivals burst_per_s", self.burst_per_s)
        if not 0 < self.lasting_s < self.every_s:
            raise UsageError(
                f"arrivals lasting_s is {self.lasting_s}: above 0, and below every_s "
                f"({self.every_s:g})"
            )
        if not 0 <= self.first_s < math.inf:
            raise UsageError(f"arrivals first_s is {self.first_s}: below 0, or not finite")

    def active_intervals_s(self, length_s: float) -> list[tuple[float, float]]:
        """Return the beginnings and ends of all bursts."""
        return [
            (begin, end) for begin, end, rate in self.pieces(0.0, length_s) if rate != self.per_s
        ]

    def pieces(self, begin_s: float, end_s: float) -> Iterator[RatePiece]:
        """Return the rates between two times."""
        n = 0
        if begin_s > self.first_s and self.every_s < math.inf:
            n = math.floor((begin_s - self.first_s) / self.every_s)
        at = begin_s
        while at < end_s:
            burst = self.first_s + (n * self.every_s if n else 0.0)
            over = burst + self.lasting_s
            for until, rate in ((burst, self.per_s), (over, self.burst_per_s)):
                if at < min(until, end_s):
                    yield RatePiece(at, min(until, end_s), rate)
                    at = min(until, end_s)
            if self.every_s == math.inf and at < end_s:
                yield RatePiece(at, end_s, self.per_s)
                return
            n += 1


@dataclass(frozen=True)
class Profile:
    """Poisson arrivals at a rate for each part of a day; the parts are equally long, and days
    repeat."""

    per_s: tuple[float, ...]
    lasting_s: float = DAY_S

    def __str__(self) -> str:
        return f"{min(self.per_s):g} to {max(self.per_s):g} calls a second, as the day has it"

    def __post_init__(self) -> None:
        if not self.per_s:
            raise UsageError("arrivals per_s is empty: one rate for each part of the day")
        for rate in self.per_s:
            _check_rate("arrivals per_s", rate)
        if not 0 < self.lasting_s < math.inf:
            raise UsageError(f"arrivals lasting_s is {self.lasting_s}: above 0, and finite")

    def pieces(self, begin_s: float, end_s: float) -> Iterator[RatePiece]:
        """Return the rates between two times."""
        each = self.lasting_s / len(self.per_s)
        n = math.floor(begin_s / each)
        while n * each < end_s:
            until = min((n + 1) * each, end_s)
            if until > max(begin_s, n * each):
                yield RatePiece(max(begin_s, n * each), until, self.per_s[n % len(self.per_s)])
            n += 1


@dataclass(frozen=True)
class Times:
    """Arrivals at given times, from a file or a list."""

    at_s: tuple[float, ...]

    def __str__(self) -> str:
        return f"{len(self.at_s):,} calls at given times, over {self.at_s[-1] - self.at_s[0]:g} s"

    def __post_init__(self) -> None:
        for n, (one, next_) in enumerate(zip(self.at_s, self.at_s[1:], strict=False), 2):
            if next_ < one:
                raise UsageError(
                    f"arrivals: time {n}, {next_:g} s, is before time {n - 1}, {one:g} s: "
                    "out of order"
                )
        if not self.at_s or not self.at_s[0] >= 0 or not self.at_s[-1] < math.inf:
            raise UsageError("arrivals: times are from 0 on, finite, and at least one")

    @classmethod
    def of_csv(cls, path: str | Path, column: str = "") -> Times:
        """Return the times in a CSV file (``arrival_files``); the first time becomes 0.

        Args:
            column: its heading; by default the first whose heading is a time's, or the first.

        Raises:
            UsageError: no such column, a cell that is no time, or times out of order.
            OSError: the file cannot be read.
        """
        found = arrival_files.read(path, column)
        try:
            return cls(tuple(each - found[0] for each in found))
        except (UsageError, IndexError) as error:
            raise UsageError(f"{path}: {error}") from None


@dataclass(frozen=True)
class Users:
    """Closed workload: users who call, wait for the answer, think, and call again."""

    count: int
    think_s: float = 0.0
    """Mean think time (exponential)."""

    def __str__(self) -> str:
        return f"{self.count:,} users who think for {self.think_s:g} s"

    def __post_init__(self) -> None:
        if not is_whole_number(self.count, 1):
            raise UsageError(f"arrivals count is {self.count}: not a whole number from 1 on")
        if not 0 <= self.think_s < math.inf:
            raise UsageError(f"arrivals think_s is {self.think_s}: below 0, or not finite")


Arrivals = Steady | Bursts | Profile | Times | Users


def draw_times(
    arrivals: Steady | Bursts | Profile | Times, begin_s: float, end_s: float, seed: int, n: int
) -> NDArray[np.float64]:
    """Return the times of all calls from ``begin_s`` to before ``end_s``, in order.

    Args:
        n: number of this part of the run; each has a generator of its own.
    """
    if isinstance(arrivals, Times):
        times = np.array(arrivals.at_s)
        return times[(times >= begin_s) & (times < end_s)]
    source = generator(seed, "arrivals", n)
    parts = []
    for piece in arrivals.pieces(begin_s, end_s):
        count = source.poisson(piece.per_s * (piece.end_s - piece.begin_s))
        parts.append(np.sort(source.uniform(piece.begin_s, piece.end_s, count)))
    return np.concatenate(parts) if parts else np.empty(0)


def _check_rate(what: str, per_s: float) -> None:
    """Refuse a rate that is negative or infinite."""
    if not 0 <= per_s < math.inf:
        raise UsageError(f"{what} is {per_s}: calls a second, from 0 on")
