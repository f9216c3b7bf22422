"""A CSV of round trips, or of one-way times where headings say so: one a line, of one or several
pairs.

Headings say what a column is: the ends (``from`` and ``to``, ``source`` and ``target``, ``a`` and
``b``, ...), the round trip (``rtt_ms``, ``ping``, ``delay_us``: the unit is at the end, or else
milliseconds) or the time of one way (``one_way_ms``, ``owd``, ``latency_ms``), when it was taken
(``time``, ``timestamp``: seconds, or ISO 8601). Columns that say none of this are left alone.
Commas, semicolons (with decimal commas) or tabs part them. A file without headings has one column,
of round trips.

A round trip that is empty, or ``*``, ``timeout``, ``lost``, ``nan`` or ``-``, got lost.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.sim.network.columns import Column
from mpcsim.sim.network.measured.series import CLIENT_SITE, GATEWAY_SITE, Draft, Probe, Series

FORMAT: Final = "CSV of round trips"
ONE_WAY: Final = "CSV of one-way times"

_ENDS: Final = (
    {"from", "source", "src", "a", "client", "origin", "sitea", "fromsite", "fromregion"},
    {"to", "target", "destination", "dest", "dst", "b", "server", "siteb", "tosite", "toregion"},
)
_WHEN: Final = {
    "time",
    "timestamp",
    "at",
    "when",
    "date",
    "datetime",
    "epoch",
    "times",
    "timestamps",
}
_LATENCY: Final = {"latency", "delay", "ms", "rtt", "ping"}
_HEADING: Final = re.compile(r"[\w ()/µ-]{1,40}")
_LOST: Final = {"", "*", "-", "timeout", "lost", "nan", "none", "null", "na", "n/a"}


class Row(NamedTuple):
    """A line of a CSV file that is not empty."""

    line: int
    cells: Sequence[str]


class _Layout(NamedTuple):
    """Which column is which."""

    rtt: int
    ends: tuple[int, int] | None
    when: int | None


def rows(text: str) -> tuple[list[Row], str]:
    """What is not empty, and what parts the columns."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    separator = max(",;\t", key=first.count)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    return list(_rows(reader)), separator


def _rows(reader: Iterator[list[str]]) -> Iterator[Row]:
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            line = getattr(reader, "line_num", 0)
            raise UsageError(f"line {line}: not CSV: {error}") from None
        if any(map(str.strip, cells)) and not cells[0].startswith("#"):
            yield Row(getattr(reader, "line_num", 0), [cell.strip() for cell in cells])


def number(cell: str, separator: str) -> float | None:
    """The number in a cell; None: it is none."""
    try:
        value = float(cell.replace(",", ".") if separator == ";" else cell)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def recognises(text: str) -> bool:
    """Whether a heading or the lines look like it."""
    try:
        found, separator = rows(text)
        if not found:
            return False
        first = found[0].cells
        if number(first[0], separator) is not None:
            return all(number(row.cells[0], separator) is not None for row in found[:5])
        headings = [Column("", cell, {}) for cell in first if _HEADING.fullmatch(cell)]
        if any(set(each.words) & _LATENCY or each.round_trips for each in headings):
            return True
        at = _layout(found, separator, "", None).rtt
    except UsageError:
        return False
    cells = [row.cells[at] for row in found[1:6] if at < len(row.cells)]
    return any(number(cell, separator) is not None for cell in cells)


