"""Network model: sites and links, latency distributions, losses, and TCP with its connections.

Model: each link has a one-way latency distribution, a rate shared by its connections (FIFO), a
queue of bounded size, and losses, independent or in bursts (Gilbert-Elliott). Messages are segments
of TCP (``tcp``; RFC 9293, 5681, 6298, 6675, 8985, 9438, as Linux or ns-3 implement them), after
handshakes of TCP and TLS. Assumed: a message's packets have one latency and arrive in order. So an
answer also waits for the acknowledgements sent before it, whose latency is drawn by itself: 1 to 5
% of a signature's protocol over access networks with jitter, of a REST call nothing; explanations
call it queueing. Left out: reordering, cross traffic, the receive window, BBR.

``topology`` defines a ``Network``, ``transport`` its connections, ``traffic`` simulates messages on
its links; ``draws`` is where randomness enters. ``presets`` has public figures, ``measured`` makes
networks of measurements, ``files`` reads and writes them.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.sim.network.latency import Constant, Empirical
    from mpcsim.sim.network.losses import GilbertElliott, TimedGilbertElliott
    from mpcsim.sim.network.presets import ACCESS, REGIONS
    from mpcsim.sim.network.traffic import Traffic
    from mpcsim.sim.network.transport import FORWARDING, Draws
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "ACCESS",
    "FORWARDING",
    "REGIONS",
    "Constant",
    "Draws",
    "Empirical",
    "GilbertElliott",
    "TimedGilbertElliott",
    "Traffic",
]
