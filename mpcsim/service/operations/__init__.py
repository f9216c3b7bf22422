"""The gateway with both MPC nodes behind it, composed and operated.

``open_gateway()`` builds the whole: in memory, or in a folder with one SQLite file for each of the
three services. ``RunningGateway.app`` is an ASGI application: served over HTTP (``mpcsim serve``),
or called in this process without a socket, in notebooks and tests.
"""

import logging

from mpcsim.errors import needs_extra

with needs_extra("gateway", "the wallet service"):
    from mpcsim.service.operations.backups import PARTS, back_up, restore
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
    from mpcsim.service.operations.doctor import Doctor, KeyReport, doctor
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

__all__ = [
    "DATA_FOLDER",
    "GRACE_S",
    "HOST",
    "METRICS_VARIABLE",
    "PARTS",
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
    "doctor",
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
