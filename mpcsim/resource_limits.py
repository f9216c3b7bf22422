"""Cores and memory that this process may use: its affinity, and its control groups' limits.

Linux with cgroup v2, as container engines and Kubernetes set them; elsewhere, cores alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
OWN_GROUP: Final = Path("/proc/self/cgroup")
_V2: Final = "0::/"


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min([cores, *(quota // period for quota, period in _limits("cpu.max"))]))


def memory_limit() -> int | None:
    """Return the bytes of memory that this process may use, if they are limited."""
    return min((limit for (limit,) in _limits("memory.max")), default=None)


def _limits(name: str) -> Iterator[list[int]]:
    """Yield the limits in a file of this process's control group and of those around it."""
    lines = _read(OWN_GROUP).splitlines()
    own = next((line.removeprefix(_V2) for line in lines if line.startswith(_V2)), "")
    group = CGROUPS / own
    for each in (group, *group.parents):
        values = _read(each / name).split()
        if values and values[0] != "max" and each.is_relative_to(CGROUPS):
            yield [*map(int, values)]


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError:
        return ""
