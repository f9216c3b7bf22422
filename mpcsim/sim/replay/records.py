"""Records of the compiled replay loop: the steps, messages and hops of a session."""

from __future__ import annotations

import numpy as np

STEP = np.dtype(
    [
        ("cost", np.float64),
        ("previous", np.int64),  # the party's step before, or -1
        ("following", np.int64),
        ("needs", np.int64),  # how many messages it waits for
        ("first_send", np.int64),  # its sends are first_send to last_send - 1 of ``sends``
        ("last_send", np.int64),
        # in this sample
        ("missing", np.int64),
        ("latest", np.float64),
        ("start", np.float64),
        ("end", np.float64),
        ("done", np.int64),
        ("joined", np.int64),  # it directly follows the one before
        ("burst", np.int64),  # the number of the first step of its uninterrupted work
    ],
    align=True,
)

MESSAGE = np.dtype(
    [
        ("first_hop", np.int64),  # its hops are first_hop to last_hop - 1
        ("last_hop", np.int64),
        ("first_needed", np.int64),  # of ``needed_by``: steps that wait for it
        ("last_needed", np.int64),
        ("burst", np.int64),
        ("request", np.int64),  # the message that it answers, or -1
        ("limit", np.float64),  # how long after that it is waited for
        ("given", np.float64),
        ("arrived", np.float64),
    ],
    align=True,
)

HOP = np.dtype(
    [
        ("message", np.int64),
        ("flow", np.int64),  # which hop of which flow: what shares the draws of a burst
        ("link", np.int64),
        ("side", np.int64),
        ("pair", np.int64),
        ("size", np.int64),
        ("service", np.float64),
        ("releases", np.int64),  # whether its exchange is over with it
    ],
    align=True,
)

FLOW = np.dtype(
    [("burst", np.int64), ("forward", np.float64), ("backward", np.float64)], align=True
)

EVENT = np.dtype([("at", np.float64), ("order", np.int64), ("hop", np.int64)], align=True)
