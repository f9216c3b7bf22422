"""What became of a call at node, gateway and MPC nodes: told from the log files of all of them.

``lines`` reads the files (``mpcsim.service.web.log_files`` writes them), ``request_trace`` puts together
what bears one request id, by who asked whom, ``text`` tells it, and ``to_simulator_trace`` makes a trace of it
as the simulator has them.
"""

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
