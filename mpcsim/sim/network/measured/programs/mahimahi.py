"""Refusal of mahimahi's link traces and logs: a rate over time, which links here do not have.

A trace has a whole number of milliseconds a line, in ascending order: each is an opportunity to
deliver 1500 bytes; at its end it repeats. It has no round trips.

Source: mahimahi (``man/mm-link.1``; ``src/frontend/link_queue.cc``).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.series import Series

FEWEST: Final = 6
"""Least number of lines to recognise a trace."""
BITS: Final = 1500 * 8


def can_read(text: str) -> bool:
    """Return whether the text is a trace, or a log of mm-link."""
    if text.startswith("# mahimahi mm-link"):
        return True
    lines = text.split()
    if len(lines) < FEWEST or not all(re.fullmatch(r"\d{1,12}", line) for line in lines):
        return False
    times = list(map(int, lines))
    return all(after >= before for before, after in pairwise(times)) and times[-1] > times[0]


def read(text: str, path: str) -> list[Series]:
    """Refuse the file.

    Raises:
        UsageError: always: names the trace's mean rate.
    """
    if text.startswith("#"):
        raise UsageError(f"{path}, line 1: a log of mahimahi's mm-link: it has no round trips")
    if not can_read(text):
        raise UsageError(f"{path}: no link trace of mahimahi: whole numbers that never fall")
    lines = text.split()
    mbit = len(lines) * BITS / max(int(lines[-1]), 1) / 1000
    raise UsageError(
        f"{path}, line 1: {len(lines)} whole numbers that never fall, as in a link trace of "
        f"mahimahi: a rate over time, {mbit:.4g} Mbit/s on average, and a link here has one rate. "
        f"Measure round trips, and give the rate with --mbit={mbit:.4g}. (If these are round "
        "trips, write rtt_ms above them)"
    )
