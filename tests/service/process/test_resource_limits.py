"""Limits of control groups (Linux, cgroup v2), from files as the kernel writes them."""

import os

import pytest

from mpcsim import resource_limits


@pytest.mark.parametrize(
    ("own", "files", "cores", "memory"),
    [
        ("", {}, 8, None),
        ("0::/\n", {"cpu.max": "max 100000\n", "memory.max": "max\n"}, 8, None),
        ("0::/\n", {"cpu.max": "250000 100000\n", "memory.max": "1073741824\n"}, 2, 1 << 30),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1, None),
        ("0::/\n", {"cpu.max": "1600000 100000\n"}, 8, None),
        # The narrowest of those around it counts, and an older hierarchy's lines do not.
        (
            "4:memory:/old\n0::/pod/one\n",
            {
                "pod/one/cpu.max": "400000 100000\n",
                "pod/cpu.max": "300000 100000\n",
                "pod/one/memory.max": "max\n",
                "pod/memory.max": "2048\n",
                "memory.max": "4096\n",
            },
            *(3, 2048),
        ),
        # Seen from a container whose group is outside of what is mounted there.
        ("0::/../../host\n", {"cpu.max": "100000 100000\n"}, 1, None),
    ],
)
def test_the_narrowest_limit_counts(own, files, cores, memory, tmp_path, monkeypatch):
    groups = tmp_path / "cgroup"
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    if own:
        (tmp_path / "own").write_text(own)
    monkeypatch.setattr(resource_limits, "CGROUPS", groups)
    monkeypatch.setattr(resource_limits, "OWN_GROUP", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert (resource_limits.usable_cores(), resource_limits.memory_limit()) == (cores, memory)
