"""Work in processes, one for each core."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor


class Processes(ProcessPoolExecutor):
    """Fresh processes, one for each core; on an error they end without finishing the rest.

    Args:
        tasks: how many there will be: more processes than that are not started.
    """

    def __init__(self, tasks: int) -> None:
        super().__init__(min(_core_count(), tasks), multiprocessing.get_context("spawn"))

    def __exit__(self, *exception: object) -> bool | None:
        self.shutdown(wait=True, cancel_futures=True)
        return None


def _core_count() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
