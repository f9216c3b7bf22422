"""An MPC node is swept by time: a share that nobody has voted for does not stay on the disk because
the node could not be told that the session is off, and is not asked for anything any more. Nor
does what was deleted stay in the store's files, when somebody was reading them, or the disk full.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mpcsim.ids import ROLES
from mpcsim.mpc_node.node import MpcNode
from mpcsim.rpc.database import StoreFailed

LOG = logging.getLogger(__name__)

SWEEP_S: Final = 30.0
"""Between two sweeps."""


@contextmanager
def sweeping(node: MpcNode, every_s: float = SWEEP_S) -> Iterator[None]:
    """Sweep a node in a thread of its own, until the block is left."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(every_s):
            try:
                node.sweep()
            except StoreFailed as error:
                LOG.error(
                    "%s: what was to go stays in the store for now: %s",
                    ROLES[node.me],
                    error,
                )

    thread = threading.Thread(target=work, name=f"sweeping {ROLES[node.me]}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
