"""When a process ends: as soon as it is told to, and never later than whoever started it.

``python -m mpcsim.lifetime MODULE ARGUMENT...`` runs a module that ends with its standard input.
Whoever starts it holds the other end of that pipe; the operating system closes it when the holder
is gone, however it went.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

STOPPING_S: Final = 20.0
"""How long a process that is to stop may take to finish what it is doing."""


@contextmanager
def stopped_once() -> Iterator[None]:
    """In the block, the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt; others change
    nothing: a terminal and ``make`` send theirs twice, and stopping has to come to its end.

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


def end_after(wait: Callable[[], object], stopping_s: float = STOPPING_S) -> None:
    """From now on: when ``wait`` returns, this process gets a SIGTERM, and a SIGKILL if it is still
    there ``stopping_s`` later."""

    def watch() -> None:
        wait()
        main = threading.main_thread().ident
        assert main is not None  # it has started long ago
        # To that thread, so that whatever it waits in is interrupted.
        signal.pthread_kill(main, signal.SIGTERM)
        time.sleep(stopping_s)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="lifetime", daemon=True).start()


def ending_with_its_starter(module: str, *arguments: str) -> tuple[str, ...]:
    """Command that runs a Python module until its standard input, a pipe, is closed."""
    return (sys.executable, "-m", "mpcsim.lifetime", module, *arguments)


def _until_input_ends() -> None:
    while os.read(0, 1024):
        pass


if __name__ == "__main__":
    end_after(_until_input_ends)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
