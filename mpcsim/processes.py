"""Process pool with one fresh process a core."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from mpcsim.resource_limits import usable_cores


class Processes(ProcessPoolExecutor):
    """Pool of fresh processes, one a core; on an error it ends without finishing the rest.

    Args:
        tasks: number of tasks to come: no more processes than that are started.
    """

    def __init__(self, tasks: int) -> None:
        super().__init__(min(usable_cores(), tasks), multiprocessing.get_context("spawn"))

    def __exit__(self, *exception: object) -> bool | None:
        self.shutdown(wait=True, cancel_futures=True)
        return None
