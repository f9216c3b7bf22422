"""Display of objects in terminals and notebooks: tables, headings, numbers.

Notebooks show an object by its ``_repr_html_``. The HTML is self-contained: inline styles, images
as data, no scripts, nothing fetched."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from mpcsim.errors import UsageError

__all__ = [
    *("PERCENTS", "Table", "counted", "document", "interval_heads", "interval_text"),
    *("milliseconds", "mimebundle", "page", "percentage", "size"),
]

PERCENTS: Final = (50.0, 95.0, 99.0)
"""Percentiles in tables."""
FEW: Final = "*"
"""Mark of a percentile that rests on few times."""
MANY: Final = 10
"""Times beyond a percentile from which on it is not marked."""
FEW_NOTE: Final = f"{FEW} fewer than {MANY} times lie beyond: more samples make it reliable"

_CELL = "padding:2px 10px;border-bottom:1px solid #ddd;text-align:"


@dataclass(frozen=True)
class Table:
    """Table of texts; columns named in ``right`` are right-aligned."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = frozenset()

    def text(self, indent: str = "  ") -> str:
        """Return the table as text: one line per row, columns two spaces apart."""
        widths = [
            max([len(name), *(len(row[at]) for row in self.rows)])
            for at, name in enumerate(self.columns)
        ]
        lines = []
        for row in (self.columns, *self.rows):
            cells = [
                cell.rjust(width) if name in self.right else cell.ljust(width)
                for cell, width, name in zip(row, widths, self.columns, strict=True)
            ]
            lines.append((indent + "  ".join(cells)).rstrip())
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text("")

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """Return the table as HTML."""
        sides = ["right" if name in self.right else "left" for name in self.columns]
        head = "".join(
            f'<th style="{_CELL}{side}">{escape(name)}</th>'
            for name, side in zip(self.columns, sides, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="{_CELL}{side}">{escape(cell)}</td>'
                for cell, side in zip(row, sides, strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        return (
            '<table style="border-collapse:collapse;margin:6px 0">'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def mimebundle(shown: Any) -> dict[str, Any]:
    """Return the MIME bundle of an object with a ``widget``, for ``_repr_mimebundle_``.

    It has the widget, for front ends that can run it, and text and HTML for all others. Where
    nobody attends (``jupyter nbconvert --execute``) it has no widget: that would be preferred, and
    a page has no kernel to run it with."""
    bundle: dict[str, Any] = {"text/plain": repr(shown), "text/html": shown._repr_html_()}
    if not _is_attended():
        return bundle
    try:
        own = shown.widget._repr_mimebundle_()
    except UsageError:  # nothing is there to run it with
        return bundle
    found = own[0] if isinstance(own, tuple) else own
    return {**(found or {}), **bundle}


def _is_attended() -> bool:
    """Return whether a person may be at the front end of this kernel.

    Programs that execute whole notebooks say with each request that nobody answers questions."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return bool(parent.get("content", {}).get("allow_stdin", True))


def document(title: str, tables: Iterable[Table], *, notes: Iterable[str] = ()) -> str:
    """Return a heading, notes and tables as HTML."""
    parts = [f'<div style="font-weight:600;margin-top:6px">{escape(title)}</div>']
    parts += [f"<div>{escape(note)}</div>" for note in notes]
    parts += [table.html() for table in tables]
    return "<div>" + "".join(parts) + "</div>"


def beside(html: str, draw: Callable[[], Any]) -> str:
    """Return HTML with a figure beside it, where matplotlib is installed and there is one."""
    try:
        chart = draw()._repr_html_()
    except (ImportError, UsageError):
        chart = ""
    return f'<div style="display:flex;flex-wrap:wrap">{html}{chart}</div>'


def page(title: str, tables: Iterable[Table], *, notes: Iterable[str] = ()) -> str:
    """Return a heading, notes (a line each) and tables as text, as ``document`` does as HTML."""
    lines = [title, *(f"  {note}" for note in notes)]
    for table in tables:
        lines += ["", table.text()]
    return "\n".join(lines)


# ---------------------------------------------------------------------- percentiles


def interval_heads(percents: Iterable[float] = PERCENTS, unit: str = " ms") -> list[str]:
    """Return two headings for each percentile: of itself, and of its confidence interval."""
    return [head for percent in percents for head in (f"p{percent:g}{unit}", "95 % interval")]


def interval_text(low: float, high: float, form: str = ",.2f") -> str:
    """Format a confidence interval; an infinite end is open."""
    opened = not math.isfinite(low), not math.isfinite(high)
    if all(opened):
        return "-"
    if any(opened):
        return f"below {high:{form}}" if opened[0] else f"above {low:{form}}"
    return f"{low:{form}} to {high:{form}}"


def few_mark(n: int, percent: float) -> str:
    """Return the mark of a percentile of ``n`` times, if it rests on few."""
    return FEW if n * (100 - percent) < 100 * MANY - 1e-6 else ""


def few_notes(*tables: Table) -> list[str]:
    """Return what the mark means, if it is in a table."""
    marked = any(FEW in cell for table in tables for row in table.rows for cell in row[1:])
    return [FEW_NOTE] if marked else []


def percentile_table(n: int, found: Iterable[tuple[float, float, float, float]]) -> Table:
    """Return a row for each percentile of ``n`` times.

    Args:
        found: percent, time, and the ends of the interval; 0 or infinite: open.
    """
    columns = ("percentile", "ms", "95 % interval, ms")
    rows = [
        [
            f"p{percent:g}",
            milliseconds(ms) + few_mark(n, percent),
            interval_text(low or -math.inf, high),
        ]
        for percent, ms, low, high in found
    ]
    return Table(columns, rows, frozenset(columns[1:]))


# ---------------------------------------------------------------------- numbers


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 message``, ``2 messages``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def milliseconds(value: float) -> str:
    """Format milliseconds with two decimals and a thousands separator."""
    return f"{value:,.2f}"


def percentage(share: float, form: str = ".2%") -> str:
    """Format a share as a percentage; only none at all is shown as zero: ``0.004%``."""
    text = f"{share:{form}}"
    return text if float(text[:-1]) or not share else f"{100 * share:.1g}%"


def size(number: int) -> str:
    """Format a number of bytes: ``812 B``, ``40.3 kB`` (1 kB is 1000 bytes)."""
    if number < 1000:
        return f"{number} B"
    for unit in ("kB", "MB", "GB"):
        value = number / 1000
        if value < 999.95 or unit == "GB":
            return f"{value:.1f} {unit}"
        number //= 1000
    raise AssertionError
