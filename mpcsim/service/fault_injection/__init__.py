"""Switches for people who develop against the service: break it on purpose, and mend it again.

``table`` has them all, as data. ``switchboard`` throws them: it is where the processes were started
(``mpcsim serve --control``, or a test), and speaks to each over the line that is its standard input
(``child``). ``app`` is the HTTP interface in front of it, ``client`` the other end of that.

Nothing here is loaded where nobody asked for it, and no product code can be switched: a process
that takes switches is another program (``mpcsim.cli.service.controlled``, ``node.controlled``),
which puts them around the product: a clock that is given, a network that is there to be changed, a
layer around the application.
"""

from mpcsim.service.fault_injection import access, app
from mpcsim.service.fault_injection.child import Child, Expiry, Interference, begin
from mpcsim.service.fault_injection.client import over_http
from mpcsim.service.fault_injection.switchboard import Switchboard, check_workers, controlled
from mpcsim.service.fault_injection.table import SWITCHES, Argument

__all__ = [
    "SWITCHES",
    "Argument",
    "Child",
    "Expiry",
    "Interference",
    "Switchboard",
    "access",
    "app",
    "begin",
    "check_workers",
    "controlled",
    "over_http",
]
