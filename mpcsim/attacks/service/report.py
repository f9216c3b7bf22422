"""The compromise matrix as text, JSON and Markdown; ``perform`` is the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from mpcsim.attacks.report import check_writable, escape_markdown, write_now
from mpcsim.attacks.service.builds import PRODUCT, Build
from mpcsim.attacks.service.catalogue import ENTRIES, uncovered
from mpcsim.attacks.service.findings import Finding
from mpcsim.attacks.service.model import Cell, ServiceAttack, run_cell
from mpcsim.attacks.service.table import COLUMNS, ROWS, Goal, Row
from mpcsim.processes import Processes

__all__ = ["as_json", "as_markdown", "collect", "perform", "run", "table"]


@dataclass(frozen=True)
class Matrix:
    """Cells that were run, and those that are missing."""

    cells: tuple[Cell, ...]
    missing: tuple[str, ...] = ()
    """Missing cells of the table, and builds of entries."""

    @property
    def expected_count(self) -> int:
        """Number of cells that are as they must be."""
        return sum(cell.as_expected for cell in self.cells)

    @property
    def complete(self) -> bool:
        """Whether every cell is there and as it must be."""
        return not self.missing and self.expected_count == len(self.cells)

    def of(self, row: Row, goal: Goal) -> list[Cell]:
        """Return the runs against the service as it is that belong to a cell of the table."""
        return [c for c in self.cells if c.as_it_is and (row.id, goal) in c.entry.cells]

    def summary(self) -> str:
        """Return the last line of the report."""
        total = len(self.cells) + len(self.missing)
        return f"{self.expected_count} of {total} runs are as documented"


def run(entries: Iterable[ServiceAttack] | None = None) -> Iterator[Cell]:
    """Run every entry against the service as it is and, where a check refuses it, without the
    check.

    Args:
        entries: entries to run; by default all, in a process for each core.
    """
    runs = _runs(ENTRIES if entries is None else entries)
    if entries is not None:
        yield from (run_cell(entry, build) for entry, build in runs)
        return
    with Processes(len(runs)) as pool:
        for (entry, build), findings in zip(
            runs, pool.map(_run_numbered, range(len(runs))), strict=True
        ):
            yield Cell(entry, build, findings)


def _runs(entries: Iterable[ServiceAttack]) -> list[tuple[ServiceAttack, Build]]:
    found: list[tuple[ServiceAttack, Build]] = []
    for entry in entries:
        found.append((entry, PRODUCT))
        if entry.research is not None:
            found.append((entry, entry.research()))
    return found


def _run_numbered(number: int) -> tuple[Finding, ...]:
    """Run an entry of the catalogue, by its number: entries cannot be sent to another process."""
    return run_cell(*_runs(ENTRIES)[number]).findings


def collect(cells: Sequence[Cell]) -> Matrix:
    """Return the matrix of these runs, with those of the catalogue that are missing."""
    seen = {(cell.entry.id, cell.as_it_is) for cell in cells}
    wanted = [(entry.id, True) for entry in ENTRIES]
    wanted += [(entry.id, False) for entry in ENTRIES if entry.research is not None]
    missing = [
        f"{name} ({'as it is' if now else 'without the check'})"
        for name, now in wanted
        if (name, now) not in seen
    ]
    return Matrix(tuple(cells), tuple(missing + uncovered()))


# ---------------------------------------------------------------------- text


def heading(entry: ServiceAttack) -> str:
    """Return the heading of an entry's runs."""
    cells = ", ".join(f"{row} {goal.name}" for row, goal in entry.cells)
    lines = [f"{entry.id}: {entry.name}", f"    {cells}"]
    if entry.refused:
        lines.append(f"    check: {entry.check}")
    return "\n".join(lines)


def line(cell: Cell) -> str:
    """Return a run as text."""
    mode = "as it is" if cell.as_it_is else f"{cell.build!r}"
    return f"  {mode}\n      {cell}"


