"""Lifetime of a process: it ends when told to, and never later than the process that started it.

``python -m mpcsim.service.process MODULE ARGUMENT...`` runs a module that ends with its standard
input, and ``python -m mpcsim.service.process --program NICE BYTES COMMAND...`` any other program.
The starter holds the other end of that pipe; the operating system closes it when the holder is
gone, however it went.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

STOPPING_S: Final = 20.0
"""Seconds that a process that is to stop may take to finish its work."""


@contextmanager
def interrupt_once() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT, SIGTERM or SIGHUP in the block, and ignore
    further ones.

    A terminal and ``make`` send theirs twice, and stopping has to come to its end.

    A signal that is ignored stays so, as ``nohup`` wants it. For the main thread.
    """
    told = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if not told:
            told = True
            raise KeyboardInterrupt

    def hang_up(number: int, frame: FrameType | None) -> None:
        # To whoever handles SIGTERM by then: uvicorn does not know this one.
        signal.raise_signal(signal.SIGTERM)

    handlers = {signal.SIGINT: stop, signal.SIGTERM: stop, signal.SIGHUP: hang_up}
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def terminate_after(wait: Callable[[], object], stopping_s: float = STOPPING_S) -> None:
    """Terminate this process when ``wait`` returns: SIGTERM, and SIGKILL if it is still there
    ``stopping_s`` later."""

    def watch() -> None:
        wait()
        main = threading.main_thread().ident
        assert main is not None  # it has started long ago
        # To that thread, so that whatever it waits in is interrupted.
        signal.pthread_kill(main, signal.SIGTERM)
        time.sleep(stopping_s)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="lifetime", daemon=True).start()


def command_ending_with_parent(module: str, *arguments: str) -> tuple[str, ...]:
    """Command that runs a Python module until its standard input, a pipe, is closed."""
    return (sys.executable, "-m", "mpcsim.service.process", module, *arguments)


PROGRAM: Final = "--program"
"""Option before the arguments of a program that is no Python module."""


def program_ending_with_parent(
    command: Sequence[str], nice: int, memory_bytes: int
) -> tuple[str, ...]:
    """Return a command that runs another until its standard input, a pipe, is closed.

    Args:
        nice: how far the program stands back for others.
        memory_bytes: most memory that it may hold (Linux; elsewhere it is not bounded).
    """
    module = (sys.executable, "-m", "mpcsim.service.process")
    return (*module, PROGRAM, str(nice), str(memory_bytes), *command)
