"""SQLite files: transactions, and deleting so that nothing is left."""

from mpcsim.service.storage.database import REGISTRY

__all__ = [
    "REGISTRY",
]
