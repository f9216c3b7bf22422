"""Figure of measured round trips beside the distributions fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpcsim.errors import UsageError
from mpcsim.sim.colours import BLACK, DARK, GREY, LIGHT
from mpcsim.sim.figures.parts.canvas import Chart, add_axes, new_chart, row_height
from mpcsim.sim.figures.parts.style import FONT
from mpcsim.sim.network.measured.fit import Fit, Times

WIDTH: Final = 9.0
ROW: Final = 2.9
"""Height of a link's row, in inches, if there are few links."""
LOWEST_ROW: Final = 1.7
"""Least height of a link's row, in inches, if there are many."""
TITLE: Final = 0.5
"""Room for the title and, below it, the legend."""
DRAWS: Final = 20_000
BINS: Final = 40
SHOWN: Final = 0.998
"""Share of the round trips within the left axes; the right axes have all of them."""
POINTS: Final = 200


def measured_links(fits: Sequence[Fit]) -> Chart:
    """Draw a row for each link: densities on the left, a quantile-quantile plot on the right.

    Quantiles of the fit lie on the diagonal where they agree with the measured ones. A link without
    samples has only its fit, with the known moments as lines.

    >>> figure = measured_links([fit(series) for series in read("pairs.csv").series])

    Raises:
        UsageError: there is nothing to show, or more than fits on a screen.
    """
    if not fits:
        raise UsageError("no fit to show")
    each = row_height(len(fits), ROW, 0.1, "links")
    if each < LOWEST_ROW:
        raise UsageError(f"{len(fits)} links are taller than a screen: show less")
    height = each * len(fits) + 0.1
    figure = new_chart(WIDTH, height)
    for row, fit in enumerate(fits):
        top = 0.1 + row * each
        bottom = height - top - each
        simulated = fit.chosen.round_trips(DRAWS)
        _title(figure, fit, height - top)
        left = add_axes(figure, 0.6, WIDTH / 2 + 0.2, top + TITLE, bottom + 0.5)
        right = add_axes(figure, WIDTH / 2 + 0.6, 0.2, top + TITLE, bottom + 0.5)
        measured = np.sort(np.array(fit.series.rtt_ms))
        if len(measured) > 1:
            _densities(left, measured, simulated, fit.chosen.name)
            _quantiles(right, measured, simulated)
        else:
            _draw_known(left, fit, simulated)
            right.set_axis_off()
            right.text(0.5, 0.5, "no samples to compare with", ha="center", fontsize=FONT)
    return figure


def _title(figure: Figure, fit: Fit, top: float) -> None:
    width, height = figure.get_size_inches()
    distance = "" if fit.chosen.ks is None else f", KS {fit.chosen.ks:.3f}"
    series = fit.series
    text = f"{series.a} - {series.b}, {series.format}: {fit.chosen.name}{distance}"
    figure.text(
        0.15 / width, top / height, text, fontsize=9, fontweight="bold", color=BLACK, va="top"
    )


def _densities(axes: Axes, measured: Times, simulated: Times, name: str) -> None:
    low = min(measured[0], simulated[0])
    high = max(np.quantile(measured, SHOWN), np.quantile(simulated, SHOWN))
    if high <= low:
        low, high = 0.9 * low, 1.1 * high
    edges = np.linspace(low, high, BINS + 1).tolist()
    for times, label, style in (
        (measured, f"measured ({len(measured)})", {"color": LIGHT}),
        (simulated, name, {"color": BLACK, "histtype": "step", "linewidth": 1.2}),
    ):
        weights = np.full(len(times), 1 / len(times) / (edges[1] - edges[0]))
        axes.hist(times, edges, weights=weights, label=label, **style)
    _label(axes, "round trip (ms)", "share per ms")
    _legend(axes)


def _quantiles(axes: Axes, measured: Times, simulated: Times) -> None:
    at = (np.arange(POINTS) + 0.5) / POINTS
    x, y = np.quantile(simulated, at), np.quantile(measured, at)
    ends = [min(x[0], y[0]), max(x[-1], y[-1])]
    axes.plot(ends, ends, color=GREY, linewidth=1)
    axes.plot(x, y, ".", markersize=4, color=GREY, gid="quantiles")
    for percent in (50, 95, 99):
        point = np.percentile(simulated, percent), np.percentile(measured, percent)
        axes.plot(*point, "o", markersize=5, color=BLACK)
        axes.annotate(
            f"{percent} %",
            point,
            xytext=(7, -11),
            textcoords="offset points",
            fontsize=FONT,
            color=DARK,
        )
    _label(axes, "fit (ms)", "measured (ms)")


def _draw_known(axes: Axes, fit: Fit, simulated: Times) -> None:
    share = (np.arange(len(simulated)) + 0.5) / len(simulated)
    axes.plot(simulated, share, color=BLACK, linewidth=1.2, label=fit.chosen.name)
    moments = fit.series.moments
    known = {"least": moments.least_ms, "mean": moments.mean_ms, "most": moments.most_ms}
    if moments.count == 1:
        known = {"measured": moments.mean_ms}
    for (name, ms), dashes in zip(known.items(), (":", "--", "-."), strict=False):
        axes.axvline(ms, color=GREY, linestyle=dashes, linewidth=1.3, label=name)
    _legend(axes)
    _label(axes, "round trip (ms)", "share below")


def _legend(axes: Axes) -> None:
    """Add the legend above the axes."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=FONT, labelcolor=DARK,
        frameon=False, borderpad=0, borderaxespad=0.3,
    )  # fmt: skip


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, fontsize=FONT, color=DARK)
    axes.set_ylabel(y, fontsize=FONT, color=DARK)
