"""Reader of tables of round trips (CSV, Markdown, JSON), or of one-way times by their headings.

A table has one time a line, or one a column, of one or several pairs; or minimum, mean and maximum.

Headings say what a column is (``layout``); a unit is at their end, or behind each number, or else
milliseconds. A file without headings has one column, of round trips.

A round trip that is empty, -1, or ``*``, ``timeout``, ``lost``, ``nan`` or ``-``, got lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.sim.network.columns import UNITS, Column
from mpcsim.sim.network.measured.series import (
    CLIENT_SITE,
    GATEWAY_SITE,
    LONGEST_MS,
    Draft,
    Probe,
    Series,
    Summary,
)
from mpcsim.sim.network.measured.tables import tables
from mpcsim.sim.network.measured.tables.cells import Number, decimal_of, is_lost, number
from mpcsim.sim.network.measured.tables.layout import Layout, Statistics, choose_columns
from mpcsim.sim.network.measured.tables.tables import Row, Table
from mpcsim.sim.rich_display import counted

FORMAT: Final = "{} of round trips"
ONE_WAY: Final = "{} of one-way times"
EPOCHS: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""Lower bounds of times since 1970 in ns, us and ms, with units a second; below: seconds."""


def can_read(text: str) -> bool:
    """Return whether there are headings of round trips, or numbers under headings."""
    try:
        table = tables.parse(text)
    except UsageError:
        return False
    if not table.rows or (table.separator == tables.JSON and len(table.rows) < 2):
        return False
    first = table.rows[0].cells
    if number(first[0], ".") is not None:
        return all(number(row.cells[0], ".") or number(row.cells[0], ",") for row in table.rows[:5])
    words = {word for cell in first if len(cell) <= 40 for word in Column("", cell, {}).words}
    if words & {"latency", "delay", "ms", "rtt", "ping"}:
        return True
    under = [cell for row in table.rows[1:6] for cell in row.cells]
    return any(number(cell, ".") or number(cell, ",") for cell in under)


def read(text: str, path: str, unit: str | None = None, column: str | None = None) -> list[Series]:
    """Return the round trips of every pair, in the order of the file.

    Rows of both directions of a pair belong together: a round trip goes both ways. One-way times of
    each direction are a series of its own. A site and itself are a pair: the network within the
    site.

    Args:
        unit: ``ns``, ``us``, ``ms`` or ``s``; by default what the heading says, or milliseconds.
        column: heading of the round trips, where it is not clear.

    Raises:
        UsageError: no or several columns may be the round trips, a cell is no time: names the line.
    """
    try:
        table = tables.parse(text)
        if not table.rows:
            raise UsageError(f"read as {FORMAT.format(table.name)}, but it is empty")
        layout = choose_columns(table, path, column)
        reader = _Reader(table, layout, path, unit)
        if layout.statistics is not None:
            return reader.statistics(layout.statistics)
        return reader.series()
    except UsageError as error:
        located_json = str(error).startswith(path)
        raise error if located_json else UsageError(f"{path}, {error}") from None


_Ends = tuple[str, str] | frozenset[str]
"""Ends of a series: in order if its times are one way."""


