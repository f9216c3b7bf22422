"""The simulator: real protocol parties over modelled networks, in virtual or in real time.

``network`` and ``transport`` say how long messages take, ``compute`` how long work takes,
``faults`` and ``adversary`` what goes wrong, ``engine`` runs it, ``recording`` is what comes out,
and ``simulation`` is the front door.
"""

from mpcsim.sim.adversary import Adversary, on
from mpcsim.sim.compute import Compute, Declared, Free, Measured, calibrate
from mpcsim.sim.network import Link, Network, Site
from mpcsim.sim.recording import Trace, Verdict
from mpcsim.sim.simulation import Policy, Result, Simulation
from mpcsim.sim.sweep import signing_point, sweep
from mpcsim.sim.transport import Connection

__all__ = [
    "Adversary",
    "Compute",
    "Connection",
    "Declared",
    "Free",
    "Link",
    "Measured",
    "Network",
    "Policy",
    "Result",
    "Simulation",
    "Site",
    "Trace",
    "Verdict",
    "calibrate",
    "on",
    "signing_point",
    "sweep",
]
