"""Sessions at the gateway: ``sessions`` (life cycle, the protocol page), ``key_queue`` (places),
``routing`` (messages), ``streaming`` and ``body_validation`` (messages while they arrive)."""

from mpcsim.service.gateway.sessions.sessions import LEASE_S, MAKING_QUEUE, MAKING_WAIT_S

__all__ = [
    "LEASE_S",
    "MAKING_QUEUE",
    "MAKING_WAIT_S",
]
