"""Where the services and the command run."""

from __future__ import annotations

import os
import sys

from mpcsim.errors import UsageError


def require_posix(platform: str = sys.platform) -> None:
    """To be asked before anything is imported that Windows lacks (fcntl, uvloop).

    Raises:
        UsageError: the platform is Windows.
    """
    if platform == "win32":
        raise UsageError("this runs on Linux and macOS; on Windows, use it inside WSL")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
