"""Messages between REST node, gateway and MPC nodes, and how each authenticates the others.

Imports ``vault`` and ``errors`` of the service. ``wire`` and ``activation_messages`` have the
bodies, ``statements`` what MPC nodes sign, ``tokens`` the users' access tokens, ``grants`` the
gateway's orders to an MPC node, ``session_keys`` the proof of who opened a session,
``signed_messages`` and ``suspension_notices`` what is passed on signed or sealed.
"""

from mpcsim.service.rpc import pinned_identities
from mpcsim.service.rpc.addresses import addresses
from mpcsim.service.rpc.wire import HELLO_PATH, Hello

__all__ = [
    "HELLO_PATH",
    "Hello",
    "addresses",
    "pinned_identities",
]
