"""Process pool with one fresh process a core."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor


class Processes(ProcessPoolExecutor):
    """Pool of fresh processes, one a core; on an error it ends without finishing the rest.

    Args:
        tasks: number of tasks to come: no more processes than that are started.
    """

    def __init__(self, tasks: int) -> None:
        super().__init__(min(_core_count(), tasks), multiprocessing.get_context("spawn"))

    def __exit__(self, *exception: object) -> bool | None:
        self.shutdown(wait=True, cancel_futures=True)
        return None


def _core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