@dataclass
class _Reader:
    table: Table
    layout: Layout
    path: str
    unit: str | None
    drafts: dict[_Ends, Draft] = field(default_factory=dict)
    bad_time: str = ""
    missing: list[int] = field(default_factory=list)

    def series(self) -> list[Series]:
        """Return the round trips of every pair."""
        layout = self.layout
        body = layout.body(self.table)
        decimals = [self._decimal(at) for at in layout.times]
        for row in body:
            self._check_width(row)
            for nth, at in enumerate(layout.times):
                draft = self._draft(row, nth)
                cell = self._cell(row, at)
                if is_lost(cell):
                    draft.add_loss(row.line)
                else:
                    ms = self._ms(cell, layout.columns[at], decimals[nth], row, draft)
                    draft.add(ms, row.line, self._time_s(row))
        if not self.drafts:
            raise UsageError(
                f"{self.path}: read as {self._format(0)}, but there is nothing under its headings"
            )
        one_way = layout.columns[layout.times[0]].is_one_way
        for draft in self.drafts.values():
            if draft.lost_in:
                draft.understood.append(f"{len(draft.lost_in)} without a time: lost")
            if self.bad_time:
                draft.times_s.clear()
                draft.warnings.append(self.bad_time)
            if self.missing:
                draft.warnings.append(
                    f"{counted(len(self.missing), 'line')} (the first is {self.missing[0]}) end "
                    "before the round trips: taken for lost"
                )
        useful = [draft for draft in self.drafts.values() if draft.rtt_ms] or [
            *self.drafts.values()
        ][:1]
        made = [draft.series(one_way=one_way) for draft in useful]
        silent = [draft for draft in self.drafts.values() if not draft.rtt_ms]
        if silent and made:
            names = ", ".join(f"{draft.a} - {draft.b}" for draft in silent)
            made[0] = replace(
                made[0], warnings=(*made[0].warnings, f"nothing came back: {names}: left out")
            )
        return made

    def _check_width(self, row: Row) -> None:
        headings = self.table.rows[0].cells
        width = max((at for at, cell in enumerate(headings, 1) if cell), default=0)
        if any(row.cells[width:]):
            raise UsageError(
                f"{self.path}, line {row.line}: {len(row.cells)} cells, but {width} headings: is "
                "there a decimal comma? Part the columns with semicolons"
            )

    def _cell(self, row: Row, at: int) -> str:
        if at < len(row.cells):
            return row.cells[at]
        self.missing.append(row.line)
        return ""

    def _decimal(self, at: int) -> str:
        body = self.layout.body(self.table)
        cells = [(row.line, row.cells[at]) for row in body if at < len(row.cells)]
        return decimal_of(cells, self.table.separator)

    def _format(self, nth: int) -> str:
        one_way = bool(self.layout.times) and self.layout.columns[self.layout.times[nth]].is_one_way
        return (ONE_WAY if one_way else FORMAT).format(self.table.name)

    def _draft(self, row: Row, nth: int) -> Draft:
        a, b = self._pair(row, nth)
        heading = self.layout.columns[self.layout.times[nth]]
        pair = _ends(a, b, heading)
        if pair not in self.drafts:
            self.drafts[pair] = draft = Draft(self.path, self._format(nth), Probe.UNKNOWN, a, b)
            self._note_columns(draft, heading)
        return self.drafts[pair]

    def _note_columns(self, draft: Draft, heading: Column) -> None:
        """Record how the columns were interpreted."""
        if self.unit is not None:
            draft.unit = f"{self.unit}, as --unit says"
        elif heading.has_unit:
            draft.unit = f"{heading.words[-1]}, as the heading says"
        else:
            draft.unit, draft.unit_known = "milliseconds, since nothing says another unit", False
        name = f"column {heading.name!r}" if self.layout.has_headings else "the column"
        if heading.is_one_way:
            draft.understood.append(f"{name} is one way by its name; shown is twice that")
        elif not heading.is_round_trip:
            draft.assumed.append(f"{name} is of round trips")
        if self.layout.statistics is None and {"avg", "mean", "average"} & set(heading.words):
            draft.warnings.append(
                f"{name} is of means by its name: single round trips scatter more than they do"
            )
        if self.layout.targets:
            draft.assumed.append("each column is of the target that its heading names")
        elif self.layout.ends == (None, None):
            draft.assumed.append("all rows are of one link")
        draft.understood += self.layout.notes

    def _pair(self, row: Row, nth: int) -> tuple[str, str]:
        if self.layout.targets:
            return CLIENT_SITE, self.layout.targets[nth]
        found = []
        for at, alone in zip(self.layout.ends, (CLIENT_SITE, GATEWAY_SITE), strict=True):
            if at is None:
                found.append(alone)
                continue
            if at >= len(row.cells):
                width = len(self.table.rows[0].cells)
                raise UsageError(
                    f"{self.path}, line {row.line}: {len(row.cells)} cells, but {width} headings: "
                    "is the line cut?"
                )
            if not row.cells[at]:
                raise UsageError(f"{self.path}, line {row.line}: a site has no name: write one")
            found.append(row.cells[at])
        return found[0], found[1]

    def _ms(self, cell: str, heading: Column, decimal: str, row: Row, draft: Draft) -> float:
        value = number(cell, decimal)
        if value is None:
            raise draft.error_at(
                row.line, f"{cell!r} is not a number (lost ones are empty, -1 or timeout)"
            )
        return value.value * self._factor(value, heading, row, draft)

    def _factor(self, value: Number, heading: Column, row: Row, draft: Draft) -> float:
        in_ms = heading.unit_in_ms(self.unit)
        if value.unit is not None:
            said = self.unit is not None or heading.has_unit
            if said and UNITS[value.unit] != in_ms:
                raise draft.error_at(
                    row.line, f"a number in {value.unit}, under a heading (or --unit) of another"
                )
            in_ms = UNITS[value.unit]
            draft.unit_known = True
            draft.unit = f"{value.unit}, as the cells say"
        return in_ms * (2 if heading.is_one_way else 1)

    def _time_s(self, row: Row) -> float | None:
        """Return a row's time in seconds; a time without a zone is taken for UTC."""
        at = self.layout.when
        cell = row.cells[at] if at is not None and at < len(row.cells) else ""
        if at is None or not cell or self.bad_time:
            return None
        heading = self.layout.columns[at]
        value = number(cell, "," if self.table.separator == ";" else ".")
        if value is not None:
            unit = heading.words[-1] if heading.has_unit else ""
            if unit and heading.words != [unit]:
                return value.value * heading.unit_in_ms(None) / 1000
            return value.value / next((by for at, by in EPOCHS if value.value > at), 1.0)
        try:
            found = datetime.fromisoformat(cell)
        except ValueError:
            self.bad_time = (
                f"column {heading.name!r} is read without times: {cell!r} in line {row.line} is no "
                "time (seconds, or ISO 8601)"
            )
            return None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    # -------------------------------------------------------------- statistics

    def statistics(self, at: Statistics) -> list[Series]:
        """Return the series of a table of minimum, mean and maximum."""
        found: dict[_Ends, tuple[Draft, list[Summary], list[int], list[int]]] = {}
        columns = [each for each in (at.least, at.mean, at.most, at.std) if each is not None]
        decimals = {each: self._decimal(each) for each in columns}
        heading = self.layout.columns[at.mean]
        for row in self.layout.body(self.table):
            self._check_width(row)
            a, b = self._pair(row, 0)
            pair = _ends(a, b, heading)
            if pair not in found:
                form = f"{self.table.name} of minimum, mean and maximum"
                draft = Draft(self.path, form, Probe.UNKNOWN, a, b)
                self._note_columns(draft, heading)
                found[pair] = draft, [], [], []
            draft, summaries, sents, lines = found[pair]
            lines.append(row.line)
            sent = self._count(row, at.sent)
            received = self._count(row, at.received)
            sents.append(sent)
            if is_lost(self._cell(row, at.mean)):
                draft.add_loss(row.line)
                continue
            times = [
                self._ms(
                    self._cell(row, each), self.layout.columns[each], decimals[each], row, draft
                )
                for each in columns
            ]
            least, mean, most = times[:3]
            if not 0 <= least <= mean <= most or not 0 < most <= LONGEST_MS:
                raise draft.error_at(
                    row.line,
                    f"minimum {least:g}, mean {mean:g} and maximum {most:g} ms do not fit each "
                    "other: are the headings right?",
                )
            count = received or sent
            summaries.append(
                Summary.estimated(count, least, mean, most)
                if at.std is None
                else Summary(count, least, mean, most, times[3])
            )
        made = [
            _series_of_summaries(draft, summaries, sum(sents), heading.is_one_way, lines)
            for draft, summaries, sents, lines in found.values()
            if summaries
        ]
        if not made:
            raise UsageError(f"{self.path}: there is no time under the headings")
        return made

    def _count(self, row: Row, at: int | None) -> int:
        value = number(row.cells[at], ".") if at is not None and at < len(row.cells) else None
        return int(value.value) if value is not None and 0 <= value.value < 1e9 else 0


