"""The simulator: real protocol parties over modelled networks, in virtual or in real time.

``simulation`` is the front door, and ``parties`` that of other protocols. ``scenario`` is what a
simulation runs, as data; ``reruns`` runs a trace again; ``sweep`` walks a grid, and ``experiments``
are what it may run there. Below them: ``network`` says how long messages take; ``run`` runs the
parties, with their compute, faults and adversaries; ``traces`` is what comes out, ``figures`` its
pictures, ``trace`` both as methods; ``replay`` repeats the timing of a run a million times,
``compare`` puts such times beside each other. ``simulated_network`` puts networks and faults on the
links of a running service.
"""

from mpcsim.sim.experiments.compare import compare
from mpcsim.sim.experiments.experiments import replay_point, signing_point
from mpcsim.sim.experiments.reruns import Rerun, rerun
from mpcsim.sim.experiments.sweep import sweep
from mpcsim.sim.network.files.latencies import register_latency
from mpcsim.sim.network.latency import Latency
from mpcsim.sim.network.topology import Link, Network, Site
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.parties import run_parties
from mpcsim.sim.rich_display import Table, counted, milliseconds, size
from mpcsim.sim.run.adversary import Adversary, alter_kind
from mpcsim.sim.run.compute import Compute, Declared, Free, Measured, calibrate
from mpcsim.sim.scenario import Policy, Scenario
from mpcsim.sim.simulated_network import SimulatedNetwork
from mpcsim.sim.simulation import Result, Simulation, run_scenario
from mpcsim.sim.tasks import Generate, Sign
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Verdict

__all__ = [
    "Adversary",
    "Compute",
    "Connection",
    "Declared",
    "Free",
    "Generate",
    "Latency",
    "Link",
    "Measured",
    "Network",
    "Policy",
    "Rerun",
    "Result",
    "Scenario",
    "Sign",
    "SimulatedNetwork",
    "Simulation",
    "Site",
    "Table",
    "Trace",
    "Verdict",
    "calibrate",
    "compare",
    "counted",
    "milliseconds",
    "alter_kind",
    "run_scenario",
    "register_latency",
    "replay_point",
    "rerun",
    "run_parties",
    "signing_point",
    "size",
    "sweep",
]