def table(matrix: Matrix) -> str:
    """Return the table of cells in Markdown."""
    lines = [
        f"| corrupt | {' | '.join(goal.name for goal in COLUMNS)} | D | L |",
        f"|---{'|---' * (len(COLUMNS) + 2)}|",
    ]
    for row in ROWS:
        found = [_summed(row, goal, matrix.of(row, goal)) for goal in COLUMNS]
        columns = [row.corrupt, *found, row.denies, row.learns]
        lines.append(f"| {' | '.join(map(escape_markdown, columns))} |")
    return "\n".join(lines) + "\n"


def _summed(row: Row, goal: Goal, cells: Sequence[Cell]) -> str:
    if not cells:
        return "**not executed**"
    if not all(cell.as_expected for cell in cells):
        return "**NOT AS DOCUMENTED**"
    return row.says[goal]


def as_markdown(matrix: Matrix) -> str:
    """Return the table and every attack in Markdown."""
    lines = [table(matrix)]
    lines += ["| attack | where | check | as it is | without the check |", "|---|---|---|---|---|"]
    for entry in ENTRIES:
        runs = {cell.as_it_is: cell for cell in matrix.cells if cell.entry is entry}
        where = ", ".join(f"{row} {goal.name}" for row, goal in entry.cells)
        now, without = (str(runs[mode]) if mode in runs else "" for mode in (True, False))
        columns = (f"{entry.id}: {entry.name}", where, entry.check, now, without)
        lines.append(f"| {' | '.join(map(escape_markdown, columns))} |")
    lines += ["", f"{matrix.summary()}."]
    return "\n".join(lines) + "\n"


def as_json(matrix: Matrix) -> dict[str, Any]:
    """Return the matrix as data."""
    return {
        "rows": [
            {
                "id": row.id,
                "corrupt": row.corrupt,
                **{goal.name: row.says[goal] for goal in COLUMNS},
                "D": row.denies,
                "L": row.learns,
            }
            for row in ROWS
        ],
        "entries": [
            {
                "id": entry.id,
                "name": entry.name,
                "cells": [[row, goal.name] for row, goal in entry.cells],
                "check": entry.check or None,
                "runs": [_run(cell) for cell in matrix.cells if cell.entry is entry],
            }
            for entry in ENTRIES
        ],
        "missing": list(matrix.missing),
        "as_documented": matrix.expected_count,
        "runs": len(matrix.cells) + len(matrix.missing),
    }


def _run(cell: Cell) -> dict[str, Any]:
    return {
        "build": repr(cell.build),
        "as_documented": cell.as_expected,
        "verdict": cell.observed.verdict.name,
        "shown": cell.observed.shown,
    }


# ---------------------------------------------------------------------- the command


def perform(
    options: SimpleNamespace,
    entries: Sequence[ServiceAttack] | None = None,
    write: Callable[[str], None] = write_now,
    progress: Callable[[float], None] = lambda part: None,
) -> int:
    """Run all entries and print each run; return 0 if every one is as documented.

    Args:
        progress: is told which part of the runs is done, from 0 to 1.

    Raises:
        UsageError: a file to write is in no directory.
    """
    check_writable(options)
    total = len(_runs(ENTRIES if entries is None else entries))
    cells: list[Cell] = []
    for cell in run(entries):
        if cell.as_it_is:
            write(f"{heading(cell.entry)}\n")
        write(f"{line(cell)}\n")
        cells.append(cell)
        progress(len(cells) / total)
    matrix = collect(cells)
    if options.json:
        options.json.write_text(json.dumps(as_json(matrix), indent=2) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(as_markdown(matrix), encoding="utf-8")
    write(f"\n{table(matrix)}\n")
    if matrix.missing:
        write(f"Missing: {', '.join(matrix.missing)}\n")
    write(f"{matrix.summary()}\n")
    return 0 if matrix.complete else 1
