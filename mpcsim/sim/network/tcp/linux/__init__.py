"""Linux's sender and receiver: RACK-TLP (RFC 8985), PRR (RFC 6937), F-RTO (RFC 5682).

Functions follow those of ``net/ipv4/tcp_input.c``, ``tcp_output.c``, ``tcp_recovery.c`` and
``tcp_timer.c`` of 6.x, named in their summaries; times were validated against 6.18
(``tests/vectors/linux``). Windows count segments. Assumed: 250 ticks a second, and timers that
expire half a step of the timer wheel late. Left out: HyStart, reordering, and the receive window,
which never limits a sender and grows with every segment.

``timing`` (round trips, timers), ``sending``, ``acknowledgements``, ``loss_recovery``,
``timeouts``; ``receiving``."""

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
