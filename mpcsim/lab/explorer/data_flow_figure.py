"""Figure of the wallet's components, their shares, and the data flow between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR, PartyId
from mpcsim.sim.figures import BLACK, DARK, GREY, PALE, WHITE, Chart, new_chart, party_colour

_WIDTH, _HEIGHT = 9.8, 4.0
_HALF_WIDTH, _HALF_HEIGHT = 0.83, 0.36
_SMALL, _HEAD = 7.5, 9.5


@dataclass(frozen=True)
class _Component:
    """Component in the figure; its position is in inches from the top left."""

    x: float
    y: float
    name: str
    words: str
    """Text below the box: what it holds and does."""
    party: PartyId | None = None
    """Party whose share it computes with."""


_CALLER: Final = _Component(1.0, 1.75, "caller", "keeps share 1, encrypted;\ncannot open it alone")
_NODE: Final = _Component(
    3.85, 1.75, "REST node", "the client: opens share 1\nfor one call, stores nothing", CLIENT
)
_GATEWAY: Final = _Component(
    6.3, 1.75, "gateway", "users and public keys;\npasses messages on,\nholds no share"
)
_OPERATOR: Final = _Component(8.7, 0.75, "operator", "MPC node, holds share 2", OPERATOR)
_INSTITUTION: Final = _Component(8.7, 2.75, "institution", "MPC node, holds share 3", INSTITUTION)

COMPONENTS: Final = (_CALLER, _NODE, _GATEWAY, _OPERATOR, _INSTITUTION)


def data_flow() -> Chart:
    """Plot the components, and what each sends to whom."""
    figure = new_chart(_WIDTH, _HEIGHT)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, _WIDTH)
    axes.set_ylim(_HEIGHT, 0)
    axes.axis("off")
    title = "Who holds which share of a key, and what passes between them"
    axes.text(0.17, 0.2, title, fontsize=_HEAD, fontweight="bold", color=BLACK, va="center")
    for station in COMPONENTS:
        _draw(axes, station)
    _arrow(axes, _CALLER, _NODE, -0.13, "what to sign,\nencrypted share", above=True)
    _arrow(axes, _NODE, _CALLER, 0.13, "signature", above=False)
    _arrow(axes, _NODE, _GATEWAY, 0, "sealed", above=True, both=True)
    for mpc_node in (_OPERATOR, _INSTITUTION):
        _arrow(axes, _GATEWAY, mpc_node, 0, "sealed", above=mpc_node is _OPERATOR, both=True)
    axes.text(
        _WIDTH / 2,
        _HEIGHT - 0.3,
        "Any two of the shares 1, 2 and 3 can sign. The key that they share is never anywhere.",
        fontsize=_HEAD,
        color=BLACK,
        ha="center",
        va="center",
    )
    return figure


def _draw(axes: Axes, station: _Component) -> None:
    colour = GREY if station.party is None else party_colour(station.party).line
    corner = station.x - _HALF_WIDTH, station.y - _HALF_HEIGHT
    style = "round,pad=0,rounding_size=0.08"
    size = 2 * _HALF_WIDTH, 2 * _HALF_HEIGHT
    axes.add_patch(
        FancyBboxPatch(corner, *size, boxstyle=style, facecolor=PALE, edgecolor=colour, lw=1.8)
    )
    badge = station.party is not None
    x = station.x + (0.19 if badge else 0)
    options: dict[str, Any] = {
        "fontsize": _HEAD,
        "fontweight": "bold",
        "ha": "center",
        "va": "center",
    }
    axes.text(x, station.y, station.name, color=BLACK, **options)
    if badge:
        circle = {"boxstyle": "circle,pad=0.3", "facecolor": colour, "edgecolor": "none"}
        left = station.x - _HALF_WIDTH + 0.27
        axes.text(left, station.y, str(station.party), color=WHITE, bbox=circle, **options)
    axes.text(
        station.x,
        station.y + _HALF_HEIGHT + 0.09,
        station.words,
        fontsize=_SMALL,
        color=DARK,
        ha="center",
        va="top",
        linespacing=1.35,
    )


def _arrow(
    axes: Axes,
    source: _Component,
    target: _Component,
    shift: float,
    words: str,
    *,
    above: bool,
    both: bool = False,
) -> None:
    """Draw an arrow between boxes, ``shift`` inches below their middles, with text beside its
    middle."""
    way = 1 if target.x > source.x else -1
    start = source.x + way * (_HALF_WIDTH + 0.06), source.y + shift
    end = target.x - way * (_HALF_WIDTH + 0.06), target.y + shift
    style = {"arrowstyle": "<|-|>" if both else "-|>", "color": DARK, "lw": 1.2}
    axes.annotate("", end, start, arrowprops={**style, "shrinkA": 0, "shrinkB": 0})
    slanted = source.y != target.y
    axes.text(
        (start[0] + end[0]) / 2 - (0.06 if slanted else 0),
        (start[1] + end[1]) / 2 + (-0.06 if above else 0.06),
        words,
        fontsize=_SMALL,
        color=DARK,
        ha="right" if slanted else "center",
        va="bottom" if above else "top",
        linespacing=1.35,
    )
