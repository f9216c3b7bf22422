"""Platforms that the services and the command run on."""

from __future__ import annotations

import sys

from mpcsim.errors import UsageError


def require_posix(platform: str = sys.platform) -> None:
    """Check the platform, before anything is imported that Windows lacks (fcntl, uvloop).

    Raises:
        UsageError: the platform is Windows.
    """
    if platform == "win32":
        raise UsageError("this runs on Linux and macOS; on Windows, use it inside WSL")
