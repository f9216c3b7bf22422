"""The matrix of attacks: entries with the check on and off, expected against observed.

``perform`` is the command: it prints the matrix and fails if a cell is missing or unexpected.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

from mpcsim.attacks.catalogue import ATTACKS, NOT_APPLICABLE, REMARKS, ROWS, uncovered
from mpcsim.attacks.model import Attack, Cell, Finding, run_cell
from mpcsim.attacks.selection import select_attacks
from mpcsim.errors import UsageError

MODES = (True, False)
"""Check on, check off."""


@dataclass(frozen=True)
class Matrix:
    """Cells that were run, and those that are missing."""

    cells: tuple[Cell, ...]
    missing: tuple[str, ...] = ()
    """Missing cells: of every entry, and two for every row without one."""
    whole: bool = True
    """Whether it is of the whole gallery; remarks on rows are left out otherwise."""

    @property
    def expected_count(self) -> int:
        """Number of cells that are as they must be."""
        return sum(cell.as_expected for cell in self.cells)

    @property
    def total(self) -> int:
        """Number of cells that there must be."""
        return len(self.cells) + len(self.missing)

    @property
    def complete(self) -> bool:
        """Whether every cell is there and as it must be."""
        return self.expected_count == self.total

    def summary(self) -> str:
        """Return the last line of the report."""
        return f"{self.expected_count} of {self.total} cells are as they must be"


def run(attacks: Sequence[Attack] = ATTACKS) -> Iterator[Cell]:
    """Run the entries in their modes, one cell after the other."""
    for attack in attacks:
        for check_on in attack.modes:
            yield run_cell(attack, check_on)


def collect(cells: Sequence[Cell], attacks: Sequence[Attack] = ATTACKS) -> Matrix:
    """Return the matrix of these cells, with the missing ones.

    Args:
        attacks: entries that were to be run. The whole gallery has to cover every row of its table,
            too.
    """
    whole = attacks is ATTACKS
    seen = {(cell.attack.id, cell.check_on) for cell in cells}
    wanted = [(attack.id, check_on) for attack in attacks for check_on in attack.modes]
    wanted += [(row, check_on) for row in (uncovered() if whole else ()) for check_on in MODES]
    missing = [
        f"{name} ({'check on' if check_on else 'check off'})"
        for name, check_on in wanted
        if (name, check_on) not in seen
    ]
    return Matrix(tuple(cells), tuple(missing), whole)


# ---------------------------------------------------------------------- text


def line(cell: Cell) -> str:
    """Return a cell as text."""
    mark = "ok" if cell.as_expected else "UNEXPECTED"
    mode = "on " if cell.check_on else "off"
    text = f"{cell.attack.id:<4} {mode} {mark:<11}{cell.observed}"
    if cell.observed.shown:
        text += f"\n{'':<20}{cell.observed.shown}"
    if not cell.as_expected:
        text += f"\n{'':<20}expected: {cell.expected}"
    return text


def heading(attack: Attack) -> str:
    """Return the heading of an entry's cells."""
    more = [attack.step] * bool(attack.step) + [f"check: {attack.check}"] * bool(attack.check)
    return f"{attack.id:<4} {attack.name}" + (f"\n     {'; '.join(more)}" if more else "")


def footer(matrix: Matrix) -> str:
    """Return the end of the report: rows that do not apply, missing cells, and the sum."""
    lines = []
    if matrix.whole:
        lines += ["Rows of the table that do not apply:"]
        lines += [f"{row:<5}{why}" for row, why in _rows_without_entry()]
        lines += ["", "Rows that apply with a difference:"]
        lines += [f"{row:<5}{remark}" for row, remark in REMARKS.items()]
        lines += [""]
    if matrix.missing:
        lines += [f"Missing cells: {', '.join(matrix.missing)}", ""]
    return "\n".join([*lines, matrix.summary()])


# ---------------------------------------------------------------------- JSON, Markdown


def _finding(found: Finding | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "verdict": found.verdict.name,
        "reason": found.reason.name if found.reason else None,
        "where": asdict(found.where) if found.where else None,
        "culprits": sorted(found.culprits),
        "suspects": sorted(found.suspects),
        "consequence": found.consequence.name if found.consequence else None,
        "waiting_for": sorted(found.waiting_for),
        "effect": found.effect.name if found.effect else None,
        "text": str(found),
        "shown": found.shown or None,
    }


