"""Switches for people who develop against the service: break it on purpose, and mend it again.

``commands`` has them all, as data. ``controller`` throws them: it is where the processes were started
(``mpcsim serve --control``, or a test), and speaks to each over the line that is its standard input
(``process_faults``). ``app`` is the HTTP interface in front of it, ``client`` the other end of that.

Nothing here is loaded where nobody asked for it, and no product code can be switched: a process
that takes switches is another program (``mpcsim.cli.service.controlled``, ``node.controlled``),
which puts them around the product: a clock that is given, a network that is there to be changed, a
layer around the application.
"""

from mpcsim.service.fault_injection import access, app
from mpcsim.service.fault_injection.client import over_http
from mpcsim.service.fault_injection.commands import COMMANDS, Argument
from mpcsim.service.fault_injection.controller import (
    FaultController,
    check_workers,
    with_fault_injection,
)
from mpcsim.service.fault_injection.process_faults import (
    FaultMiddleware,
    ProcessFaults,
    TokenExpiry,
    accept_faults,
)

__all__ = [
    "COMMANDS",
    "Argument",
    "ProcessFaults",
    "TokenExpiry",
    "FaultMiddleware",
    "FaultController",
    "access",
    "app",
    "accept_faults",
    "check_workers",
    "with_fault_injection",
    "over_http",
]
