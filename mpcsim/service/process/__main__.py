"""Runs a module or a program that ends with its standard input (``process_lifetime``)."""

from __future__ import annotations

import os
import resource
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from mpcsim.service.process.process_lifetime import PROGRAM, terminate_after


def _wait_for_end_of_input() -> None:
    while os.read(0, 1024):
        pass


def _run(nice: int, memory_bytes: int, command: Sequence[str]) -> int:
    """Run a program until it ends or standard input does; return its exit status."""
    # Ctrl-C at a terminal reaches the whole group; the starter decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nice)
    with suppress(ValueError, OSError):  # not a limit of this system's
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: program.kill())

    def watch() -> None:
        _wait_for_end_of_input()
        program.kill()

    threading.Thread(target=watch, daemon=True).start()
    return program.wait()


if __name__ == "__main__":
    del sys.argv[0]
    if sys.argv[0] == PROGRAM:
        sys.exit(_run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
    terminate_after(_wait_for_end_of_input)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
