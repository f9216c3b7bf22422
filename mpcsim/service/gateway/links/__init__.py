"""Links of the gateway to the MPC nodes."""

from mpcsim.service.gateway.links.links import LINK_TIMEOUT_S

__all__ = [
    "LINK_TIMEOUT_S",
]
