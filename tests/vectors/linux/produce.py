"""Make the data in this folder: build ``tests/helpers/kernel_tcp.c`` and run it for every case.

The cases are those of the files that are there.

    python -m tests.vectors.linux.produce  # half an hour

It needs Linux, a C compiler, /dev/net/tun and the right to make network namespaces; the right to a
real-time priority, too, where other things run.
"""

import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.helpers.repo import ROOT
from tests.vectors import quantiles

HERE: Final = Path(__file__).parent
SOURCE: Final = ROOT / "tests" / "helpers" / "kernel_tcp.c"
ALGORITHMS: Final = ("reno", "cubic")


class Way(NamedTuple):
    """A path and what is exchanged over it."""

    one_way: float
    rate: float
    up: int
    down: int


MAIN: Final = Way(50, 50, 10_000, 50_000)
LOSS_FREE_RUNS: Final = 100
MOST_LATE_MS: Final = 2.0
"""Samples with a packet that the wire delivered later than this are left out."""


class Measured(NamedTuple):
    """What a run of the program gave."""

    times: NDArray[np.float64]
    """The first exchange and the second, in milliseconds: a row for each sample on time."""
    late: int
    """Samples left out."""
    summary: dict[str, str]
    """The program's last line."""


def build(folder: Path) -> Path:
    """Compile the program. It sleeps until 0.01 ms before a packet is due, not 0.15 ms: it leaves
    the processor to others, and is late by 0.05 ms for that."""
    text = SOURCE.read_text(encoding="utf-8")
    before = "SPIN = 150000;"
    assert before in text
    source = folder / SOURCE.name
    source.write_text(text.replace(before, "SPIN = 10000;"), encoding="utf-8")
    program = folder / "kernel_tcp"
    subprocess.run(["cc", "-O2", "-Wall", "-o", program, source], check=True)
    return program


def run(
    program: Path,
    algorithm: str,
    path: Way,
    loss: float,
    samples: int,
    *,
    clean: bool = False,
    seed: int = 1,
    most_late_ms: float = MOST_LATE_MS,
) -> Measured:
    """Measure; with a real-time priority if that is allowed.

    At once there are as many connections as make some 30,000 packets a second.
    """
    packets = 4 + 3 * (path.up + path.down) / 1448
    lasts = 0.01 + 0.008 * path.one_way + 2 * (path.up + path.down) * 8 / (path.rate * 1e6)
    slots = max(4, min(200, samples, int(30_000 * lasts / packets)))
    arguments = [algorithm, *path, loss, int(clean), samples, slots, seed]
    with subprocess.Popen(
        [program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        with suppress(OSError):
            os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(1))
        try:
            out, errors = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise RuntimeError(errors)
    *lines, last = out.splitlines()
    rows = np.array([line.split() for line in lines], dtype=np.float64).reshape(-1, 3)
    on_time = rows[:, 2] <= most_late_ms
    summary = dict(pair.split("=") for pair in last.removeprefix("# ").split())
    return Measured(rows[on_time, :2], int((~on_time).sum()), summary)


def way_of(case: Mapping[str, str]) -> Way:
    """The path of a row of a table, or of the parameters of a file."""
    return Way(*(int(case[name]) for name in ("one_way_ms", "mbit_per_s", "up", "down")))


def write_loss_free(program: Path) -> None:
    path = HERE / "loss_free.csv"
    lines = [
        f"# {system()}, medians of {LOSS_FREE_RUNS}",
        "algorithm,one_way_ms,mbit_per_s,up,down,first_ms,second_ms",
    ]
    for row in list(quantiles.rows(path)):
        algorithm, way = row["algorithm"], way_of(row)
        first, second = np.median(run(program, algorithm, way, 0, LOSS_FREE_RUNS).times, axis=0)
        lines.append(",".join((algorithm, *map(str, way), f"{first:.3f}", f"{second:.3f}")))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_lossy(program: Path, path: Path) -> None:
    """Measure the case of a file again. Seeds differ, so that the cases are independent."""
    known = quantiles.load(path).parameters
    algorithm, way, loss = known["algorithm"], way_of(known), float(known["loss"])
    samples, seed = int(known["samples"]) // 2, int(known["seed"])
    dirty = run(program, algorithm, way, loss, samples, seed=seed)
    clean = run(program, algorithm, way, loss, samples, seed=seed + 1, clean=True)
    assert dirty.summary["drops"] == clean.summary["drops"] == "0"
    given_up = sum(int(each.summary["given_up"]) for each in (dirty, clean))
    counted = {"late": dirty.late + clean.late, "given_up": given_up}
    parameters = {**known, "source": system(), **counted}
    quantiles.save_measured(path, parameters, dirty.times, clean.times)


def system() -> str:
    return f"Linux {platform.release().partition('-')[0]}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        write_loss_free(program)
        for path in sorted(HERE.glob("lossy_*.csv.gz")):
            write_lossy(program, path)


if __name__ == "__main__":
    main()
