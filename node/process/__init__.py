"""Process of a REST node: settings, log lines, timing, workers, Argon2id's queue."""

from node.process.settings import Settings

__all__ = [
    "Settings",
]
