"""Reader of a cloud provider's matrix of regions (CSV, Markdown, JSON): one number a pair.

The first line names regions from its second cell on, each further line one in its first cell; cells
are round trips, or times of one way if the first cell says so (``latency_ms``), in milliseconds
unless said. One half may be empty; where both are filled, the link
gets their mean. The diagonal is the round trip within a region.

    ,seoul,tokyo,virginia
    seoul,2.1,35.9,180.3
    tokyo,36.2,1.9,150.0
    virginia,179.8,149.6,0.9
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.sim.network.columns import UNITS, Column
from mpcsim.sim.network.measured.series import Draft, Probe, Series
from mpcsim.sim.network.measured.tables import tables
from mpcsim.sim.network.measured.tables.cells import decimal_of, number
from mpcsim.sim.network.measured.tables.tables import Row

FORMAT: Final = "matrix of regions"
ONE_WAY: Final = ", one way"
ASYMMETRY: Final = 0.25
"""Relative difference of directions above which it is reported."""
_EMPTY: Final = {"", "-", "*", "na", "n/a", "nan", "none"}


class _Scale(NamedTuple):
    """Unit and decimal mark of the numbers in the cells."""

    corner: Column
    unit: str | None
    decimal: str


def can_read(text: str) -> bool:
    """Return whether the names of the lines are those of the columns."""
    try:
        found = tables.parse(text).rows
    except UsageError:
        return False
    if len(found) < 2 or len(found[0].cells) < 3:
        return False
    columns, names = set(found[0].cells[1:]), {row.cells[0] for row in found[1:]}
    texts = all(number(name, ".") is None for name in columns)
    return texts and len(columns & names) >= max(1, len(names) // 2)


def read(text: str, path: str, unit: str | None = None) -> list[Series]:
    """Return the round trip of every pair that has one.

    Args:
        unit: ``ns``, ``us``, ``ms`` or ``s``; by default what the corner says, or milliseconds.

    Raises:
        UsageError: a region twice, a line of another length, a cell that is no time: names the
            line.
    """
    try:
        table = tables.parse(text)
        found = table.rows
        body = [(row.line, cell) for row in found[1:] for cell in row.cells[1:]]
        decimal = decimal_of(body, table.separator)
    except UsageError as error:
        raise UsageError(f"{path}, {error}") from None
    if len(found) < 2:
        raise UsageError(f"{path}: read as {FORMAT}, but there is only a heading: add the regions")
    columns = found[0].cells[1:]
    _check_names(columns, [row.cells[0] for row in found[1:]], path)
    corner = Column(path, found[0].cells[0], {})
    scale = _Scale(corner, unit, decimal)
    form = f"{FORMAT} ({table.name}){ONE_WAY * corner.is_one_way}"
    said = unit is not None or corner.has_unit
    every = Draft(path, form, Probe.UNKNOWN, unit_known=said)
    every.unit = _unit(corner, unit)
    every.assumed.append("the mean of both directions, where both are there")
    cells: dict[frozenset[str], list[tuple[float, int]]] = {}
    first: dict[frozenset[str], tuple[str, str]] = {}
    for row in found[1:]:
        if len(row.cells) > len(columns) + 1:
            raise every.error_at(
                row.line,
                f"{len(row.cells) - 1} cells for {len(columns)} regions: is there a decimal comma?",
            )
        for name, cell in zip(columns, row.cells[1:], strict=False):
            if (ms := _ms(name, cell, row, scale, every)) is None:
                continue
            pair = frozenset((row.cells[0], name))
            first.setdefault(pair, (row.cells[0], name))
            every.add(ms, row.line)
            cells.setdefault(pair, []).append((ms, row.line))
    whole = every.series()
    missing = sum(
        frozenset((a, b)) not in cells for i, a in enumerate(columns) for b in columns[i + 1 :]
    )
    warnings = [text for text in whole.warnings if "times the median" not in text]
    if missing:
        warnings.append(f"{missing} pairs have no round trip: no link")
    return [
        replace(
            _series(*first[pair], both, warnings),
            format=form,
            one_way=corner.is_one_way,
            unit=every.unit,
            assumed=tuple(every.assumed),
        )
        for pair, both in cells.items()
    ]


def _series(a: str, b: str, both: Sequence[tuple[float, int]], warnings: Sequence[str]) -> Series:
    times = [ms for ms, _ in both]
    mean = fmean(times)
    own = list(warnings)
    if max(times) - min(times) > ASYMMETRY * mean:
        own.append(
            f"{a} - {b}: {min(times):g} ms one way round and {max(times):g} ms the other, in lines "
            + " and ".join(str(line) for _, line in both)
        )
    return Series(
        a,
        b,
        FORMAT,
        Probe.UNKNOWN,
        (mean,),
        (both[0][1],),
        understood=("one number for the pair, without scatter",),
        warnings=tuple(own),
    )


def _unit(corner: Column, unit: str | None) -> str:
    if unit is not None:
        return f"{unit}, as --unit says"
    if corner.has_unit:
        return f"{corner.words[-1]}, as the corner says"
    return "milliseconds, since nothing says another unit"


def _ms(name: str, cell: str, row: Row, scale: _Scale, draft: Draft) -> float | None:
    """Return the round trip in a cell; None: there is none."""
    if cell.lower() in _EMPTY:
        return None
    corner, unit = scale.corner, scale.unit
    found = number(cell, scale.decimal)
    if found is None:
        raise draft.error_at(row.line, f"column {name}: {cell!r} is not a number: leave it empty")
    in_ms = corner.unit_in_ms(unit)
    if found.unit is not None:
        if (unit is not None or corner.has_unit) and UNITS[found.unit] != in_ms:
            raise draft.error_at(
                row.line, f"column {name}: {cell!r} is in another unit than is said"
            )
        in_ms, draft.unit_known = UNITS[found.unit], True
        draft.unit = f"{found.unit}, as the cells say"
    if found.value == 0:
        if name != row.cells[0]:
            draft.zeros.append(row.line)
        return None
    return found.value * in_ms * (2 if corner.is_one_way else 1)


def _check_names(columns: Sequence[str], lines: Sequence[str], path: str) -> None:
    for what, names in (("columns", columns), ("lines", lines)):
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise UsageError(f"{path}: two {what} are called {twice[0]!r}")
        if "" in names:
            raise UsageError(f"{path}: one of the {what} has no name")
