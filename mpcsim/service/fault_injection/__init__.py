"""Fault injection for people who develop against the service: break it on purpose, and mend it.

``commands`` lists all commands as data. ``controller`` carries them out: it lives where the
processes were started (``mpcsim serve --control``, or a test), and speaks to each over the socket
that is its standard input (``process_faults``). ``app`` is the HTTP interface in front of it,
``client`` the other end of that.

Nothing here is loaded unless asked for, and no product code can be made to fail: a process that
accepts faults is another program (``mpcsim.cli.service.controlled``, ``node.controlled``), which
wraps the product: a clock that is given, a network that can be changed, a layer around the
application.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.service.fault_injection import access, app
    from mpcsim.service.fault_injection.client import over_http
    from mpcsim.service.fault_injection.commands import COMMANDS, Argument, ControlCommand
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
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "COMMANDS",
    "ControlCommand",
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
