"""MPC node of the wallet service: holds a share of every key, and never believes the gateway.

Imports ``rpc``, ``web``, ``storage`` and ``metrics``; never ``gateway``. ``node`` (start here),
``verbs/`` (what it may be asked), ``sessions/``, ``shares``, ``presignatures``, ``store/`` and
``events`` (on disk), ``agreement/`` and ``peer`` (with the other MPC node), ``boot``, ``identity``,
``context``; around it ``app`` (HTTP) and ``metrics``.
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.service.mpc_node.events import Event, read_log, verify_logs
    from mpcsim.service.mpc_node.identity import Identity
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Event",
    "Identity",
    "read_log",
    "verify_logs",
]
