"""MPC node of the wallet service: holds a share of every key, and never believes the gateway.

Imports ``rpc``, ``web``, ``storage`` and ``metrics``; never ``gateway``. ``node`` (start here),
``verbs/`` (what it may be asked), ``sessions/``, ``shares``, ``presignatures``, ``store/`` and
``events`` (on disk), ``agreement/`` and ``peer`` (with the other MPC node), ``boot``, ``identity``,
``context``; around it ``app`` (HTTP) and ``metrics``.
"""

from mpcsim.service.mpc_node.events import Event, read_log, verify_logs
from mpcsim.service.mpc_node.identity import Identity

__all__ = [
    "Event",
    "Identity",
    "read_log",
    "verify_logs",
]
