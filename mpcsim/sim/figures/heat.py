"""Heat map: a table of a result by two parameters, whose cells are darker for larger values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.patches import Rectangle

from mpcsim.errors import UsageError
from mpcsim.sim.colours import BLACK, DARK, GREY, LIGHT, WHITE, tint
from mpcsim.sim.figures.parts.canvas import Chart, add_axes, add_heading, new_chart, row_height
from mpcsim.sim.figures.parts.scales import format_rounded, scale_of
from mpcsim.sim.figures.parts.style import FONT, LETTER

if TYPE_CHECKING:
    import pandas as pd

ROW: Final = 0.27
WIDEST: Final = 11.0
"""Sizes are in inches."""
DARKEST: Final = 0.95
LIGHTEST: Final = 0.04
INK: Final = 0.5
"""Shade from which on numbers are white."""


def heat_map(
    table: pd.DataFrame,
    rows: str | None = None,
    columns: str | None = None,
    value: str = "elapsed_ms",
    *,
    how: str = "median",
    text: Callable[[float], str] | None = None,
    title: str = "",
) -> Chart:
    """Draw a cell for each pair of values, with its number; no cell where there is no number.

    Lightness shows the value, on a logarithmic scale where the values span magnitudes.

    >>> grid = {"network": ["seoul", "frankfurt"], "curve": ["secp256k1", "ed25519"]}
    >>> table = sweep(grid, signing_point, executor=threads, progress=False)
    >>> figure = heat_map(table, "network", "curve")

    Args:
        table: result of ``sweep``, a row for each point; without ``rows`` and ``columns``, a table
            of cells (its index names the rows).
        rows: parameter of the rows.
        columns: parameter of the columns.
        value: result that is shown; several points of a pair are aggregated by ``how``.
        how: ``median``, ``mean``, ``min``, ``max`` or another of pandas' aggregations.
        text: format of a number.

    Raises:
        UsageError: no such column, a third parameter that varies, nothing to show, or more than
            fits on a screen.
    """
    cells = table if rows is None and columns is None else _pivot(table, rows, columns, value, how)
    numbers = cells.to_numpy(dtype=np.float64)
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        raise UsageError("no numbers for a heat map")
    down, across = [list(map(_name, each)) for each in (cells.index, cells.columns)]
    write = text or format_rounded
    said = {k: write(float(v)) for k, v in np.ndenumerate(numbers) if math.isfinite(v)}
    wide = max(0.42, 0.14 + LETTER * max(len(each) for each in (*said.values(), "")))
    left = 0.25 + LETTER * max(map(len, down))
    upright = LETTER * max(map(len, across)) > wide - 0.08
    above = 0.12 + (0.7 * LETTER * max(map(len, across)) if upright else 0.15)
    named = rows is not None and columns is not None
    top, bottom = (0.4 if title or named else 0.1) + above, 0.25
    if named and title:
        top += 0.2
    each = row_height(len(down), ROW, top + bottom, "rows")
    beyond = 0.15 + (0.7 * LETTER * len(across[-1]) if upright else 0.0)
    width = left + wide * len(across) + beyond
    if width > WIDEST:
        raise UsageError(f"{len(across)} columns are wider than a screen: show less")
    label = f"{value[:-3].replace('_', ' ')} (ms)" if value.endswith("_ms") else value
    about = f"{how} {label}: {rows} down, {columns} across" if named else ""
    title, about = title or about, about if title else ""
    width = max(width, 0.4 + 0.085 * len(title), 0.4 + LETTER * len(about), 3.0)
    figure = new_chart(width, top + each * len(down) + bottom)
    add_heading(figure, title)
    axes = add_axes(figure, left, width - left - wide * len(across), top, bottom)
    axes.set_xlim(-0.5, len(across) - 0.5)
    axes.set_ylim(len(down) - 0.5, -0.5)
    shade = _shades(known)
    for (row, column), words in said.items():
        dark = shade(float(numbers[row, column]))
        axes.add_patch(
            Rectangle(
                (column - 0.5, row - 0.5), 1, 1, facecolor=tint(DARK, dark),
                edgecolor=WHITE if dark else LIGHT, lw=1.0, gid=f"cell-{row}-{column}",
            )
        )  # fmt: skip
        axes.text(
            column, row, words, fontsize=FONT, color=WHITE if dark > INK else BLACK,
            ha="center", va="center_baseline",
        )  # fmt: skip
    axes.set_yticks(range(len(down)), down)
    turned: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(across)), across, **(turned if upright else {}))
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for side in axes.spines.values():
        side.set_visible(False)
    if about:
        figure.text(
            0.15 / width, 1 - 0.38 / figure.get_figheight(), about,
            fontsize=FONT, color=GREY, va="top",
        )  # fmt: skip
    return figure


def _pivot(
    table: pd.DataFrame, rows: str | None, columns: str | None, value: str, how: str
) -> pd.DataFrame:
    for name in (rows, columns, value):
        if name not in table.columns:
            raise UsageError(f"{name} is no column; there are {', '.join(map(str, table.columns))}")
    others = [
        name
        for name in table.attrs.get("parameters", ())
        if name not in (rows, columns) and table[name].astype(str).nunique() > 1
    ]
    if others:
        raise UsageError(
            f"{', '.join(others)} varies, too: show one value at a time, "
            f'as in table[table["{others[0]}"] == ...]'
        )
    named = table.assign(**{str(n): _names(table[n]) for n in (rows, columns)})
    found: pd.DataFrame = named.pivot_table(value, rows, columns, how)
    return found.reindex(index=named[rows].unique(), columns=named[columns].unique())


def _names(values: pd.Series) -> pd.Series:
    """Return short names of values; long ones where different values would have the same."""
    short, long = values.map(_name), values.map(str)
    return short if short.nunique() == long.nunique() else long


def _shades(known: np.ndarray[Any, np.dtype[np.float64]]) -> Callable[[float], float]:
    low, high = float(known.min()), float(known.max())
    logarithmic = scale_of(known) != "linear"
    if logarithmic:
        low = float(known[known > 0].min())

    def shade(value: float) -> float:
        if logarithmic and value <= 0:
            return 0.0
        if high <= low:
            return 0.25
        part = (
            math.log(value / low) / math.log(high / low)
            if logarithmic
            else ((value - low) / (high - low))
        )
        return LIGHTEST + (DARKEST - LIGHTEST) * 0.85 * part

    return shade


def _name(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_name, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
