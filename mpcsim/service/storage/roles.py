"""Roles of the services that have a store."""

from typing import Final

from mpcsim.ids import MPC_NODES, ROLES

REGISTRY: Final = "gateway"
"""The role of the gateway's store, beside those of the MPC nodes."""
PARTS: Final = (REGISTRY, *(ROLES[party] for party in MPC_NODES))
"""Roles whose store can be backed up; a backup is of one of them."""
