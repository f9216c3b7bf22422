"""Networks from measured round trips: readers of measurement files, and fits of distributions.

Model: a link's one-way latency is a log-normal, gamma, Pareto or normal distribution with a floor,
of least Wasserstein distance to the measured round trips (``fit``), or the samples themselves.
Assumed: a round trip takes half its time each way; samples are independent unless drawn in blocks
(``network.bursts``). Left out: how latency changes with the time of day, and with the load.

``reading`` recognises a file's format and returns a ``Series`` for each pair of sites; ``fit`` fits
distributions to one; ``network_assembly`` makes a ``Network`` of them. One format is one module:
``programs`` (ping, fping, mtr, hping3, tcpping, iperf3), ``web`` (HAR, curl), ``tables`` (CSV,
Markdown, JSON). A reader reads a file correctly or refuses it: ``other_programs`` names programs
whose output looks similar and has no reader.
"""

from mpcsim.sim.network.measured import network_assembly, reading
from mpcsim.sim.network.measured.fit import DISTRIBUTIONS, Fit, fit
from mpcsim.sim.network.measured.network_assembly import assemble_network
from mpcsim.sim.network.measured.reading import read
from mpcsim.sim.network.measured.series import Series

__all__ = [
    "DISTRIBUTIONS",
    "Fit",
    "Series",
    "assemble_network",
    "network_assembly",
    "fit",
    "read",
    "reading",
]
