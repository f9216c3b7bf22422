"""A store's files, and the room that they have (``mpcsim.service.storage.database``)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mpcsim.service.storage.database import Database


class StoreSizes(Collector):
    """A collector. Of a store in memory there is nothing to tell."""

    def __init__(self, store: str, database: Database) -> None:
        """
        Args:
            store: whose it is: ``gateway``, ``operator`` or ``institution``.
        """
        self._store = store
        self._database = database

    def collect(self) -> Iterator[Metric]:
        sizes = GaugeMetricFamily(
            "mpcsim_store_bytes",
            "Size of a store's files: the database, and its log of writes.",
            labels=("store", "file"),
        )
        free = GaugeMetricFamily(
            "mpcsim_store_free_bytes", "Room on the disk of a store.", labels=("store",)
        )
        for name, size in self._database.sizes().items():
            sizes.add_metric((self._store, name), size)
        if (room := self._database.free_bytes()) is not None:
            free.add_metric((self._store,), room)
        yield sizes
        yield free


def write_problem(database: Database, owed: int) -> str | None:
    """A check of readiness; for a thread, since it may wait for the disk.

    Args:
        owed: suspensions that could not be written so far.
    """
    if (failed := database.write_failure()) is not None:
        return failed.public_text
    return f"not stored yet: {owed} suspensions of keys" if owed else None
