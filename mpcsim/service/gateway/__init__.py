"""Gateway between REST nodes and both MPC nodes: routes and coordinates, and is never believed.

Imports ``rpc``, ``web``, ``storage`` and ``metrics``; never ``mpc_node``. In reading order:

- ``registry``: users and registered keys (SQLite); ``links``: connections to both MPC nodes
- ``sessions``: life cycle of sessions, places and queues, routing of messages
- ``activation``: two-phase commit of a new key; suspensions
- ``store_consistency``, ``diagnosis``: do the three stores belong together, and what helps
- ``introduction``: both MPC nodes introduced to each other; ``limits``: rate limits of users
- ``gateway``: the verbs; ``api``: HTTP in front of them
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
