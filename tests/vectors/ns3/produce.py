"""Make the data in this folder: build ``exchanges.cc`` and run it for every case.

The cases are those of the files that are there; whoever wants another one adds its row, or a file
with its parameters.

    python -m tests.vectors.ns3.produce  # about twenty minutes

It needs a C++ compiler and ns-3 3.37 (Debian 12: ``apt-get install g++ libns3-dev``).
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.vectors import quantiles

HERE: Final = Path(__file__).parent
MODULES: Final = ("internet", "point-to-point", "traffic-control", "network", "core")

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


def cases(path: Path) -> list[Case]:
    """The cases of a table that is there: it is measured again."""
    found = quantiles.rows(path)
    numbers = ("one_way_ms", "mbit_per_s", "up", "down")
    return [Case(row["algorithm"], *(int(row[name]) for name in numbers)) for row in found]


def write_table(program: Path, path: Path, *more: str) -> None:
    lines = [f"# ns-3 {version()}", "algorithm,one_way_ms,mbit_per_s,up,down,first_ms,second_ms"]
    for case in cases(path):
        ((first, second),) = run(program, case, *more)
        lines.append(",".join((*map(str, case), f"{first:.6f}", f"{second:.6f}")))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_lossy(program: Path, path: Path) -> None:
    """Measure the case of a file again, with the same runs: those of no two cases are the same."""
    known = quantiles.load(path)
    algorithm, loss = known.parameters["algorithm"], known.parameters["loss"]
    numbers = ("one_way_ms", "mbit_per_s", "up", "down", "first_run")
    *of, first_run = (int(known.parameters[name]) for name in numbers)
    case, lossy = Case(algorithm, *of), (f"--loss={loss}", f"--runs={RUNS}")
    dirty = run(program, case, *lossy, f"--first={first_run}")
    clean = run(program, case, *lossy, f"--first={first_run + RUNS}", "--clean")
    lost = [np.isnan(times).any(axis=1) for times in (dirty, clean)]
    counted = {"runs": 2 * RUNS, "given_up": int(sum(each.sum() for each in lost))}
    parameters = {**known.parameters, "source": f"ns-3 {version()}", **counted}
    quantiles.save_measured(path, parameters, dirty[~lost[0]], clean[~lost[1]])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        write_table(program, HERE / "loss_free.csv")
        write_table(program, HERE / "loss_free_relay.csv", "--relay")
        for path in sorted(HERE.glob("lossy_*.csv.gz")):
            write_lossy(program, path)


if __name__ == "__main__":
    main()
