"""Make the data in this folder: build ``exchanges.cc`` and run it for every case.

    python -m tests.vectors.ns3.produce            # all: about twenty minutes
    python -m tests.vectors.ns3.produce loss_free  # or only some of it

It needs a C++ compiler and ns-3 3.37 (Debian 12: ``apt-get install g++ libns3-dev``).
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.vectors import quantiles

HERE: Final = Path(__file__).parent
MODULES: Final = ("internet", "point-to-point", "traffic-control", "network", "core")

ALGORITHMS: Final = ("reno", "cubic")
DELAYS: Final = (1, 5, 10, 30, 50, 115)
RATES: Final = (5, 50, 1000)
SIZES: Final = (
    (200, 200),
    (2_000, 2_000),
    (10_000, 50_000),
    (30_000, 30_000),
    (150_000, 10_000),
    (20_000, 100_000),
    (100_000, 20_000),
)
RELAYED: Final = (
    (1, 1000, 2_000, 2_000),
    (5, 5, 10_000, 50_000),
    (5, 50, 30_000, 30_000),
    (10, 50, 10_000, 50_000),
    (10, 1000, 150_000, 10_000),
    (10, 5, 200, 200),
    (30, 5, 30_000, 30_000),
    (30, 50, 2_000, 2_000),
    (30, 1000, 20_000, 100_000),
    (50, 50, 10_000, 50_000),
    (50, 5, 20_000, 100_000),
    (50, 1000, 100_000, 20_000),
    (115, 50, 2_000, 2_000),
    (115, 5, 150_000, 10_000),
    (115, 1000, 10_000, 50_000),
)
LOSSY: Final = (
    (50, 10_000, 50_000, 0.001, ALGORITHMS),
    (50, 10_000, 50_000, 0.01, ALGORITHMS),
    (50, 10_000, 50_000, 0.02, ALGORITHMS),
    (10, 30_000, 30_000, 0.01, ALGORITHMS),
    (20, 150_000, 10_000, 0.01, ("reno",)),  # many segments: it takes longest
)
LOSSY_RATE: Final = 50
RUNS: Final = 20_000


class Case(NamedTuple):
    """What one run of the program is given."""

    algorithm: str
    delay: float
    rate: float
    up: int
    down: int


def build(folder: Path) -> Path:
    """Compile the program."""
    program = folder / "exchanges"
    libraries = [f"-lns3-{module}" for module in MODULES]
    source = HERE / "exchanges.cc"
    subprocess.run(
        ["g++", "-std=c++17", "-O2", "-Wall", "-o", program, source, *libraries], check=True
    )
    return program


def version() -> str:
    asked = subprocess.run(
        ["pkg-config", "--modversion", "ns3-core"], check=True, capture_output=True, text=True
    )
    return asked.stdout.strip()


def run(program: Path, case: Case, *more: str) -> NDArray[np.float64]:
    """Times of the first exchanges and of the second ones: one row for each run."""
    arguments = [f"--{name}={value}" for name, value in case._asdict().items()]
    done = subprocess.run([program, *arguments, *more], check=True, capture_output=True, text=True)
    return np.array([line.split() for line in done.stdout.splitlines()], dtype=np.float64)


def loss_free_cases() -> Iterator[Case]:
    """Every path with every other size."""
    for algorithm in ALGORITHMS:
        paths = [(delay, rate) for delay in DELAYS for rate in RATES]
        for place, (delay, rate) in enumerate(paths):
            for up, down in SIZES[place % 2 :: 2]:
                yield Case(algorithm, delay, rate, up, down)


def relayed_cases() -> Iterator[Case]:
    for algorithm in ALGORITHMS:
        for parameters in RELAYED:
            yield Case(algorithm, *parameters)


def write_table(program: Path, path: Path, cases: Iterator[Case], *more: str) -> None:
    lines = [f"# ns-3 {version()}", "algorithm,one_way_ms,mbit_per_s,up,down,first_ms,second_ms"]
    for case in cases:
        ((first, second),) = run(program, case, *more)
        lines.append(",".join((*map(str, case), f"{first:.6f}", f"{second:.6f}")))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_lossy(program: Path, number: int, case: Case, loss: float) -> None:
    """One file. Run numbers do not overlap, so that the cases are independent."""
    first_run = 1 + number * 10 * RUNS
    lossy = (f"--loss={loss}", f"--runs={RUNS}")
    dirty = run(program, case, *lossy, f"--first={first_run}")
    clean = run(program, case, *lossy, f"--first={first_run + RUNS}", "--clean")
    given_up = int(np.isnan(dirty).any(axis=1).sum() + np.isnan(clean).any(axis=1).sum())
    dirty = dirty[~np.isnan(dirty).any(axis=1)]
    clean = clean[~np.isnan(clean).any(axis=1)]
    parameters = {
        "source": f"ns-3 {version()}",
        "algorithm": case.algorithm,
        "one_way_ms": case.delay,
        "mbit_per_s": case.rate,
        "up": case.up,
        "down": case.down,
        "loss": loss,
        "first_run": first_run,
        "runs": 2 * RUNS,
        "given_up": given_up,
    }
    columns = {
        "first": quantiles.summary(dirty[:, 0]),
        "second": quantiles.summary(dirty[:, 1]),
        "clean": quantiles.summary(clean[:, 1]),
    }
    name = f"lossy_{case.algorithm}_{case.delay}ms_{case.up}_{case.down}_{loss}"
    quantiles.save(HERE / f"{name}.csv.gz", parameters, columns)
    means = ", ".join(f"{key} {column.mean:.1f} ms" for key, column in columns.items())
    print(f"{name}: {means}; given up {given_up}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", help="loss_free, lossy; all by default")
    what = parser.parse_args(arguments).what or ["loss_free", "lossy"]
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        if "loss_free" in what:
            write_table(program, HERE / "loss_free.csv", loss_free_cases())
            write_table(program, HERE / "loss_free_relay.csv", relayed_cases(), "--relay")
        if "lossy" in what:
            number = 0
            for delay, up, down, loss, algorithms in LOSSY:
                for algorithm in algorithms:
                    write_lossy(program, number, Case(algorithm, delay, LOSSY_RATE, up, down), loss)
                    number += 1


if __name__ == "__main__":
    main()
