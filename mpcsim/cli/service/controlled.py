"""``python -m mpcsim.cli.service.controlled gateway ...``, or ``mpc-node ...``.

The same as a process that takes switches (``mpcsim.service.fault_injection``).
``mpcsim serve --control`` starts it, and says over its standard input what to switch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

from mpcsim import cli
from mpcsim.cli.command import Options
from mpcsim.cli.service import gateway, mpc_node
from mpcsim.service.fault_injection import (
    FaultMiddleware,
    ProcessFaults,
    TokenExpiry,
    accept_faults,
)
from mpcsim.service.operations import RunningGateway, RunningMpcNode
from mpcsim.sim import Scenario, SimulatedNetwork


def main(arguments: Sequence[str] | None, faults: ProcessFaults) -> int:
    """Serve with switches around; returns the exit status."""

    def serve_gateway(options: Options) -> int:
        def opened(gateway: RunningGateway) -> None:
            _let_network_change(gateway, faults)
            gateway.app.add_middleware(
                TokenExpiry, faults=faults, lifetime_s=options.token_lifetime
            )
            gateway.app.add_middleware(FaultMiddleware, faults=faults)

        return gateway.run(options, now=faults.now, opened=opened)

    def serve_mpc_node(options: Options) -> int:
        def opened(node: RunningMpcNode) -> None:
            node.app.add_middleware(FaultMiddleware, faults=faults)

        return mpc_node.run(options, now=faults.now, opened=opened)

    return cli.main(arguments, {"gateway": serve_gateway, "mpc-node": serve_mpc_node})


def _let_network_change(gateway: RunningGateway, faults: ProcessFaults) -> None:
    network = gateway.network
    started = network.model, network.faults, network.seed

    def another(text: str | None) -> Callable[[], None]:
        if text is None:
            return partial(network.change, *started)
        scenario = Scenario.loads(text)
        under = scenario.network, scenario.faults, scenario.seed
        SimulatedNetwork(*under)  # it may be refused, or have to be compiled
        return partial(network.change, *under)

    faults.prepare_network = another
    if faults.conditions.scenario is not None:
        another(faults.conditions.scenario)()


if __name__ == "__main__":
    sys.exit(main(None, accept_faults()))
