"""Parser of tables in a text (CSV, Markdown, JSON) into rows of cells with their lines.

- CSV: commas, semicolons, tabs; Excel's ``sep=;`` line; ``#`` comments; a separator at the end of
  each line. Cells with decimal commas want semicolons, tabs, or quotes.
- Markdown: ``| a | b |``, with a line of dashes under the headings.
- JSON: an object of objects (a matrix), or objects with the same members (rows), in a list or one
  after the other; either may be the only such value of an object around it, which may name a unit
  (``{"unit": "ms", "data": {...}}``).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.sim.network.columns import Column
from mpcsim.sim.network.measured import located_json
from mpcsim.sim.network.measured.located_json import JsonValue, LocatedObject

JSON: Final = "json"
_DASHES: Final = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?)?\s*")
_DECIMAL_COMMA: Final = re.compile(r"\s*[-+]?\d+,\d+\s*")


class Row(NamedTuple):
    """Row of a table that is not empty."""

    line: int
    cells: Sequence[str]


class Table(NamedTuple):
    """Rows of a table, and the separator of their cells."""

    rows: list[Row]
    separator: str
    """Separator of CSV, ``|`` for Markdown, or ``json``."""
    name: str
    """Name of the table's format: CSV, Markdown or JSON."""


def parse(text: str) -> Table:
    """Parse the table in a text.

    Raises:
        UsageError: there is none: names the line.
    """
    lines = text.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith(("{", "[")):
        return Table(_json_rows(text), JSON, "JSON")
    dashes = [at for at, line in enumerate(lines) if "|" in line and _DASHES.fullmatch(line)]
    if first.startswith("|") or dashes:
        return Table(_trim_empty_columns(_markdown_rows(lines, dashes)), "|", "Markdown")
    separator = _separator(lines)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    return Table(_trim_empty_columns(list(_csv_rows(reader))), separator, "CSV")


def _separator(lines: Sequence[str]) -> str:
    """Return the separator: the most frequent of the first line, or else of the second."""
    used = [line for line in lines if line.strip() and not line.startswith("#")]
    if used and (found := re.fullmatch(r"\s*sep=(.)\s*", used[0])):
        return found[1]
    for line in used[:2]:
        most = max(";\t,", key=line.count)
        if most != "," and line.count(most):
            return most
        if line.count(",") and (line is used[0] or not _DECIMAL_COMMA.fullmatch(line)):
            return ","
    return ";"  # one column: a comma in it is a decimal one


def _csv_rows(reader: Iterator[list[str]]) -> Iterator[Row]:
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            line = getattr(reader, "line_num", 0)
            raise UsageError(f"line {line}: not CSV: {error}") from None
        plain = any(map(str.strip, cells)) and not cells[0].startswith("#")
        if plain and not (len(cells) <= 2 and re.fullmatch(r"\s*sep=.?\s*", cells[0])):
            yield Row(getattr(reader, "line_num", 0), [cell.strip() for cell in cells])


def _markdown_rows(lines: Sequence[str], dashes: Sequence[int]) -> list[Row]:
    """Return the rows of the only table: the line above the dashes, and those below with bars."""
    if len(dashes) > 1:
        raise UsageError(f"line {dashes[1] + 1}: a second table: give one in a file")
    at = dashes[0] if dashes else -1
    above = [Row(at, _markdown_cells(lines[at - 1]))] if at > 0 else []
    below: list[Row] = []
    for number, line in enumerate(lines[at + 1 :], at + 2):
        if "|" not in line:
            if below:
                break
            continue
        below.append(Row(number, _markdown_cells(line)))
    return above + below


def _markdown_cells(line: str) -> list[str]:
    cells = [cell.strip().strip("`*") for cell in re.split(r"(?<!\\)\|", line.strip())]
    return cells[line.strip().startswith("|") : len(cells) - line.strip().endswith("|")]


def _trim_empty_columns(rows: list[Row]) -> list[Row]:
    """Remove columns at the end that are empty in every row: lines ended in a separator."""
    width = max((len(row.cells) for row in rows), default=0)
    while width > 1 and all(len(row.cells) < width or not row.cells[width - 1] for row in rows):
        width -= 1
    return [Row(row.line, row.cells[:width]) for row in rows]


