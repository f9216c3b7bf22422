"""The gateway between REST nodes and both MPC nodes: it routes, and is believed by nobody.

Imports ``rpc``, ``web``, ``storage`` and ``metrics``; never ``mpc_node``. In reading order:

- ``registry``: which keys there are (SQLite); ``links``: the connections to both MPC nodes
- ``sessions``: open sessions, whose turn it is for a key, the messages carried
- ``activation``: two-phase commit of a new key, votes, suspensions
- ``fitting``, ``diagnosis``: whether the three stores belong together, and what to do if not
- ``introduction``: both MPC nodes introduced to each other; ``limits``: how often a user may ask
- ``gateway``: all of it, by verb; ``api``: HTTP in front of it
"""

from mpcsim.service.gateway.diagnosis import Finding, Problem, ProblemKind
from mpcsim.service.gateway.limits import Rate
from mpcsim.service.gateway.registry import Credentials, Registry

__all__ = [
    "Credentials",
    "Finding",
    "Rate",
    "Registry",
    "Problem",
    "ProblemKind",
]
