"""Pictures: of a trace (sequence diagram, Gantt chart, critical path), of measured links, of many
times (tails, quantiles), and of what experiments give: what is worth most (``ranked``), what time
is made of (``splits``), two parameters (``heat_map``), one over another (``curves``). Needs
matplotlib.

Most come as methods: ``trace.gantt()``, ``replay.plot()``, ``compare({...}).ranked()``. Every
function returns a figure of its own and touches no global state of matplotlib, so they work in
scripts, servers and notebooks alike; none is taller than a screen. Hue is the parties', in all of
them; ``style`` says how everything else is told apart. It and ``canvas`` are for further figures.
"""

from mpcsim.sim.colours import BLACK, DARK, GREY, LIGHT, PALE, WHITE, party_colour, tint
from mpcsim.sim.figures.critical_path import critical_path
from mpcsim.sim.figures.curves import curves
from mpcsim.sim.figures.gantt import gantt
from mpcsim.sim.figures.heat import heat_map
from mpcsim.sim.figures.measured_links import measured_links
from mpcsim.sim.figures.parts.canvas import TALLEST, Chart, html, new_chart, svg
from mpcsim.sim.figures.parts.style import FILLS
from mpcsim.sim.figures.ranked import ranked
from mpcsim.sim.figures.sequence import sequence_diagram
from mpcsim.sim.figures.splits import splits
from mpcsim.sim.figures.tails import quantile_plot, tails

__all__ = [
    "BLACK",
    "DARK",
    "FILLS",
    "GREY",
    "LIGHT",
    "PALE",
    "TALLEST",
    "WHITE",
    "Chart",
    "critical_path",
    "curves",
    "gantt",
    "heat_map",
    "html",
    "measured_links",
    "new_chart",
    "party_colour",
    "quantile_plot",
    "ranked",
    "sequence_diagram",
    "splits",
    "svg",
    "tails",
    "tint",
]
