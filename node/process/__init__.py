"""What a REST node's process needs: settings, log lines, timing, workers, Argon2id's queue."""

from node.process.settings import Settings

__all__ = [
    "Settings",
]
