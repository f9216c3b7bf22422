"""What became of a call at node, gateway and MPC nodes: told from the log files of all of them.

``lines`` reads the files (``mpcsim.service.web.log_files`` writes them), ``story`` puts together
what bears one request id, by who asked whom, ``text`` tells it, and ``traced`` makes a trace of it
as the simulator has them.
"""

from mpcsim.service.request_traces import text
from mpcsim.service.request_traces.lines import Following, Found, Request, about, requests
from mpcsim.service.request_traces.story import told
from mpcsim.service.request_traces.traced import traced

__all__ = [
    "Following",
    "Found",
    "Request",
    "about",
    "requests",
    "text",
    "told",
    "traced",
]
