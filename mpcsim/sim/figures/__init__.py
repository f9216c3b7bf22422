"""Figures of traces, distributions of times, and results of experiments; needs matplotlib.

Of a trace: ``sequence_diagram``, ``gantt``, ``critical_path``. Of distributions: ``tail_plot``
(complementary distribution functions), ``quantile_plot``, ``measured_links``. Of experiments:
``ranked_bars``, ``stacked_bars``, ``heat_map``, ``curves``, ``panels``. Most are methods of what
they show, too: ``trace.gantt()``, ``replay.plot()``, ``compare({...}).ranked_bars()``.

Every function returns a figure of its own, at most a screen high, and touches no global state of
matplotlib: figures work in scripts, servers and notebooks. Hue identifies the party, in every
figure; lightness, hatching and dashes (``parts.style``) tell everything else apart.
"""

from mpcsim.errors import needs_extra

with needs_extra("workbench", "a figure"):
    from mpcsim.sim.colours import BLACK, DARK, GREY, LIGHT, PALE, WHITE, party_colour, tint
    from mpcsim.sim.figures.critical_path import critical_path
    from mpcsim.sim.figures.curves import curves, panels
    from mpcsim.sim.figures.gantt import gantt
    from mpcsim.sim.figures.heat import heat_map
    from mpcsim.sim.figures.measured_links import measured_links
    from mpcsim.sim.figures.parts.canvas import TALLEST, Chart, html, new_chart, svg
    from mpcsim.sim.figures.parts.style import FILLS
    from mpcsim.sim.figures.ranked_bars import ranked_bars
    from mpcsim.sim.figures.sequence import sequence_diagram
    from mpcsim.sim.figures.stacked_bars import stacked_bars
    from mpcsim.sim.figures.tail_plots import quantile_plot, tail_plot

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
    "panels",
    "party_colour",
    "quantile_plot",
    "ranked_bars",
    "sequence_diagram",
    "stacked_bars",
    "svg",
    "tail_plot",
    "tint",
]
