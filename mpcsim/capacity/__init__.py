"""The whole service under load, in virtual time: what breaks first, and what would help.

    >>> from mpcsim.capacity import Deployment, Workload
    >>> run = Deployment().run(Workload(), hours=1)
    >>> print(run)

``deployment`` says what the service runs on, ``workload``, ``arrivals`` and ``events`` what is
asked of it, ``costs`` what handling a message takes (``calibration`` measures that), and
``operations`` what messages there are (``recording`` listens to the real service). ``kernel`` is
the twin itself, compiled; ``simulation`` leads up to it, or ``real`` to the real service in its
place, and ``running`` runs them. ``results`` are what comes of that; ``experiments`` are questions
that take many runs; ``figures`` are pictures of both. ``plan`` puts all that is asked in a file.
"""

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.experiments import (
    LoadCurve,
    SearchResult,
    capacity_point,
    cheapest,
    load_curve,
    sensitivity,
)
from mpcsim.capacity.model.arrivals import Arrivals, Bursts, Profile, Steady, Times, Users
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.incidents import (
    BulkReshare,
    Event,
    ProcessCrash,
    ProcessPause,
    RollingRestart,
    Slowdown,
)
from mpcsim.capacity.model.parts import Part
from mpcsim.capacity.model.workload import OPERATIONS, Client, Workload
from mpcsim.capacity.plan import Cheapest, Curve, Plan, Sensitivity
from mpcsim.capacity.results.record import Percentile
from mpcsim.capacity.results.run import Overloaded, Run

__all__ = [
    "OPERATIONS",
    "Arrivals",
    "Bursts",
    "Cheapest",
    "Client",
    "Costs",
    "Curve",
    "Deployment",
    "RollingRestart",
    "ProcessCrash",
    "Event",
    "SearchResult",
    "LoadCurve",
    "Overloaded",
    "Part",
    "ProcessPause",
    "Percentile",
    "Plan",
    "Profile",
    "BulkReshare",
    "Run",
    "Sensitivity",
    "Slowdown",
    "Steady",
    "Times",
    "Users",
    "Workload",
    "capacity_point",
    "cheapest",
    "load_curve",
    "sensitivity",
]
