"""Garbage collection policy of a server process."""

from __future__ import annotations

import gc
from typing import Final

NEW_OBJECTS: Final = 10_000
"""Number of new objects after which the collector runs.

A request leaves little that only the collector can find; with its default, 700, it takes 3 % of
what an Ed25519 signature costs.
"""


def reduce_collections() -> None:
    """To be called before the first request: what is there by now is never looked at again.

    Nothing is collected before: it takes 50 ms, and of what imports leave there is hardly any.
    """
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
