"""Capacity model of the service: a discrete-event simulation of it under load, in virtual time.

    >>> from mpcsim.capacity import Deployment, Workload
    >>> run = Deployment().run(Workload(), hours=1)
    >>> print(run)

``running`` states the model on a page and runs it: on ``kernel``, for which ``simulation`` compiles
the inputs (``model``), with recorded messages (``recording``) or the real service (``real``).
``calibration`` measures the costs; ``results`` and ``experiments`` evaluate one run and many;
``plan`` is a file with all inputs and requests.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.capacity.deployment import Deployment
    from mpcsim.capacity.experiments import (
        LoadCurve,
        SearchResult,
        capacity_point,
        cheapest,
        load_curve,
    )
    from mpcsim.capacity.experiments.sensitivity import sensitivity
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
else:
    __getattr__, __dir__ = lazy_names(__name__, "workbench", "the capacity model")

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