def as_json(matrix: Matrix) -> dict[str, Any]:
    """Return the matrix as data."""
    entries: dict[str, dict[str, Any]] = {}
    for cell in matrix.cells:
        attack = cell.attack
        entry = entries.setdefault(
            attack.id,
            {
                "id": attack.id,
                "name": attack.name,
                "rows": list(attack.rows),
                "reference": attack.reference,
                "step": attack.step,
                "check": attack.check,
                "injection": attack.injection,
            },
        )
        entry["check_on" if cell.check_on else "check_off"] = {
            "as_expected": cell.as_expected,
            "expected": _finding(cell.expected),
            "observed": _finding(cell.observed),
        }
    return {
        "entries": list(entries.values()),
        "not_applicable": dict(_rows_without_entry()) if matrix.whole else {},
        "remarks": dict(REMARKS) if matrix.whole else {},
        "missing": list(matrix.missing),
        "cells_as_they_must_be": matrix.expected_count,
        "cells": matrix.total,
    }


def as_markdown(matrix: Matrix) -> str:
    """Return the matrix as Markdown tables."""
    lines = [
        "| id | attack | step | check | check on | check off | reference |",
        "|---|---|---|---|---|---|---|",
    ]
    pairs: dict[str, dict[bool, Cell]] = {}
    for cell in matrix.cells:
        pairs.setdefault(cell.attack.id, {})[cell.check_on] = cell
    for cells in pairs.values():
        attack = next(iter(cells.values())).attack
        on, off = (
            _marked(cells.get(check_on)) if check_on in attack.modes else "not run"
            for check_on in MODES
        )
        columns = (attack.id, attack.name, attack.step, attack.check, on, off, attack.reference)
        lines.append(f"| {' | '.join(map(escape_markdown, columns))} |")
    if matrix.whole:
        lines += ["", "| row | why it does not apply |", "|---|---|"]
        for row, why in _rows_without_entry():
            lines.append(f"| {row} | {escape_markdown(why)} |")
        lines += ["", "| row | what is different here |", "|---|---|"]
        lines += [f"| {row} | {escape_markdown(remark)} |" for row, remark in REMARKS.items()]
    lines += ["", f"{matrix.summary()}."]
    return "\n".join(lines) + "\n"


def _marked(cell: Cell | None) -> str:
    if cell is None:
        return "**missing**"
    return str(cell.observed) if cell.as_expected else f"**unexpected**: {cell.observed}"


def escape_markdown(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("\\*\\*", "**")


def _rows_without_entry() -> list[tuple[str, str]]:
    return [(row, NOT_APPLICABLE[row]) for row in ROWS if row in NOT_APPLICABLE]


# ---------------------------------------------------------------------- the command


def check_writable(options: SimpleNamespace) -> None:
    """Check that the output files can be written, before anything is run.

    Raises:
        UsageError: a file is in no directory.
    """
    for path in (options.json, options.markdown):
        if path and not path.parent.is_dir():
            raise UsageError(f"no such directory: {path.parent}")


def write_now(text: str) -> None:
    """Write to standard output at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def perform(
    options: SimpleNamespace,
    write: Callable[[str], None] = write_now,
    progress: Callable[[float], None] = lambda part: None,
) -> int:
    """Run the chosen entries and print each cell; return 0 if every cell is as it must be.

    Args:
        progress: is told which part of the cells is done, from 0 to 1.

    Raises:
        UsageError: a file to write is in no directory; and as from ``select_attacks``.
    """
    check_writable(options)
    names = [name.strip() for each in options.only for name in each.split(",")]
    attacks = select_attacks(names, options.files)
    total = sum(len(attack.modes) for attack in attacks)
    cells: list[Cell] = []
    for cell in run(attacks):
        if cell.check_on:
            write(f"{heading(cell.attack)}\n")
        last = cell.check_on is cell.attack.modes[-1]
        write(f"{line(cell)}\n" + "\n" * last)
        cells.append(cell)
        progress(len(cells) / total)
    matrix = collect(cells, attacks)
    if options.json:
        options.json.write_text(json.dumps(as_json(matrix), indent=2) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(as_markdown(matrix), encoding="utf-8")
    write(footer(matrix) + "\n")
    return 0 if matrix.complete else 1
