"""Discrete-event simulator of MPC sessions: real protocol parties over a modelled network.

``simulation`` is the entry point; ``parties`` that for other protocols, ``scenario`` the input as a
file. ``network`` models latency, loss and TCP; ``run`` executes the parties, with compute times,
faults and adversaries, in virtual or real time; ``traces`` records and analyses a run, ``figures``
draws it. ``replay`` repeats a run's timing a million times (Monte Carlo), ``experiments`` sweeps
parameters and compares distributions. ``simulated_network`` puts a network on the links of a
running service.

Model: one session at a time, or several over the same links; computation takes declared, measured
or no time. Left out: packet reordering, bandwidth that changes with time, cross traffic.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
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
    from mpcsim.sim.tasks import Generate, Sign, SignPresigned
    from mpcsim.sim.trace import Trace
    from mpcsim.sim.traces.records import Verdict
else:
    __getattr__, __dir__ = lazy_names(__name__)

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
    "SignPresigned",
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
