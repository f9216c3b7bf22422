"""A cloud provider's matrix of regions as CSV: one number for each pair.

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
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.sim.network.columns import Column
from mpcsim.sim.network.measured.pairs import Row, number, rows
from mpcsim.sim.network.measured.series import Draft, Probe, Series

FORMAT: Final = "matrix of regions"
ONE_WAY: Final = ", one way"
ASYMMETRY: Final = 0.25
"""Directions that differ by a larger share of their mean are pointed out."""
_EMPTY: Final = {"", "-", "*", "na", "n/a", "nan", "none"}


def recognises(text: str) -> bool:
    """Whether the names of the lines are those of the columns."""
    try:
        found, separator = rows(text)
    except UsageError:
        return False
    if len(found) < 2 or len(found[0].cells) < 3:
        return False
    columns, names = set(found[0].cells[1:]), {row.cells[0] for row in found[1:]}
    texts = all(number(name, separator) is None for name in columns)
    return texts and len(columns & names) >= max(1, len(names) // 2)


def read(text: str, path: str, unit: str | None = None) -> list[Series]:
    """The round trip of every pair that has one.

    Args:
        unit: ``ns``, ``us``, ``ms`` or ``s``; by default what the corner says, or milliseconds.

    Raises:
        UsageError: a region twice, a line of another length, a cell that is no time: names the
            line.
    """
    try:
        found, separator = rows(text)
    except UsageError as error:
        raise UsageError(f"{path}, {error}") from None
    if len(found) < 2:
        raise UsageError(f"{path}: read as {FORMAT}, but there is only a heading")
    columns = found[0].cells[1:]
    _check_names(columns, [row.cells[0] for row in found[1:]], path)
    corner = Column(path, found[0].cells[0], {})
    in_ms = corner.unit_in_ms(unit) * (2 if corner.one_way else 1)
    form = FORMAT + ONE_WAY * corner.one_way
    cells: dict[frozenset[str], list[tuple[float, int]]] = {}
    first: dict[frozenset[str], tuple[str, str]] = {}
    every = Draft(path, form, Probe.UNKNOWN, unit_known=unit is not None or corner.unit_in_name)
    for row in found[1:]:
        if len(row.cells) > len(columns) + 1:
            raise every.wrong(row.line, f"{len(row.cells) - 1} cells for {len(columns)} regions")
        for name, cell in zip(columns, row.cells[1:], strict=False):
            if (value := _value(name, cell, row, separator, every)) is None:
                continue
            pair = frozenset((row.cells[0], name))
            first.setdefault(pair, (row.cells[0], name))
            every.add(value * in_ms, row.line)
            cells.setdefault(pair, []).append((value * in_ms, row.line))
    whole = every.series()
    missing = sum(
        frozenset((a, b)) not in cells for i, a in enumerate(columns) for b in columns[i + 1 :]
    )
    warnings = [text for text in whole.warnings if "times the median" not in text]
    if missing:
        warnings.append(f"{missing} pairs have no round trip: no link")
    return [
        replace(_series(*first[pair], both, warnings), format=form, one_way=corner.one_way)
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


def _value(name: str, cell: str, row: Row, separator: str, draft: Draft) -> float | None:
    if cell.lower() in _EMPTY:
        return None
    value = number(cell, separator)
    if value is None:
        raise draft.wrong(row.line, f"column {name}: {cell!r} is not a number")
    if value == 0:
        if name != row.cells[0]:
            draft.zeros.append(row.line)
        return None
    return value


def _check_names(columns: Sequence[str], lines: Sequence[str], path: str) -> None:
    for what, names in (("columns", columns), ("lines", lines)):
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise UsageError(f"{path}: two {what} are called {twice[0]!r}")
        if "" in names:
            raise UsageError(f"{path}: one of the {what} has no name")
