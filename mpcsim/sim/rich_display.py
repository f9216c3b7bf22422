"""How traces, networks and results look in a terminal and in a notebook.

A notebook shows an object by its ``_repr_html_``; those of the simulator come from here. The HTML
stands alone: inline styles, pictures as data, no script, nothing fetched.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpcsim.sim.analysis import CriticalPath, Summary
    from mpcsim.sim.network import Network
    from mpcsim.sim.recording import Trace
    from mpcsim.sim.simulation import Result

MAX_DIAGRAM_MESSAGES = 80
"""Traces with more messages are shown without a diagram."""

_CELL = "padding:2px 10px;border-bottom:1px solid #ddd;text-align:"


@dataclass(frozen=True)
class Table:
    """Columns of text; those named in ``right`` are set to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = frozenset()

    def text(self, indent: str = "  ") -> str:
        """For a terminal: one line per row, columns two spaces apart."""
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
        """For a notebook."""
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


def document(title: str, tables: Iterable[Table], *, notes: Iterable[str] = ()) -> str:
    """A heading with tables under it, as HTML."""
    parts = [f'<div style="font-weight:600;margin-top:6px">{escape(title)}</div>']
    parts += [f"<div>{escape(note)}</div>" for note in notes]
    parts += [table.html() for table in tables]
    return "<div>" + "".join(parts) + "</div>"


def milliseconds(value: float) -> str:
    """Two decimals, thousands apart."""
    return f"{value:,.2f}"


def size(number: int) -> str:
    """A number of bytes as people write it: ``812 B``, ``40.3 kB`` (1 kB is 1000 bytes)."""
    if number < 1000:
        return f"{number} B"
    for unit in ("kB", "MB", "GB"):
        value = number / 1000
        if value < 999.95 or unit == "GB":
            return f"{value:.1f} {unit}"
        number //= 1000
    raise AssertionError


def picture(trace: Trace) -> str:
    """The sequence diagram as an HTML image with the SVG inside; a sentence where there is none."""
    if len(trace.messages) > MAX_DIAGRAM_MESSAGES:
        return f"<div>{len(trace.messages)} messages: too many for a diagram here</div>"
    try:
        from mpcsim.sim import figures
    except ImportError:
        return "<div>no diagram: matplotlib is not installed</div>"
    data = base64.b64encode(figures.svg(figures.sequence_diagram(trace)).encode()).decode()
    text = escape(f"sequence diagram of {trace.name}", quote=True)
    return f'<img alt="{text}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'


def summary_html(summary: Summary) -> str:
    """A run's figures: headline, one table by party, one by round."""
    return document(summary.headline, summary.tables(), notes=summary.notes())


def critical_path_html(path: CriticalPath) -> str:
    """Where the time of a run went."""
    return document(path.headline, path.tables())


def trace_html(trace: Trace) -> str:
    """Summary and sequence diagram."""
    return summary_html(trace.summary()) + picture(trace)


def result_html(result: Result[Any]) -> str:
    """What came out, every attempt in a line, and the last attempt in full."""
    if len(result.attempts) == 1:
        return trace_html(result.trace)
    table = Table(
        ("attempt", "verdict", "ms", "messages"),
        [
            (str(at), t.verdict.value, milliseconds(t.finished_ms), str(len(t.messages)))
            for at, t in enumerate(result.attempts, 1)
        ],
        frozenset({"attempt", "ms", "messages"}),
    )
    return document(str(result), [table]) + trace_html(result.trace)


def network_html(network: Network) -> str:
    """Links and sites."""
    directions = [link.direction(end) for link in network.links for end in (link.a, link.b)]
    links = Table(
        ("link", "one-way latency", "Mbit/s", "loss"),
        [(str(d), str(d.forward), f"{d.mbit_per_s:g}", f"{d.loss:.2%}") for d in directions],
        frozenset({"Mbit/s", "loss"}),
    )
    sites = Table(
        ("site", "parties", "CPU factor", "cores", "service ms"),
        [
            (
                site.name,
                ", ".join(str(i) for i, at in network.placement.items() if at == site.name),
                f"{site.cpu_factor:g}",
                str(site.cores),
                f"{site.service_ms:g}",
            )
            for site in network.sites.values()
        ],
        frozenset({"CPU factor", "cores", "service ms"}),
    )
    kept = network.connection
    state = "opened anew in every session" if kept.cold else "kept open"
    note = (
        f"connections {state}, TLS handshake {kept.tls_round_trips} round trips, "
        f"{kept.overhead_bytes} B around each message"
    )
    return document(f"Network: {network.name or 'unnamed'}", [links, sites], notes=[note])
