"""The simulator: real protocol parties over modelled networks, in virtual or in real time.

``simulation`` is the front door and ``sweep`` walks a grid of simulations. Below them: ``network``
says how long messages take; ``run`` runs the parties, with their compute, faults and adversaries;
``traces`` is what comes out, ``figures`` its pictures; ``replay`` repeats the timing of a run a
million times.
"""

from mpcsim.sim.network.topology import Link, Network, Site
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.run.adversary import Adversary, on
from mpcsim.sim.run.compute import Compute, Declared, Free, Measured, calibrate
from mpcsim.sim.simulation import Policy, Result, Simulation
from mpcsim.sim.sweep import signing_point, sweep
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Verdict

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
