"""SQLite files: transactions, and deleting so that nothing is left."""

from mpcsim.service.storage.roles import PARTS, REGISTRY

__all__ = [
    "PARTS",
    "REGISTRY",
]
