"""Compile everything that numba compiles: ``python -m mpcsim.capacity.precompile``.

``make install`` runs it. It takes a minute and a half, once for each version of the sources;
without it, the first simulation and the first capacity run wait for their part of that.
"""

from __future__ import annotations

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.model.arrivals import Steady
from mpcsim.capacity.model.workload import Workload
from mpcsim.sim import compile as simulator

SECONDS = 2.0
"""Length of each run: enough for a few calls."""


def main() -> None:
    """Call every compiled function once, with the types it always has."""
    simulator.main()
    workload = Workload(Steady(2.0))
    for exactness in ("recorded", "real"):
        Deployment().run(workload, seconds=SECONDS, exactness=exactness)


if __name__ == "__main__":
    main()
