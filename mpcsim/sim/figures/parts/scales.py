"""Scales of axes, and formats of numbers."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
    SymmetricalLogLocator,
)
from numpy.typing import NDArray

from mpcsim.sim.colours import LIGHT

WIDE: Final = 4.0
"""Ratio of the longest to the shortest time from which on their scale is logarithmic."""
SPREAD: Final = 30.0
"""Ratio of largest to smallest value from which on another scale is logarithmic..."""
CROWDED: Final = 8.0
"""Factor by which half of the values must be below the largest for that other scale."""

Scale = Literal["linear", "log", "symlog"]


def scale_of(values: NDArray[np.float64]) -> Scale:
    """Return the scale for values: logarithmic if they are magnitudes apart and unevenly spread.

    With a zero among them (a loss of nothing, say) it is symlog: linear up to the smallest that is
    above zero.
    """
    above = values[values > 0]
    if (values < 0).any() or len(above) < 2:
        return "linear"
    if above.max() < SPREAD * above.min() or above.max() < CROWDED * np.quantile(
        above, 0.5, method="lower"
    ):
        return "linear"
    return "symlog" if (values == 0).any() else "log"


def set_scale(axes: Axes, which: Literal["x", "y"], scale: Scale, smallest: float = 1.0) -> None:
    """Set an axis's scale; ``smallest`` is where a symlog axis begins to be logarithmic."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    change = axes.set_xscale if which == "x" else axes.set_yscale
    if scale == "log":
        change("log")
        axis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    elif scale == "symlog":
        change("symlog", linthresh=smallest, linscale=0.5)
        locator: Any = SymmetricalLogLocator(linthresh=smallest, base=10)
        axis.set_major_locator(locator)
    else:
        axis.set_major_locator(MaxNLocator(8 if which == "x" else 6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))


def format_number(value: float) -> str:
    """Format a number without exponent, with thousands separators from 10,000 on."""
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.6g}"


def format_rounded(value: float) -> str:
    """Format a result rounded: one decimal below 100, none above, and none for whole numbers."""
    return f"{value:,.1f}" if abs(value) < 99.95 and value % 1 else f"{value:,.0f}"


def draw_grid(axes: Axes, which: Literal["x", "y", "both"] = "both") -> None:
    """Draw faint grid lines behind everything."""
    axes.grid(axis=which, color=LIGHT, linewidth=0.5)
    axes.set_axisbelow(True)
