"""Execution of protocol parties over a modelled network, in virtual and in real time.

``session`` is what both have in common. ``compute`` says how long work takes, ``faults`` and
``adversary`` what goes wrong, ``ending`` what came of it. ``clock`` is virtual time for asyncio
programs.
"""

from mpcsim.sim.run.adversary import deviating_party
from mpcsim.sim.run.faults import Crash, delay, drop, duplicate, noise, partition
from mpcsim.sim.run.message_recording import RecordedParty, Recording

__all__ = [
    "Crash",
    "RecordedParty",
    "Recording",
    "delay",
    "deviating_party",
    "drop",
    "duplicate",
    "noise",
    "partition",
]
