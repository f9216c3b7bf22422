"""The gateway with both MPC nodes behind it, composed and operated.

``open_gateway()`` builds the whole: in memory, or in a folder with one SQLite file for each of the
three services. ``RunningGateway.app`` is an ASGI application: served over HTTP (``mpcsim serve``),
or called in this process without a socket, in notebooks and tests.
"""

import logging
from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.service.operations.backups import back_up, restore
    from mpcsim.service.operations.composition import (
        RunningGateway,
        RunningMpcNode,
        open_gateway,
        open_mpc_node,
    )
    from mpcsim.service.operations.data_folder import (
        chain_file,
        link_file,
        log_folder_of,
        prepare,
        store_file,
    )
    from mpcsim.service.operations.defaults import (
        DATA_FOLDER,
        GRACE_S,
        HOST,
        METRICS_VARIABLE,
    )
    from mpcsim.service.operations.doctor import Doctor, KeyReport, open_doctor
    from mpcsim.service.operations.options import GatewayOptions
    from mpcsim.service.operations.rotation import (
        replace_lost_seal_key,
        rotate_link,
        rotate_token_key,
    )
    from mpcsim.service.operations.serving import serve
    from mpcsim.service.operations.supervisor import (
        ProcessGroup,
        Program,
        RestartPolicy,
        access_token,
        backend,
        check_ports,
        free_port,
        node_program,
        process_group,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, "gateway", "the wallet service")

__all__ = [
    "DATA_FOLDER",
    "GRACE_S",
    "HOST",
    "METRICS_VARIABLE",
    "Doctor",
    "KeyReport",
    "GatewayOptions",
    "RunningGateway",
    "RunningMpcNode",
    "Program",
    "RestartPolicy",
    "ProcessGroup",
    "access_token",
    "back_up",
    "backend",
    "chain_file",
    "check_ports",
    "open_doctor",
    "free_port",
    "link_file",
    "log_folder_of",
    "node_program",
    "open_gateway",
    "open_mpc_node",
    "prepare",
    "restore",
    "replace_lost_seal_key",
    "rotate_link",
    "rotate_token_key",
    "process_group",
    "serve",
    "store_file",
]

# A library's: whoever wants its records configures handlers.
logging.getLogger("mpcsim").addHandler(logging.NullHandler())
