"""Pictures of a trace: sequence diagram, Gantt chart, critical path; of measured links; and of many
times: tails, quantiles. Needs matplotlib.

Every function returns a figure of its own and touches no global state of matplotlib, so they work
in scripts, servers and notebooks alike. ``style`` and ``canvas`` are for further figures.
"""

from mpcsim.sim.colours import (
    BLACK,
    BLUE,
    DARK,
    GREEN,
    GREY,
    LIGHT,
    NEUTRALS,
    ORANGE,
    PALE,
    PALETTE,
    PURPLE,
    SKY,
    VERMILLION,
    WHITE,
    YELLOW,
    party_colour,
)
from mpcsim.sim.figures.canvas import Chart, html, new_chart, svg
from mpcsim.sim.figures.critical_path import critical_path
from mpcsim.sim.figures.gantt import gantt
from mpcsim.sim.figures.measured_links import measured_links
from mpcsim.sim.figures.sequence import sequence_diagram
from mpcsim.sim.figures.style import FILLS
from mpcsim.sim.figures.tails import quantile_plot, tails

__all__ = [
    "BLACK",
    "BLUE",
    "DARK",
    "FILLS",
    "GREEN",
    "GREY",
    "LIGHT",
    "NEUTRALS",
    "ORANGE",
    "PALE",
    "PALETTE",
    "PURPLE",
    "SKY",
    "VERMILLION",
    "WHITE",
    "YELLOW",
    "Chart",
    "critical_path",
    "gantt",
    "html",
    "measured_links",
    "new_chart",
    "party_colour",
    "quantile_plot",
    "sequence_diagram",
    "svg",
    "tails",
]
