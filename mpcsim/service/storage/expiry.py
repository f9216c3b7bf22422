"""A service is swept by time: what nobody asks for any more does not stay in its store. Nor does
what was deleted stay in the store's files, when somebody was reading them, or the disk full.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from mpcsim.service.storage.database import StoreFailed

LOG = logging.getLogger(__name__)

SWEEP_S: Final = 30.0
"""Between two sweeps."""


@contextmanager
def periodic_expiry(
    role: str, sweep: Callable[[], None], every_s: float = SWEEP_S
) -> Iterator[None]:
    """Sweep a service in a thread of its own, until the block is left."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(every_s):
            try:
                sweep()
            except StoreFailed as error:
                LOG.error("%s: what was to go stays in the store for now: %s", role, error)

    thread = threading.Thread(target=work, name=f"sweeping {role}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
