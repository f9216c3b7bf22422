"""One MPC node: its key shares, what it does with them, and its log of key events.

Imports ``rpc``, ``web``, ``storage`` and ``metrics``; never ``gateway``, which it does not believe.
``identity`` is its signing key, ``store`` what it keeps (SQLite), ``events`` its hash-chained log,
``voting`` which new key it agrees to, ``presignatures`` which ones are used, ``attestations`` and
``testimonies`` what it states about suspensions and to a node that was restored, ``peer`` the other
MPC node, ``node`` all of it by verb, ``app`` HTTP in front of it.
"""

from mpcsim.service.mpc_node.events import Event, read, verify
from mpcsim.service.mpc_node.identity import Identity

__all__ = [
    "Event",
    "Identity",
    "read",
    "verify",
]
