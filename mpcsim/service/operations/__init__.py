"""The gateway with both MPC nodes behind it: the wallet service's other half.

``open_gateway()`` builds the whole: in memory, or in a folder with one SQLite file for each of the
three services. ``OpenGateway.app`` is an ASGI application: served over HTTP (``mpcsim serve``), or
called in this process without a socket, in notebooks and tests.
"""

import logging

from mpcsim.service.operations.assembly import OpenGateway, OpenMpcNode, open_gateway, open_mpc_node
from mpcsim.service.operations.options import GatewayOptions

__all__ = ["GatewayOptions", "OpenGateway", "OpenMpcNode", "open_gateway", "open_mpc_node"]

# A library's: whoever wants its records configures handlers.
logging.getLogger("mpcsim").addHandler(logging.NullHandler())
