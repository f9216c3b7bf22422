"""Default times and limits of the gateway, apart from the code that keeps to them: the command line
shows them in its help."""

from typing import Final

TOKEN_LIFETIME_S: Final = 3600.0
LINK_TIMEOUT_S: Final = 20.0
"""Time after which a request to an MPC node counts as unanswered."""
LEASE_S: Final = 5.0
"""Time for which a session's caller may be silent before the next session takes its place."""
MAKING_QUEUE: Final = 100
"""Requests that may wait for a slot to make a key, where slots are limited; each holds a
connection."""
MAKING_WAIT_S: Final = 10.0
"""Longest time that they wait: a REST node gives up after 30 s, and making a key takes some."""
