"""Open sessions, and the messages carried in them."""

from mpcsim.service.gateway.sessions.sessions import LEASE_S, MAKING_QUEUE, MAKING_WAIT_S

__all__ = [
    "LEASE_S",
    "MAKING_QUEUE",
    "MAKING_WAIT_S",
]
