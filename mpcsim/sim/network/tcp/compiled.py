"""Compilation of functions by numba, with a cache on disk.

The cache's name is a digest of all sources of compiled code, because numba checks only the file of
the function that is called, not those of the functions that it calls."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

HERE: Final = Path(__file__).parent
SETTINGS: Final[Any] = numba.config
# Nothing is allocated: reference counts are off, which would double the time of short messages.
_jit: Final = partial(numba.njit, nogil=True, error_model="numpy", _nrt=False)


def compiled(function: F) -> F:
    """Compile a function that only compiled functions call."""
    return cast(F, _jit()(function))


def entry(function: F) -> F:
    """Compile a function that Python calls, once for all processes."""
    before = SETTINGS.CACHE_DIR
    SETTINGS.CACHE_DIR = str(_folder())
    try:
        return cast(F, _jit(cache=True)(function))
    finally:
        SETTINGS.CACHE_DIR = before


@cache
def _folder() -> Path:
    """Return the folder of compiled code: beside the sources, or in this user's cache.

    Code is loaded without a check, so the folder must not be writable by other users.
    """
    folders = (HERE, HERE.parents[1] / "replay", HERE.parents[2] / "capacity" / "kernel")
    sources = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for parent in (HERE / "__pycache__", own / "mpcsim"):
        folder = parent / f"compiled-{digest}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="mpcsim-compiled-"))