def read(text: str, path: str, unit: str | None = None, column: str | None = None) -> list[Series]:
    """The round trips of every pair, in the order of the file.

    Rows of both directions of a pair belong together: a round trip goes both ways.

    Args:
        unit: ``ns``, ``us``, ``ms`` or ``s``; by default what the heading says, or milliseconds.
        column: heading of the round trips, where it is not clear.

    Raises:
        UsageError: no or several columns may be the round trips, a cell is no time: names the line.
    """
    try:
        found, separator = rows(text)
    except UsageError as error:
        raise UsageError(f"{path}, {error}") from None
    if not found:
        raise UsageError(f"{path}: read as {FORMAT}, but it is empty")
    layout = _layout(found, separator, path, column)
    headed = number(found[0].cells[layout.rtt], separator) is None
    heading = Column(path, found[0].cells[layout.rtt] if headed else "", {})
    in_ms = heading.unit_in_ms(unit)
    said = unit is not None or heading.unit_in_name
    one_way = heading.one_way
    form = ONE_WAY if one_way else FORMAT
    drafts: dict[frozenset[str], Draft] = {}
    width = len(found[0].cells)
    for row in found[headed:]:
        a, b = _ends(row, layout, path, width)
        pair = frozenset((a, b))
        if pair not in drafts:
            drafts[pair] = draft = Draft(path, form, Probe.UNKNOWN, a, b, unit_known=said)
            if not heading.round_trips and not one_way:
                name = f"column {heading.name!r}" if headed else "the column"
                draft.understood.append(f"{name} is taken for round trips")
            if one_way:
                draft.understood.append(
                    f"column {heading.name!r} is one way by its name; shown is twice that"
                )
        draft = drafts[pair]
        cell = row.cells[layout.rtt] if layout.rtt < len(row.cells) else ""
        if cell.lower() in _LOST:
            draft.lose(row.line)
            continue
        value = number(cell, separator)
        if value is None:
            raise draft.wrong(row.line, f"{cell!r} is not a number")
        at = None if layout.when is None else _when(row, layout.when, separator, draft)
        draft.add(value * in_ms * (2 if one_way else 1), row.line, at)
    if not drafts:
        raise UsageError(f"{path}: read as {FORMAT}, but there is nothing under its headings")
    for draft in drafts.values():
        if draft.lost_in:
            draft.understood.append(f"{len(draft.lost_in)} without a time: lost")
    return [draft.series(one_way=one_way) for draft in drafts.values()]


def _ends(row: Row, layout: _Layout, path: str, width: int) -> tuple[str, str]:
    if layout.ends is None:
        return CLIENT_SITE, GATEWAY_SITE
    if len(row.cells) < max(layout.ends) + 1:
        raise UsageError(f"{path}, line {row.line}: {len(row.cells)} cells, but {width} headings")
    a, b = (row.cells[at] for at in layout.ends)
    if not a or not b:
        raise UsageError(f"{path}, line {row.line}: a site has no name")
    if a == b:
        raise UsageError(f"{path}, line {row.line}: from {a} to itself: a link needs two sites")
    return a, b


def _when(row: Row, column: int, separator: str, draft: Draft) -> float | None:
    """Seconds; a time without a zone is taken for UTC."""
    cell = row.cells[column] if column < len(row.cells) else ""
    if not cell:
        return None
    value = number(cell, separator)
    if value is not None:
        return value
    try:
        at = datetime.fromisoformat(cell)
    except ValueError:
        raise draft.wrong(row.line, f"{cell!r} is no time: seconds, or ISO 8601") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _layout(found: Sequence[Row], separator: str, path: str, column: str | None) -> _Layout:
    first = found[0].cells
    if all(number(cell, separator) is not None for cell in first if cell):
        if len(first) > 1:
            raise UsageError(
                f"{path}, line {found[0].line}: {len(first)} columns without headings: which are "
                "the round trips? Write a heading (rtt_ms) above them"
            )
        return _Layout(0, None, None)
    names = [Column(path, cell, {}) for cell in first]
    joined = {at: "".join(name.words) for at, name in enumerate(names)}
    ends = [next((at for at in joined if joined[at] in known), None) for known in _ENDS]
    both = (ends[0], ends[1]) if ends[0] is not None and ends[1] is not None else None
    rtt = _round_trips(names, joined, both, path, column)
    whens = [
        at
        for at, name in enumerate(names)
        if at != rtt and name.words[:1] and name.words[0] in _WHEN
    ]
    return _Layout(rtt, both, whens[0] if whens else None)


def _round_trips(
    names: Sequence[Column],
    joined: Mapping[int, str],
    ends: tuple[int, int] | None,
    path: str,
    column: str | None,
) -> int:
    listed = ", ".join(repr(name.name) for name in names)
    if column is not None:
        chosen = [at for at, name in enumerate(names) if name.name == column]
        if len(chosen) != 1:
            raise UsageError(f"{path} has no column {column!r}, or several; it has {listed}")
        return chosen[0]
    others = [at for at in joined if at not in (ends or ())]
    for fits in (
        [at for at in others if names[at].round_trips],
        [at for at in others if set(names[at].words) & _LATENCY or names[at].one_way],
        others if len(others) == 1 else [],
    ):
        if len(fits) == 1:
            return fits[0]
        if fits:
            break
    raise UsageError(
        f"{path}: which of the columns {listed} has the round trips? Call it "
        "rtt_ms, or say --column"
    )
