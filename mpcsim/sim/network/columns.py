"""Columns of measured times in CSV files, and the meaning of their names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mpcsim.errors import UsageError, unknown

UNITS: Final[Mapping[str, float]] = MappingProxyType(
    {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1.0, "s": 1e3}
)
"""Milliseconds in each unit; micro has two characters that look alike."""
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nanoseconds": "ns",
        "nsec": "ns",
        "microseconds": "us",
        "usec": "us",
        "usecs": "us",
        "micros": "us",
        "milliseconds": "ms",
        "millisecond": "ms",
        "millis": "ms",
        "msec": "ms",
        "msecs": "ms",
        "seconds": "s",
        "second": "s",
        "secs": "s",
        "sec": "s",
        "millisekunden": "ms",
        "sekunden": "s",
    }
)
"""Other words for units."""
ROUND_TRIP: Final = frozenset(("rtt", "rtts", "ping", "pings"))
_ONE_WAY: Final = {"oneway", "owd"}
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\WA-Z\d_]+")
_TOGETHER: Final = re.compile(
    r"(min|max|avg|mean|median|std|stddev)?(rtts?|pings?|owd|latency|delay|round(?=trip)|time(?=ms|us))"
    r"(trips?)?(min|max|avg|mean|median|std|ms|us|ns|sec|s)?"
)
"""Pattern of words written as one: ``rttms``, ``avgrtt``, ``roundtrip``."""


@dataclass(frozen=True)
class Column:
    """Column of a CSV file."""

    path: str | Path
    name: str
    """Heading; empty if there is none."""
    values: Mapping[int, float]
    """Numbers by line, as written in the file."""

    @property
    def is_round_trip(self) -> bool:
        """Whether it holds round trips by its name: ``rtt_ms``, ``ping``, ``Round trip (s)``."""
        words = self.words
        return "round trip" in " ".join(words) or bool(ROUND_TRIP & set(words))

    @property
    def is_one_way(self) -> bool:
        """Whether it holds one-way times by its name: ``owd``, ``one_way_ms``, ``oneway_latency``,
        or ``latency_ms``, as latencies are one way throughout."""
        pairs = {"".join(pair) for pair in pairwise(self.words)}
        return bool(_ONE_WAY & {*self.words, *pairs}) or (
            not self.is_round_trip and "latency" in self.words
        )

    def unit_in_ms(self, unit: str | None) -> float:
        """Return milliseconds per number: by the unit asked for, by its name, or else 1.

        Raises:
            UsageError: no such unit; the name ends in another one, or has one in its middle and
                none is asked for.
        """
        where = f"column {self.name!r} of {self.path}"
        words = [WORDS.get(word, word) for word in self.words]
        named = UNITS.get(words[-1]) if words else None
        if unit is None:
            for word in words[:-1]:
                if named is None and UNITS.get(word, 1.0) != 1.0:
                    raise UsageError(f"{where} may be in {word}: say its unit")
            return named or 1.0
        asked = unit_in_ms(unit)
        if named not in (None, asked):
            raise UsageError(f"{where} is not in {unit} by its name")
        return asked

    @property
    def has_unit(self) -> bool:
        """Whether its name ends in a unit."""
        return bool(self.words) and WORDS.get(self.words[-1], self.words[-1]) in UNITS

    @property
    def words(self) -> list[str]:
        """Words of its name, in lower case: ``starttime`` does not contain ``rtt``."""
        return [word for letters in _LETTERS.findall(self.name) for word in _words(letters)]


def _words(letters: str) -> Iterator[str]:
    """Yield the words in letters without separators."""
    if (found := _TOGETHER.fullmatch(letters.lower())) is not None:
        yield from filter(None, found.groups())
        return
    for part in _CAMEL.findall(letters):
        found = _TOGETHER.fullmatch(part.lower())
        yield from filter(None, found.groups()) if found else (part.lower(),)


def unit_in_ms(unit: str) -> float:
    """Return the milliseconds in a unit.

    Raises:
        UsageError: there is no such unit.
    """
    if unit not in UNITS:
        raise UsageError(unknown("unit", unit, UNITS))
    return UNITS[unit]


def read(path: str | Path, column: str | int | None) -> Column:
    """Return one column of a CSV file; empty lines are left out.

    Args:
        column: its name in the first line, or its number from 0; None: the file has only one. A
            first line that is no number there is a heading.

    Raises:
        UsageError: there is no such column, there are several to choose from, or a cell is no
            number; names the line.
        OSError: the file cannot be read.
    """
    with Path(path).open(encoding="utf-8-sig", newline="") as lines:
        rows = list(_rows(lines))
    if isinstance(column, str):
        first = [cell.strip() for cell in rows[0][1]] if rows else []
        if column not in first:
            raise UsageError(
                f"{path} has no column {column!r}; it has {', '.join(first) or 'none'}"
            )
        if first.count(column) > 1:
            raise UsageError(f"{path} has several columns {column!r}: say which by its number")
        index = first.index(column)
    elif column is None:
        _check_alone(path, rows)
        index = 0
    else:
        index = column
        if index < 0:
            raise UsageError(f"column {index} of {path}: columns count from 0")
    name, values = "", {}
    for nth, (at, row) in enumerate(rows):
        if index >= len(row):
            raise UsageError(f"{path}, line {at}: there is no column {column!r}")
        cell = row[index].strip()
        if nth == 0 and (isinstance(column, str) or not _is_number(cell)):
            name = cell
        elif _is_number(cell):
            values[at] = float(cell)
        else:
            raise UsageError(f"{path}, line {at}: {row[index]!r} is not a number")
    return Column(path, name, values)


def _rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not empty, with the number of its last line."""
    rows = csv.reader(lines)
    for row in rows:
        if any(map(str.strip, row)):
            yield rows.line_num, row


def _check_alone(path: str | Path, rows: list[tuple[int, list[str]]]) -> None:
    """Refuse to choose among several columns."""
    for at, row in rows:
        if not any(map(str.strip, row[1:])):
            continue
        names = [cell.strip() for cell in rows[0][1]]
        if at > rows[0][0] or any(map(_is_number, names)):
            found = f", line {at}, has {len(row)} columns: say which by its number from 0 on"
        else:
            found = f" has the columns {', '.join(map(repr, names))}: say which"
        raise UsageError(f"{path}{found}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