def _json_rows(text: str) -> list[Row]:
    try:
        values = [node.value for node in located_json.parse_all(text, "")]
    except UsageError as error:
        raise UsageError(str(error).removeprefix(", ")) from None
    unit = ""
    if len(values) == 1:
        unit, inner = _named_unit(values[0]), _inner_table(values[0])
        if _is_matrix(inner):
            columns = list(dict.fromkeys(name for row in inner.values() for name in row))
            rows = [
                Row(row.line, [name, *(_cell_text(row.get(column)) for column in columns)])
                for name, row in inner.items()
            ]
            return [Row(inner.line, [unit, *columns]), *rows]
        values = inner if _is_rows(inner) else values
    if not _is_rows(values):
        raise UsageError(
            f"line {JsonValue(values[0], '').line}: neither an object of objects (a matrix) nor "
            "objects (rows)"
        )
    members = list(dict.fromkeys(name for each in values for name in each))
    rows = [Row(each.line, [_cell_text(each.get(name)) for name in members]) for each in values]
    names = [
        f"{name}_{unit}" if unit and Column("", name, {}).is_round_trip else name
        for name in members
    ]
    return [Row(values[0].line, names), *rows]


def _named_unit(value: Any) -> str:
    """Return the unit named by an object around a table, or by one of its objects."""
    if not isinstance(value, LocatedObject):
        return ""
    for each in (value, *(inner for inner in value.values() if isinstance(inner, LocatedObject))):
        for name, said in each.items():
            if name.lower() in ("unit", "units") and isinstance(said, str):
                return said
            if (
                isinstance(said, list)
                and _all_instances(said, list)
                and Column("", name, {}).has_unit
            ):
                return name
    return ""


def _inner_table(value: Any) -> Any:
    """Return the only table of an object: ``{"data": [...], "unit": "ms"}``."""
    if (found := _matrix_of_lists(value)) is not None:
        return found
    if isinstance(value, LocatedObject) and not _is_matrix(value):
        inner = [_matrix_of_lists(each) or each for each in value.values()]
        tables = [each for each in inner if _is_matrix(each) or _is_rows(each)]
        return tables[0] if len(tables) == 1 else value
    return value


def _matrix_of_lists(value: Any) -> LocatedObject | None:
    """Return the matrix of an object with lists of names and of rows; None if there is none.

    Such an object is ``{"regions": [...], "rtt_ms": [[...], ...]}``.
    """
    if not isinstance(value, LocatedObject):
        return None
    names = [e for e in value.values() if isinstance(e, list) and e and _all_instances(e, str)]
    lists = [e for e in value.values() if isinstance(e, list) and e and _all_instances(e, list)]
    if len(names) != 1 or len(lists) != 1:
        return None
    if {len(names[0])} != {len(lists[0]), *map(len, lists[0])}:
        return None
    matrix = LocatedObject(
        (name, _located_object(zip(names[0], row, strict=True), value.line))
        for name, row in zip(names[0], lists[0], strict=True)
    )
    matrix.line, matrix.doubled = value.line, {}
    return matrix


def _located_object(members: Iterable[tuple[str, Any]], line: int) -> LocatedObject:
    entry = LocatedObject(members)
    entry.line, entry.doubled = line, {}
    return entry


def _all_instances(values: list[Any], kind: type) -> bool:
    return all(isinstance(each, kind) for each in values)


def _is_rows(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(e, LocatedObject) for e in value)
    )


def _is_matrix(value: Any) -> bool:
    return (
        isinstance(value, LocatedObject)
        and bool(value)
        and all(
            isinstance(row, LocatedObject) and row and not _has_tables(row)
            for row in value.values()
        )
    )


def _has_tables(row: LocatedObject) -> bool:
    return any(isinstance(cell, dict | list) for cell in row.values())


def _cell_text(cell: Any) -> str:
    """Return a JSON value as the text of a cell."""
    if cell is None:
        return ""
    return cell.strip() if isinstance(cell, str) else json.dumps(cell)
