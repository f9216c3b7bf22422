"""How long messages take: sites and links, latencies, what TCP makes of a message, public figures.

``topology`` joins them to a ``Network``; ``draws`` is where randomness enters.
"""

from mpcsim.sim.network.latency import Empirical
from mpcsim.sim.network.losses import GilbertElliott, TimedGilbertElliott
from mpcsim.sim.network.presets import ACCESS, REGIONS
from mpcsim.sim.network.traffic import Traffic
from mpcsim.sim.network.transport import FORWARDING, Draws

__all__ = [
    "ACCESS",
    "FORWARDING",
    "REGIONS",
    "Draws",
    "Empirical",
    "GilbertElliott",
    "TimedGilbertElliott",
    "Traffic",
]
