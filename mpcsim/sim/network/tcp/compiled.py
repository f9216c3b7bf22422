"""Compiled functions: what numba makes of plain Python, with types.

What is compiled is kept on disk under a name made of the sources of this package, because numba
itself looks only at the file of the function that is called, not at those that it calls.
"""

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
# Nothing is allocated, so no references are counted, which would double the time of short messages.
_jit: Final = partial(numba.njit, nogil=True, error_model="numpy", _nrt=False)


def compiled(function: F) -> F:
    """A function that compiled functions call."""
    return cast(F, _jit()(function))


def entry(function: F) -> F:
    """A function that Python calls: it is compiled once for all processes."""
    before = SETTINGS.CACHE_DIR
    SETTINGS.CACHE_DIR = str(_folder())
    try:
        return cast(F, _jit(cache=True)(function))
    finally:
        SETTINGS.CACHE_DIR = before


@cache
def _folder() -> Path:
    """Where compiled code is kept: beside the sources, or where only this user can write.

    It is loaded as it is found, so it must not lie in a folder that all users share.
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
