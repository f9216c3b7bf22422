"""Times of calls in a CSV file: seconds, other units by name, or dates.

Columns are separated by commas, semicolons or tabs (``mpcsim.sim.network.measured.tables.tables``);
with semicolons, decimals may have commas. The column is the one that is asked for, or the first
with a heading for times (``time``, ``timestamp``, ``zeit_s``), or the first. The end of the heading
is the unit (``time_ms``); without one, numbers are seconds, unless they are too large for seconds
since 1970: those are milliseconds, microseconds or nanoseconds. Dates are ISO 8601, or
``31.12.2026 10:00:00``; without a zone they are UTC. A column of counts (``calls``) must be all 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.sim.network.columns import UNITS, Column
from mpcsim.sim.network.measured.tables import tables
from mpcsim.sim.network.measured.tables.cells import decimal_of, number
from mpcsim.sim.network.measured.tables.pairs import EPOCHS

__all__ = ["read"]

_TIMES: Final = {"time", "times", "timestamp", "timestamps", "at", "when", "date", "datetime"} | {
    *("epoch", "starttime", "start", "arrival", "arrivals", "utc", "ts"),
    *("zeit", "zeitpunkt", "datum", "uhrzeit"),
}
_COUNTS: Final = {"calls", "count", "requests", "hits", "n", "aufrufe", "anfragen", "anzahl"}
_DURATIONS: Final = {"response", "service", "duration", "elapsed", "think", "wait", "latency"}
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d\d):(\d\d(?:[.,]\d+)?)")
_DOTTED: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})([ T].*)?")


def read(path: str | Path, column: str = "") -> list[float]:
    """Return the times in seconds, as in the file.

    Raises:
        UsageError: no such column, a cell that is no time, several calls in a line: names the line
            and its text.
        OSError: the file cannot be read.
    """
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        table = tables.parse(text)
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not text in UTF-8: save it as UTF-8") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    if not table.rows:
        raise UsageError(f"{path}: no times")
    first = table.rows[0].cells
    has_headings = bool(column) or not _is_time(first[0])
    headings = [Column(path, cell if has_headings else "", {}) for cell in first]
    at = _time_column(headings, column, path)
    body = table.rows[has_headings:]
    _check_counts(headings, at, body, path)
    try:
        cells = [(row.line, row.cells[at]) for row in body if at < len(row.cells)]
        decimal = decimal_of(cells, table.separator)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    found = []
    for row in body:
        cell = row.cells[at] if at < len(row.cells) else ""
        seconds = _seconds(cell, headings[at], decimal)
        if seconds is None:
            raise UsageError(
                f"{path}: line {row.line}: not a number of seconds, nor a date (ISO 8601): {cell!r}"
            )
        found.append(seconds)
    return found


def _time_column(headings: Sequence[Column], column: str, path: str | Path) -> int:
    """Return the index of the column with the times."""
    names = [each.name for each in headings]
    if column:
        if column not in names:
            raise UsageError(f"{path}: no column {column!r}: {', '.join(names)}")
        return names.index(column)
    words = [set(each.words) for each in headings]
    plain = (at for at, each in enumerate(words) if each and each <= _TIMES | UNITS.keys())
    named = (at for at, each in enumerate(words) if each & _TIMES and not each & _DURATIONS)
    return next(plain, next(named, 0))


def _check_counts(
    headings: Sequence[Column], at: int, body: Sequence[tables.Row], path: str | Path
) -> None:
    """Refuse lines that stand for no call, or for several."""
    counts = [n for n, each in enumerate(headings) if n != at and set(each.words) & _COUNTS]
    for n in counts:
        for row in body:
            cell = row.cells[n] if n < len(row.cells) else ""
            found = number(cell, ".")
            if found is not None and found.value != 1:
                raise UsageError(
                    f"{path}: line {row.line}: {headings[n].name} is {cell}: a line is one call; "
                    "write a line for each"
                )


def _is_time(cell: str) -> bool:
    """Return whether a cell is a time, so that the first line is no heading."""
    return any(_seconds(cell, Column("", "", {}), decimal) is not None for decimal in ".,")


def _seconds(cell: str, heading: Column, decimal: str) -> float | None:
    """Return the time in a cell in seconds; None: the cell is no time."""
    found = number(cell, decimal)
    if found is not None:
        if not math.isfinite(found.value):
            return None
        if found.unit is not None:
            return found.value * Column("", found.unit, {}).unit_in_ms(None) / 1000
        if heading.has_unit:
            return found.value * heading.unit_in_ms(None) / 1000
        return found.value / next((by for above, by in EPOCHS if found.value > above), 1.0)
    if clock := _CLOCK.fullmatch(cell):
        hours, minutes, seconds = clock.groups()
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds.replace(",", "."))
    if dotted := _DOTTED.fullmatch(cell):
        day, month, year, rest = dotted.groups()
        cell = f"{year}-{int(month):02}-{int(day):02}{(rest or '').rstrip()}"
    try:
        date = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
