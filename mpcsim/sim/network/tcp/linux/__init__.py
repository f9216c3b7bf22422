"""The sender and the receiver of Linux: RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO (RFC 5682).

What is said of Linux was read in ``net/ipv4/tcp_input.c``, ``tcp_output.c``, ``tcp_recovery.c`` and
``tcp_timer.c`` of 6.x and checked against its times (``tests/vectors/linux``: 6.18). Windows are
counted in segments. Its clock has 250 ticks a second; that its timers ring at ticks makes them late
by half a step, always the same. Left out: HyStart, reordering, and the receive window, which never
limits a sender and grows with every segment.

``timing``, ``sending``, ``losses``, ``acknowledgements``, ``timeouts``; ``receiving``.
"""

from mpcsim.sim.network.tcp.linux.acknowledgements import acknowledge
from mpcsim.sim.network.tcp.linux.receiving import LEAST_ATO_MS, arrive, delayed
from mpcsim.sim.network.tcp.linux.sending import send
from mpcsim.sim.network.tcp.linux.timeouts import expire
from mpcsim.sim.network.tcp.linux.timing import LONG_STEP_MS, late, sample

__all__ = [
    "LEAST_ATO_MS",
    "LONG_STEP_MS",
    "acknowledge",
    "arrive",
    "delayed",
    "expire",
    "late",
    "sample",
    "send",
]
