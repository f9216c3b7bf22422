"""``mpcsim capacity``: runs and further answers on the command line."""

import csv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from matplotlib.figure import Figure

from mpcsim import __version__
from mpcsim.capacity import Costs, Overloaded, Plan, experiments, running
from mpcsim.cli import main
from mpcsim.cli.command import Options
from mpcsim.cli.measure import capacity
from mpcsim.cli.progress import ProgressBar
from mpcsim.errors import UsageError
from mpcsim.sim.experiments import PointFailed
from tests.helpers.made_up_costs import made_up
from tests.helpers.reviewed import check_reviewed

CONFIG = """
seconds = 3
deadline_ms = 1_000
[star]
institution = 40.0
[gateway]
workers = 2
[workload.arrivals]
kind = "steady"
per_s = 20
"""


@pytest.fixture(autouse=True)
def costs(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Made up; collects of which file they were to be."""
    asked: list[str | None] = []

    def load(path: str | None) -> Costs:
        asked.append(path)
        return made_up()

    monkeypatch.setattr(Costs, "load", load)
    monkeypatch.setattr(Costs, "measured", lambda: load(None))
    return asked


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "wallet.toml"
    path.write_text(CONFIG)
    return str(path)


def test_a_run_with_its_tables_and_pictures(config: str, tmp_path: Path, costs, capsys) -> None:
    folder = tmp_path / "out"
    names = ("utilisation.png", "deployment.svg")
    options = [f"--figure={folder / name}" for name in names] + [f"--table={folder / 'run.csv'}"]
    assert main(["capacity", config, *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert " for 0:00:03, seed" in out
    assert "latency, ms " in out
    assert "No shortage is found (tests err in 1% of runs); the busiest is the " in out
    assert "extrapolated: gateway: 2 processes" in out
    assert "answered within 1000 ms: " in out
    for name in (*names, "run.csv"):
        assert f"written: {folder / name}\n" in out
        assert (folder / name).stat().st_size > 1000
    with (folder / "run.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["done"]) for row in rows) > 40
    assert costs == [None]
    assert main(["capacity", config]) == 0
    assert capsys.readouterr().out == "".join(
        line for line in out.splitlines(keepends=True) if not line.startswith("written")
    )


FURTHER = """
[curve]
rates_per_s = [20, 60]
[sensitivity]
percent = 90
[cheapest]
p99_ms = 250
choices = { node_workers = [1] }
minutes = 7
"""
ASKED = [
    "--seed=2 --costs=own.toml --exactness=real --deadline=1",
    *("--hours=2", "--minutes=0.1", "--hours=1 --seconds=2"),
    *("--curve --sensitivity", "--p99=300", "--cheapest=node_replicas=1,2"),
    "--cheapest=node_replicas=1,2 --cheapest=operator_speed=0.5,1.5 --p99=300",
    "--cheapest=node_replicas=one",
]


def asked(config: str, text: str, capsys) -> Iterator[str]:
    """What options make of a plan, entry by entry."""
    Path(config).write_text(text)
    plan = Plan.load(config)

    def run(options: Options) -> int:
        found.append(capacity._plan(options))
        return 0

    for options in ASKED:
        yield options
        found: list[Plan] = []
        if main(["capacity", config, *options.split()], runs={"capacity": run}) == 2:
            yield f"  {capsys.readouterr().err.strip()}"
        for each in found:
            for name, value in vars(each).items():
                if value != getattr(plan, name):
                    yield f"  {name}: {value!r}"


def test_options_are_in_place_of_the_file(config: str, capsys) -> None:
    lines = [*asked(config, CONFIG, capsys), "", *asked(config, CONFIG + FURTHER, capsys)]
    check_reviewed(lines, Path(__file__).with_name("plans.txt"))


def test_more_than_is_possible_has_no_percentiles_and_status_1(config: str, capsys) -> None:
    text = CONFIG.replace("per_s = 20", "per_s = 900")
    Path(config).write_text(text + "[sensitivity]\nminutes = 0.1\n")
    assert main(["capacity", config]) == 2
    out, err = capsys.readouterr()
    assert "900 calls a second come and " in out
    assert "without bound" in out
    assert "p99" not in out
    assert err.startswith("mpcsim capacity: error: 900 calls a second come and ")  # it has no p99
    assert err.count("\n") == 1
    Path(config).write_text(text)
    assert main(["capacity", config]) == 1


def test_what_is_asked_is_shown_without_a_run(config: str, capsys) -> None:
    assert main(["capacity", config, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Deployment over star\n")
    assert " calls a second at most: then the event loop of " in out
    assert main(["capacity", "--example"]) == 0
    assert Plan.loads(capsys.readouterr().out).minutes == 20


def test_further_answers_and_their_files(config: str, tmp_path: Path, capsys, monkeypatch) -> None:
    """The command asks the experiments for what the plan says, and hands on what they find."""
    text = CONFIG.replace("seconds = 3", "seconds = 1")
    Path(config).write_text(f"costs = 'own.toml'\n{text}{FURTHER}")
    asked: list[object] = []
    frame = pd.DataFrame({"of_what": ["latency"], "p_ms": [1234.5]})

    class Curve:
        table = frame.assign(seed=1 << 40)  # each run of a sweep has its own

        def __str__(self) -> str:
            return "a curve"

        def plot(self, axes=None):
            return Figure()

    def load_curve(*_, executor, progress, **settings):
        asked.append((type(executor), progress, settings))
        return Curve()

    def sensitivity(*_, progress, **settings):
        asked.append(settings)
        progress(1.0)
        return frame

    def cheapest(_, __, choices, *, progress, **settings):
        asked.append((choices, settings))
        progress(1.0)
        return SimpleNamespace(tried=frame)

    for fake in (load_curve, sensitivity, cheapest):
        monkeypatch.setattr(experiments, fake.__name__, fake)
    paths = [tmp_path / f"{name}.csv" for name in ("curve", "sensitivity", "cheapest")]
    options = ["--workers=1", "--cheapest=node_replicas=1,2", f"--figure={tmp_path / 'curve.svg'}"]
    assert main(["capacity", config, *options, *(f"--table={path}" for path in paths)]) == 0
    out = capsys.readouterr().out
    always = {"seed": 1, "costs": str(tmp_path / "own.toml")}
    assert asked == [
        (ThreadPoolExecutor, False, {"rates_per_s": (20, 60), "minutes": 10, **always}),
        {"percent": 90, "change": 0.1, "minutes": 10, **always},
        ({"node_replicas": (1, 2)}, {"p99_ms": 250, "minutes": 7, **always}),
    ]
    for line in ("Load by load:\na curve", "What moves the p90,", "latency  1,234", "below 250 ms"):
        assert line in out
    curve, *others = paths
    assert curve.read_text().splitlines()[1].startswith(f"latency,1234.5,{1 << 40},{config},")
    for path in others:
        head, row = path.read_text().splitlines()
        assert head == "of_what,p_ms,config,seed,costs,version"
        assert row == f"latency,1234.5,{config},1,{always['costs']},{__version__}"
    assert (tmp_path / "curve.svg").exists()


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt, 130, ""),
        (Overloaded, 2, "mpcsim capacity: error: why it is\n"),
        (PointFailed, 2, "mpcsim capacity: error: why it is\n"),
    ],
)
def test_a_run_that_cannot_be_ends_with_its_reason(
    error: type[BaseException], status: int, said: str, config: str, capsys, monkeypatch
) -> None:
    def failing(*_: object, progress, **__: object) -> None:
        progress(0.5)
        raise error("why it is")

    monkeypatch.setattr(running, "run", failing)
    assert main(["capacity", config]) == status
    assert capsys.readouterr() == ("", said)


def test_the_bar_is_one_and_stands_where_the_run_is(monkeypatch) -> None:
    bars = []

    class Bar:
        n, text, is_closed = 0.0, "", False

        def __init__(self, **_: object) -> None:
            bars.append(self)

        def set_description_str(self, text: str, refresh: bool) -> None:
            self.text = text

        def update(self, by: float) -> None:
            self.n += by

        def close(self) -> None:
            self.is_closed = True

    monkeypatch.setattr("tqdm.tqdm", Bar)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressBar("run") as shown:
        for part, what in ((0.25, "run"), (0.5, "curve"), (1.0, "run")):
            shown.update(part, "" if what == "run" else what)
            assert [(bar.n, bar.text) for bar in bars] == [(part, what)]
    assert bars[0].is_closed


def test_files_that_cannot_be_read(config: str, tmp_path: Path, capsys, monkeypatch) -> None:
    def missing(path: str) -> Costs:
        Path(path).read_text()
        return made_up()

    def old(path: str) -> Costs:
        raise UsageError(f"{path}: costs of another version")

    for load, why in ((missing, "own.toml: No such file"), (old, "own.toml: costs of another")):
        monkeypatch.setattr(Costs, "load", load)
        assert main(["capacity", config, f"--costs={tmp_path / 'own.toml'}"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert why in err
        assert err.count("\n") == 1
    assert set(capacity.TABLES[1:]) <= set(Plan.__dataclass_fields__)
