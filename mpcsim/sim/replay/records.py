"""Record types of the compiled simulation: steps, messages, hops, flows and events."""

from __future__ import annotations

import numpy as np

STEP = np.dtype(
    [
        ("cost", np.float64),
        ("previous", np.int64),  # the party's previous step, or -1
        ("following", np.int64),
        ("needs", np.int64),  # number of messages it needs
        ("first_send", np.int64),  # its messages: ``sends[first_send:last_send]``
        ("last_send", np.int64),
        # state of the current sample
        ("missing", np.int64),
        ("latest", np.float64),
        ("start", np.float64),
        ("end", np.float64),
        ("done", np.int64),
        ("joined", np.int64),  # whether it starts when the previous one ends
        ("burst", np.int64),  # first step of its uninterrupted computation
    ],
    align=True,
)

MESSAGE = np.dtype(
    [
        ("first_hop", np.int64),  # its hops: first_hop to last_hop - 1
        ("last_hop", np.int64),
        ("first_needed", np.int64),  # its dependents: a slice of ``needed_by``
        ("last_needed", np.int64),
        ("burst", np.int64),
        ("request", np.int64),  # the message that it answers, or -1
        ("limit", np.float64),  # time-out of that request
        ("given", np.float64),
        ("arrived", np.float64),
    ],
    align=True,
)

HOP = np.dtype(
    [
        ("message", np.int64),
        ("flow", np.int64),  # sender, receiver and hop: transfers of a burst share draws
        ("link", np.int64),
        ("side", np.int64),
        ("pair", np.int64),
        ("size", np.int64),
        ("service", np.float64),
        ("releases", np.int64),  # whether it ends its exchange
    ],
    align=True,
)

FLOW = np.dtype(
    [("burst", np.int64), ("forward", np.float64), ("backward", np.float64)], align=True
)

EVENT = np.dtype([("at", np.float64), ("order", np.int64), ("hop", np.int64)], align=True)
