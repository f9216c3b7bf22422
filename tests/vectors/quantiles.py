"""Measured distributions as they are kept here, and how far ours are from them.

A file (``.csv.gz``) has lines of parameters (``# name: value``), one line for each column
(``# column NAME: count=... mean=... standard_error=...``), a header, and then the quantiles of all
columns at the levels (i + 0.5) / 2001, in milliseconds. Mean and standard error are those of the
samples themselves.
"""

import csv
import gzip
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

COUNT: Final = 2001
LEVELS: Final = (np.arange(COUNT) + 0.5) / COUNT

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Distribution:
    """What is known of a set of samples, in milliseconds."""

    count: int
    mean: float
    standard_error: float
    quantiles: Times


@dataclass(frozen=True)
class Reference:
    """One file."""

    name: str
    parameters: Mapping[str, str]
    columns: Mapping[str, Distribution]

    def number(self, parameter: str) -> float:
        """A parameter that is a number."""
        return float(self.parameters[parameter])


@dataclass(frozen=True)
class Comparison:
    """How far our samples are from a reference."""

    mean: float
    """Relative difference of the means: ours is larger where it is above 0."""
    p95: float
    """The reference's distribution function at our 95th percentile."""
    p99: float
    wasserstein: float
    """Distance of the distributions, over the reference's mean."""


def summary(samples: ArrayLike) -> Distribution:
    """What is kept of samples. Quantiles are samples, not means of two: there are gaps."""
    values = np.sort(np.asarray(samples, dtype=np.float64))
    if not values.size or not np.isfinite(values).all():
        raise ValueError("no samples, or some that are not finite")
    return Distribution(
        count=values.size,
        mean=float(values.mean()),
        standard_error=float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else 0,
        quantiles=np.quantile(values, LEVELS, method="inverted_cdf"),
    )


def save(path: Path, parameters: Mapping[str, object], columns: Mapping[str, Distribution]) -> None:
    """Write a file; the same content gives the same bytes."""
    out = io.StringIO()
    for name, value in parameters.items():
        out.write(f"# {name}: {value}\n")
    for name, column in columns.items():
        out.write(
            f"# column {name}: count={column.count} mean={column.mean:.6f} "
            f"standard_error={column.standard_error:.6f}\n"
        )
    out.write(",".join(("quantile", *columns)) + "\n")
    for i, level in enumerate(LEVELS):
        figures = (f"{column.quantiles[i]:.4f}" for column in columns.values())
        out.write(",".join((f"{level:.6f}", *figures)) + "\n")
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(out.getvalue().encode())


def save_measured(path: Path, parameters: Mapping[str, object], dirty: Times, clean: Times) -> None:
    """Write the times of first and second exchanges, and of second ones after a clean first one."""
    times = {"first": dirty[:, 0], "second": dirty[:, 1], "clean": clean[:, 1]}
    columns = {name: summary(samples) for name, samples in times.items()}
    save(path, parameters, columns)
    means = ", ".join(f"{name} {column.mean:.1f} ms" for name, column in columns.items())
    print(f"{path.name}: {means}", flush=True)


def load(path: Path) -> Reference:
    """Read a file.

    Raises:
        ValueError: it is not as ``save`` writes it.
    """
    with gzip.open(path, "rt", encoding="utf-8") as text:
        lines = text.read().splitlines()
    parameters: dict[str, str] = {}
    moments: dict[str, dict[str, float]] = {}
    body = 0
    while lines[body].startswith("# "):
        name, _, value = lines[body][2:].partition(": ")
        if name.startswith("column "):
            pairs = (pair.split("=") for pair in value.split())
            moments[name.removeprefix("column ")] = {key: float(figure) for key, figure in pairs}
        else:
            parameters[name] = value
        body += 1
    header = lines[body].split(",")
    table = np.array([[float(x) for x in line.split(",")] for line in lines[body + 1 :]])
    if header != ["quantile", *moments] or table.shape != (COUNT, len(header)):
        raise ValueError(f"{path.name}: {header} with {table.shape[0]} lines")
    columns = {
        name: Distribution(
            int(moment["count"]), moment["mean"], moment["standard_error"], table[:, k]
        )
        for k, (name, moment) in enumerate(moments.items(), start=1)
    }
    return Reference(path.name.removesuffix(".csv.gz"), parameters, columns)


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The lines of a plain CSV file, as dictionaries; comments are left out."""
    with path.open(encoding="utf-8", newline="") as text:
        yield from csv.DictReader(line for line in text if not line.startswith("#"))


# ---------------------------------------------------------------------- comparisons


def rank(reference: Distribution, value: float, level: float, slack: float = 1e-3) -> float:
    """The reference's distribution function at ``value``.

    Where many samples are the same (nothing was lost), it jumps: then the nearest to ``level`` of
    what it takes there. ``slack`` (ms) is how much a value may be off and still be the same.
    """
    below = float(np.searchsorted(reference.quantiles, value - slack, "left")) / COUNT
    upto = float(np.searchsorted(reference.quantiles, value + slack, "right")) / COUNT
    return min(max(level, below), upto)


def compare(reference: Distribution, samples: ArrayLike, slack: float = 1e-3) -> Comparison:
    """Our samples beside a reference."""
    ours = summary(samples)
    p95, p99 = np.quantile(np.asarray(samples), (0.95, 0.99), method="inverted_cdf")
    return Comparison(
        mean=ours.mean / reference.mean - 1,
        p95=rank(reference, float(p95), 0.95, slack),
        p99=rank(reference, float(p99), 0.99, slack),
        wasserstein=np.abs(reference.quantiles - ours.quantiles).mean() / reference.mean,
    )
