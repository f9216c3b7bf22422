"""Gateway between REST nodes and both MPC nodes: routes and coordinates, and is never believed.

Imports ``rpc``, ``web``, ``storage`` and ``metrics``; never ``mpc_node``. In reading order:

- ``registry``: users and registered keys (SQLite); ``links``: connections to both MPC nodes
- ``sessions``: life cycle of sessions, places and queues, routing of messages
- ``activation``: two-phase commit of a new key; suspensions
- ``store_consistency``, ``diagnosis``: do the three stores belong together, and what helps
- ``introduction``: both MPC nodes introduced to each other; ``limits``: rate limits of users
- ``gateway``: the verbs; ``api``: HTTP in front of them
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.service.gateway.defaults import (
        LEASE_S,
        LINK_TIMEOUT_S,
        MAKING_QUEUE,
        MAKING_WAIT_S,
        TOKEN_LIFETIME_S,
    )
    from mpcsim.service.gateway.diagnosis import Finding, Problem, ProblemKind
    from mpcsim.service.gateway.limits import Rate
    from mpcsim.service.gateway.registry import Credentials, Registry
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "LEASE_S",
    "LINK_TIMEOUT_S",
    "MAKING_QUEUE",
    "MAKING_WAIT_S",
    "TOKEN_LIFETIME_S",
    "Credentials",
    "Finding",
    "Rate",
    "Registry",
    "Problem",
    "ProblemKind",
]
