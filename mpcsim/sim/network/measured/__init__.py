"""Links that people measured: readers of what ping, mtr, hping3, tcpping, iperf3, browsers and curl
write, fits of distributions to it, and latencies that come in bursts.

``reading`` recognises a file and reads its ``Series``; ``fit`` finds distributions for one;
``assembly`` makes a ``Network`` of them; ``bursts`` keeps the order of the samples in blocks.
"""

from mpcsim.sim.network.measured import assembly, reading
from mpcsim.sim.network.measured.assembly import assemble
from mpcsim.sim.network.measured.fit import DISTRIBUTIONS, Fit, fit
from mpcsim.sim.network.measured.reading import read
from mpcsim.sim.network.measured.series import Series

__all__ = [
    "DISTRIBUTIONS",
    "Fit",
    "Series",
    "assemble",
    "assembly",
    "fit",
    "read",
    "reading",
]
