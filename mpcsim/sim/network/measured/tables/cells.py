"""Numbers in the cells of a table: decimal commas, thousands, units behind them, and losses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.sim.network.columns import UNITS, WORDS

_NOTHING: Final = """
    * - -- ? ??? timeout lost loss nan none null na n/a n.a. failed fail error unreachable dropped
    timedout noresponse noanswer requesttimedout requesttimeout
"""
LOST: Final = frozenset((*_NOTHING.split(), ""))
"""Cells, without spaces, that stand for a lost probe; -1 is another."""
_CELL: Final = re.compile(
    r"(?P<number>[-+]?(?:\d[\d.,]*\d|\d|[.,]\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>[^\W\d_]+)?\.?"
)
_THOUSANDS: Final = re.compile(r"[-+]?\d{1,3}(?:[.,]\d{3})+")


class Number(NamedTuple):
    """Number in a cell."""

    value: float
    unit: str | None
    """Unit behind the number, a name in ``UNITS``; None if there is none."""


def is_lost(cell: str) -> bool:
    """Return whether the cell stands for a lost probe."""
    plain = cell.strip().lower().rstrip(".!")
    found = number(cell, ".")
    return (
        plain in LOST
        or re.sub(r"[\s_-]+", "", plain) in LOST - {""}
        or (found is not None and found.value == -1)
    )


def number(cell: str, decimal: str) -> Number | None:
    """Return the number in a cell, with its unit; None if it is not a number.

    Args:
        decimal: decimal mark of the column: a point or a comma.
    """
    cell = cell.strip().replace("\u2212", "-")
    if cell.lower().lstrip("+-") in ("inf", "infinity"):
        return Number(float(cell), None)
    found = _CELL.fullmatch(cell)
    if found is None:
        return None
    unit = found["unit"]
    if unit is not None:
        unit = WORDS.get(unit.lower(), unit.lower())
        if unit not in UNITS:
            return None
    other = "," if decimal == "." else "."
    digits = found["number"]
    if other in digits and not re.fullmatch(
        rf"[-+]?\d{{1,3}}(?:{re.escape(other)}\d{{3}})+(?:{re.escape(decimal)}\d+)?", digits
    ):
        return None
    try:
        value = float(digits.replace(other, "").replace(decimal, "."))
    except ValueError:
        return None
    return None if math.isnan(value) else Number(value, unit)


def decimal_of(cells: Iterable[tuple[int, str]], separator: str) -> str:
    """Return the decimal mark of a column.

    Args:
        cells: with their lines.

    Raises:
        UsageError: it cannot be told: names line and cell.
    """
    digits = [(line, found["number"]) for line, cell in cells if (found := _CELL.fullmatch(cell))]
    commas = [(line, each) for line, each in digits if "," in each]
    if not commas:
        # 1.234.567 has thousands.
        return "," if any(each.count(".") > 1 for _, each in digits) else "."
    both = [each for _, each in commas if "." in each]
    if both:
        return "," if both[0].rfind(",") > both[0].rfind(".") else "."
    points = [each for _, each in digits if "." in each]
    grouped = all(_THOUSANDS.fullmatch(each) for _, each in commas)
    if points:
        if grouped and not all(_THOUSANDS.fullmatch(each) for each in points):
            return "."
        if not grouped and all(_THOUSANDS.fullmatch(each) for each in points):
            return ","
    elif any(each.count(",") > 1 for _, each in commas):
        return "."
    elif not grouped or separator != ",":
        return ","
    line, cell = commas[0]
    raise UsageError(
        f"line {line}: {cell!r}: a decimal comma, or thousands? Write points before decimals"
    )
