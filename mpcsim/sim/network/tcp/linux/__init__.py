"""The sender and the receiver of Linux: RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO (RFC 5682).

What is said of Linux was read in ``net/ipv4/tcp_input.c``, ``tcp_output.c``, ``tcp_recovery.c`` and
``tcp_timer.c`` of 6.x and checked against its times (``tests/vectors/linux``: 6.18). Windows are
counted in segments. Its clock has 250 ticks a second; that its timers ring at ticks makes them late
by half a step, always the same. Left out: HyStart, reordering, and the receive window, which never
limits a sender and grows with every segment.

``timing``, ``sending``, ``losses``, ``acknowledgements``, ``timeouts``; ``receiving``.
"""

from mpcsim.sim.network.tcp.linux.acknowledgements import receive_ack
from mpcsim.sim.network.tcp.linux.receiving import LEAST_ATO_MS, on_delack_timer, receive_data
from mpcsim.sim.network.tcp.linux.sending import write_xmit
from mpcsim.sim.network.tcp.linux.timeouts import on_write_timer
from mpcsim.sim.network.tcp.linux.timing import LONG_STEP_MS, estimate_rtt, timer_wait

__all__ = [
    "LEAST_ATO_MS",
    "LONG_STEP_MS",
    "receive_ack",
    "receive_data",
    "on_delack_timer",
    "on_write_timer",
    "timer_wait",
    "estimate_rtt",
    "write_xmit",
]