def _ends(a: str, b: str, heading: Column) -> _Ends:
    return (a, b) if heading.is_one_way and a != b else frozenset((a, b))


def _series_of_summaries(
    draft: Draft, summaries: Sequence[Summary], sent: int, one_way: bool, lines: Sequence[int]
) -> Series:
    whole = Summary.pooled(summaries)
    how = "their deviation"
    if whole.std_is_estimated:
        how = "no deviation in the file: the scatter is such that the maximum is about the slowest"
    draft.understood.append(
        f"means, with minimum and maximum as limits: {whole.least_ms:g} to {whole.most_ms:g} ms, "
        f"mean {whole.mean_ms:g}; {how}"
    )
    if not whole.count:
        rows = counted(len(summaries), "row")
        draft.understood.append(f"{rows}; of how many round trips is not said")
    return Series(
        draft.a,
        draft.b,
        draft.format,
        draft.probe,
        (),
        tuple(lines),
        sent=sent,
        lost=max(sent - whole.count, 0) if whole.count else 0,
        summary=whole,
        one_way=one_way,
        runs=tuple(each.count for each in summaries) if whole.count and len(summaries) > 1 else (),
        unit=draft.unit,
        assumed=tuple(draft.assumed),
        understood=tuple(draft.understood),
        warnings=tuple(draft.warnings),
    )
