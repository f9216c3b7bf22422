"""Request traces: what happened to a call at node, gateway and MPC nodes, from all log files.

``lines`` reads the files (``mpcsim.service.web.log_files`` writes them), ``request_trace`` joins
the lines of one request id by who called whom, ``text`` prints the result, and ``simulator_trace``
converts it to a trace as the simulator has them.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.service.request_traces import text
    from mpcsim.service.request_traces.lines import (
        LogFollower,
        LogScan,
        Request,
        find_request,
        find_requests,
    )
    from mpcsim.service.request_traces.request_trace import assemble_trace
    from mpcsim.service.request_traces.simulator_trace import to_simulator_trace
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "LogFollower",
    "LogScan",
    "Request",
    "find_request",
    "find_requests",
    "text",
    "assemble_trace",
    "to_simulator_trace",
]
