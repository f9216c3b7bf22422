"""The gateway with both MPC nodes behind it: the wallet service's other half.

``open_gateway()`` builds the whole: in memory, or in a folder with one SQLite file for each of the
three services. ``OpenGateway.app`` is an ASGI application: served over HTTP (``mpcsim serve``), or
called in this process without a socket, in notebooks and tests.
"""

import logging

from mpcsim.service.operations.assembly import OpenGateway, OpenMpcNode, open_gateway, open_mpc_node
from mpcsim.service.operations.backups import PARTS, back_up, put_back
from mpcsim.service.operations.data_folder import link_file, logs_in, prepare, store_file
from mpcsim.service.operations.doctor import Doctor, Examined, doctor
from mpcsim.service.operations.options import GatewayOptions
from mpcsim.service.operations.rotation import (
    GRACE_S,
    replace_lost_seal_key,
    rotate_link,
    rotate_token_key,
)
from mpcsim.service.operations.serving import serve
from mpcsim.service.operations.supervisor import (
    DATA_FOLDER,
    HOST,
    METRICS_VARIABLE,
    Program,
    Revival,
    Running,
    access_token,
    backend,
    free_port,
    node_program,
    running,
)

__all__ = [
    "DATA_FOLDER",
    "GRACE_S",
    "HOST",
    "METRICS_VARIABLE",
    "PARTS",
    "Doctor",
    "Examined",
    "GatewayOptions",
    "OpenGateway",
    "OpenMpcNode",
    "Program",
    "Revival",
    "Running",
    "access_token",
    "back_up",
    "backend",
    "doctor",
    "free_port",
    "link_file",
    "logs_in",
    "node_program",
    "open_gateway",
    "open_mpc_node",
    "prepare",
    "put_back",
    "replace_lost_seal_key",
    "rotate_link",
    "rotate_token_key",
    "running",
    "serve",
    "store_file",
]

# A library's: whoever wants its records configures handlers.
logging.getLogger("mpcsim").addHandler(logging.NullHandler())
