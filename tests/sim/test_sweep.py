"""Sweeps: tidy, the same in any order and on any executor, resumable, and clear about errors."""

import json
import math
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from mpcsim.errors import UsageError
from mpcsim.sim import Free, Network, Simulation, replay_point, signing_point, sweep
from mpcsim.sim.experiments import PointFailed
from mpcsim.sim.network.latency import Constant, Empirical, LogNormal
from mpcsim.sim.replay import record
from mpcsim.sim.replay.parallel_replay import BLOCK
from tests.helpers.points import dying_point, failing_point, product_point
from tests.helpers.reviewed import check_calls

GRID = {"a": [1, 2, 3], "b": [0.5, 2.0]}


class Inline(Executor):
    """Runs everything at once and here; counts."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


quiet = partial(sweep, progress=False)
here = partial(quiet, executor=Inline())

# ------------------------------------------------------------------ the table


def test_a_row_for_each_point_and_repeat() -> None:
    table = here(GRID, product_point, repeats=2)
    assert list(table.columns) == ["a", "b", "repeat", "seed", "product", "drawn"]
    assert list(zip(table["a"], table["b"], table["repeat"], strict=True)) == [
        (a, b, repeat) for a in (1, 2, 3) for b in (0.5, 2.0) for repeat in (0, 1)
    ]
    assert (table["product"] == table["a"] * table["b"]).all()
    assert (table["drawn"] == (table["seed"] % 1000) / 1000).all()
    assert table["seed"].is_unique
    assert table["seed"].between(0, 2**48 - 1).all()


def test_seeds_follow_from_the_point_and_the_sweep() -> None:
    """Not from the order of the values, the names, or what else is in the grid."""
    table = here(GRID, product_point, repeats=2)
    again = here({"b": [2.0, 0.5, 7.0], "a": [3, 1]}, product_point, repeats=3)
    keys = ["a", "b", "repeat"]
    both = table.merge(again, on=keys, suffixes=("", "_again"))
    assert len(both) == 2 * 2 * 2
    assert (both["seed"] == both["seed_again"]).all()
    other = here(GRID, product_point, repeats=2, seed=1)
    assert not set(other["seed"]) & set(table["seed"])


def test_the_same_seeds_as_ever() -> None:
    """A table of last year can be made again."""
    table = here({"a": [1], "b": [0.5]}, product_point, seed=7)
    assert table["seed"].tolist() == [232_113_593_749_307]


def test_labels_stand_for_other_values() -> None:
    networks = {"near": Network.star(1.0), "far": Network.star(100.0)}
    seen = []

    def run(*, network, seed):
        seen.append(network)
        return {"latency": network.links[0].latency.mean_ms}

    table = here({"network": networks}, run)
    assert table["network"].tolist() == ["near", "far"]
    assert table["latency"].tolist() == [1.0, 100.0]
    assert seen == list(networks.values())


# ------------------------------------------------------------------ executors


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    return here(GRID, product_point, repeats=2)


@pytest.mark.soak
def test_processes(expected: pd.DataFrame) -> None:
    assert_frame_equal(quiet(GRID, product_point, repeats=2), expected)


def test_threads(expected: pd.DataFrame) -> None:
    with ThreadPoolExecutor(4) as threads:
        assert_frame_equal(quiet(GRID, product_point, repeats=2, executor=threads), expected)
        assert threads.submit(int).result() == 0, "it must not be shut down"


@pytest.mark.soak
def test_dask(expected: pd.DataFrame) -> None:
    """Dask's own executor, unchanged, on a cluster of two processes on this machine."""
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        executor = client.get_executor()
        assert_frame_equal(quiet(GRID, product_point, repeats=2, executor=executor), expected)
        grid = {"network": ["seoul", "london"], "curve": ["ed25519", "secp256k1"]}
        table = quiet(grid, signing_point, executor=executor)
        assert_frame_equal(table, here(grid, signing_point))
        with pytest.raises(PointFailed, match=r"a=3, repeat 0, seed .*three is too many"):
            quiet({"a": [3]}, failing_point, executor=executor)
        # A distribution takes it, too, in as many blocks as there are processes.
        network = Network.star(5.0, 5.0, LogNormal(20.0, 0.2), loss=0.01)
        graph = record(Simulation(network, seed=1).generate("ed25519").trace)
        spread = graph.distribution(network, BLOCK + 100, approximate=True, executor=executor)
    with ThreadPoolExecutor(1) as thread:
        alone = graph.distribution(network, BLOCK + 100, approximate=True, executor=thread)
    assert spread.finished == alone.finished
    assert spread.approximation == alone.approximation


# ------------------------------------------------------------------ errors


def test_an_error_names_its_point() -> None:
    with pytest.raises(PointFailed, match=r"a=3, repeat 0, seed \d+: OddError: three is too") as e:
        here({"a": [1, 2, 3, 4]}, failing_point)
    assert "failing_point" in "".join(e.value.__notes__)


def test_no_more_processes_are_started_than_there_are_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def processes(tasks: int) -> Executor:
        asked.append(tasks)
        return ThreadPoolExecutor(1)

    monkeypatch.setattr("mpcsim.sim.experiments.sweep.Processes", processes)
    quiet({"a": [1, 2, 3], "b": [0.5]}, product_point)
    assert asked == [3]


def test_a_process_that_dies() -> None:
    with pytest.raises(PointFailed, match=r"a=1, repeat 0.*BrokenProcessPool"):
        quiet({"a": [1]}, dying_point)


class SaysWhenTheLastIsOver(ThreadPoolExecutor):
    """One thread. `over`: the future of the point with a = 999 is done or cancelled."""

    def __init__(self) -> None:
        super().__init__(1)
        self.over = threading.Event()

    def submit(self, fn, /, *args, **kwargs):
        future = super().submit(fn, *args, **kwargs)
        if args[1]["a"] == 999:
            future.add_done_callback(lambda _: self.over.set())
        return future


def test_after_an_error_nothing_more_begins() -> None:
    begun = []

    def run(*, a, seed):
        begun.append(a)
        if a > 0:
            threads.over.wait(30)  # or the one thread may be through before the error is read
        raise ValueError

    with SaysWhenTheLastIsOver() as threads, pytest.raises(PointFailed):
        quiet({"a": list(range(1000))}, run, executor=threads)
    assert begun in ([0], [0, 1])


def local(*, a: int, seed: int) -> dict[str, float]:
    return {}


def test_bad_sweeps_and_bad_results_are_named() -> None:
    names = {"here": here, "local": local, "Constant": Constant, "math": math}
    check_calls(Path(__file__).with_name("wrong_sweeps.txt"), **names)


def test_what_processes_cannot_import_is_refused() -> None:
    with pytest.raises(UsageError, match="define it at the top level of a module"):
        quiet({"a": [1]}, lambda *, a, seed: {})


def test_what_only_a_notebook_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    def shown(*, a, seed):
        return {}

    shown.__module__, shown.__qualname__ = "__main__", "shown"
    monkeypatch.setattr(__main__, "shown", shown, raising=False)
    monkeypatch.delattr(__main__, "__file__", raising=False)
    with pytest.raises(UsageError, match=r"cannot import .* from here"):
        quiet({"a": [1]}, shown)
    assert len(here({"a": [1]}, shown)) == 1


# ------------------------------------------------------------------ going on where it stopped


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "sweep.jsonl"


def odd_result(*, a: int, seed: int) -> Any:
    return a if a == 3 else {"twice": 2 * a}


@pytest.mark.parametrize(
    ("point", "error"), [(failing_point, PointFailed), (odd_result, UsageError)]
)
def test_an_interrupted_sweep_goes_on(journal: Path, point: Any, error: type[Exception]) -> None:
    grid = {"a": [1, 2, 3, 4]}
    with pytest.raises(error):
        here(grid, point, resume=journal)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert sorted(line["point"]["a"] for line in lines[1:]) == [1, 2, 4]

    rest = Inline()
    with pytest.raises(error, match="a=3"):
        quiet(grid, point, executor=rest, resume=journal)
    assert rest.count == 1


@pytest.mark.parametrize(
    ("cut", "added", "lost"), [(1, b"", 1), (10, b"", 1), (60, b"", 1), (0, b"\0\0\0\n", 0)]
)
def test_a_damaged_last_line_is_tolerated(
    journal: Path, expected, cut: int, added: bytes, lost: int
) -> None:
    here(GRID, product_point, repeats=2, resume=journal)
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) - cut] + added)
    rest = Inline()
    table = quiet(GRID, product_point, repeats=2, executor=rest, resume=journal)
    assert rest.count == lost
    assert_frame_equal(table, expected)
    assert journal.read_bytes() == whole


def test_a_damaged_line_in_the_middle_is_not(journal: Path) -> None:
    here(GRID, product_point, repeats=2, resume=journal)
    before, line, after = (
        journal.read_text().splitlines()[:3],
        *journal.read_text().splitlines()[3:5],
    )
    nothing = json.dumps(json.loads(line) | {"results": []})
    for damaged in (line[:-5], "{}", "[]", nothing):
        journal.write_text("\n".join([*before, damaged, after, ""]))
        with pytest.raises(UsageError, match="line 4: not a finished point"):
            here(GRID, product_point, repeats=2, resume=journal)


@pytest.mark.parametrize("kept", [0, 5, 30])
def test_interrupted_while_beginning(journal: Path, expected, kept: int) -> None:
    here(GRID, product_point, resume=journal)
    journal.write_bytes(journal.read_bytes()[:kept])
    assert_frame_equal(here(GRID, product_point, repeats=2, resume=journal), expected)


def test_more_repeats_go_on(journal: Path, expected) -> None:
    here(GRID, product_point, repeats=1, resume=journal)
    more = Inline()
    table = quiet(GRID, product_point, repeats=2, executor=more, resume=journal)
    assert more.count == 6
    assert_frame_equal(table, expected)
    fewer = here(GRID, product_point, repeats=1, resume=journal)
    assert_frame_equal(fewer, expected[expected["repeat"] == 0].reset_index(drop=True))


def test_another_sweep_s_file_is_refused(journal: Path) -> None:
    def fixed(b: float):
        return partial(product_point, b=b)

    here({"a": [1, 2]}, fixed(2.0), resume=journal)
    before = journal.read_bytes()
    for grid, run, seed, text in (
        ({"a": [1, 3]}, fixed(2.0), 0, "its grid is"),
        ({"a": [2, 1]}, fixed(2.0), 0, "its grid is"),
        ({"a": [1, 2]}, fixed(2.0), 1, "its seed is 0, not 1"),
        ({"a": [1, 2]}, failing_point, 0, "its run is .*product_point.*failing_point"),
    ):
        with pytest.raises(UsageError, match=f"belongs to another sweep: {text}"):
            here(grid, run, seed=seed, resume=journal)
    assert journal.read_bytes() == before


def test_rows_of_other_contents_are_computed_anew(journal: Path, tmp_path: Path) -> None:
    file = tmp_path / "costs"
    file.write_text("1")

    def held(*, a, seed, network, path):
        return {"ms": network.links[0].latency.mean_ms, "text": Path(path).read_text()}

    def values(ms: float, **more: float):
        network = Network.star(Empirical((ms, *[45.0] * 9)))
        return here({"a": {"one": network}}, renamed, resume=journal, **more)["ms"][0]

    def renamed(*, a, seed):
        return held(a=0, seed=seed, network=a, path=file)

    def fixed(ms: float):
        run = partial(held, network=Network.star(Empirical((ms, *[45.0] * 9))), path=str(file))
        return here({"a": [1]}, run, resume=tmp_path / "fixed")

    assert values(45.0) == 45.0
    assert values(45.0) == 45.0
    with pytest.warns(UserWarning, match="1 point computed anew"):
        assert values(200.0) == 60.5
    assert fixed(45.0)["ms"][0] == 45.0
    with pytest.warns(UserWarning, match="1 point computed anew"):
        assert fixed(200.0)["ms"][0] == 60.5
    file.write_text("2")
    with pytest.warns(UserWarning, match="1 point computed anew"):
        assert fixed(200.0)["text"][0] == "2"
    assert fixed(200.0)["text"][0] == "2"


FACTOR = 1.0


def scaled(value: float) -> float:
    return FACTOR * value


@dataclass(frozen=True)
class Doubled(Constant):
    def _sample(self, generator, n):
        return np.full(n, scaled(2.0))


def test_rows_of_other_code_are_computed_anew(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a function, or a class of an argument, uses by name is part of what a row is of."""

    def run(*, a, seed):
        return {"ms": float(a.sample(np.random.default_rng(seed), 1)[0])}

    def result() -> float:
        return here({"a": {"own": Doubled(7.0)}}, run, resume=journal)["ms"][0]

    assert result() == result() == 2.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    with pytest.warns(UserWarning, match="1 point computed anew"):
        assert result() == 6.0
    monkeypatch.setattr(Doubled, "_sample", lambda self, generator, n: np.full(n, 5.0))
    with pytest.warns(UserWarning, match="1 point computed anew"):
        assert result() == result() == 5.0


def test_what_cannot_be_told_apart_is_not_kept(journal: Path) -> None:
    run = partial(product_point, b=(each for each in ()))
    with pytest.raises(UsageError, match="generator cannot be told apart"):
        here({"a": [1]}, run, resume=journal)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "no line", '{"format": "other"}\n', "[]\n"])
def test_another_file_is_not_overwritten(journal: Path, text: str) -> None:
    journal.write_text(text)
    with pytest.raises(UsageError, match="is not a file of a sweep"):
        here(GRID, product_point, resume=journal)
    assert journal.read_text() == text


def test_results_survive_the_file_exactly(journal: Path) -> None:
    def run(*, a, seed):
        return {"x": 0.1 + a, "n": math.nan, "i": math.inf, "t": "é\n\r", "b": True, "o": None}

    table = here({"a": [0.2, 1e-300]}, run, resume=journal)
    assert_frame_equal(here({"a": [0.2, 1e-300]}, run, resume=journal), table)


# ------------------------------------------------------------------ signing


def test_bad_points_are_named() -> None:
    with pytest.raises(UsageError, match="go with a region"):
        signing_point(seed=1, network=Network.star(), institution="seoul")
    with pytest.raises(PointFailed, match=r"network='soul'.*did you mean seoul"):
        here({"network": ["seoul", "soul"]}, signing_point)
    with pytest.raises(PointFailed, match=r"signers=\(1,\), .*1 of the 2 holders needed"):
        here({"signers": [(1,)]}, signing_point)


# ---------------------------------------------------------------------- replays


def test_a_recorded_graph_over_a_grid():
    sim = Simulation(secrets_seed="sweep", compute=Free())
    sim.generate("ed25519")
    graph = record(sim.sign().trace)
    grid = {"network": ["seoul", "tokyo"], "cold": [False, True]}
    point = partial(replay_point, graph=graph, institution="frankfurt", samples=2_000)
    table = here(grid, point)
    assert list(table["scope"]) == ["protocol"] * 4
    assert (table["p50_ms"] < table["p99_ms"]).all()
    assert (table["samples"] == 2_000).all()
    warm, cold = table["p50_ms"][0], table["p50_ms"][1]
    assert cold > warm
    row = table.iloc[3]
    network = Network.preset("tokyo", institution="frankfurt").with_connection(cold=True)
    assert row["mean_ms"] == graph.replay(network, 2_000, seed=int(row["seed"])).mean_ms


def test_a_progress_bar(capsys: pytest.CaptureFixture[str], journal: Path) -> None:
    sweep(GRID, product_point, executor=Inline(), resume=journal)
    assert "6/6" in capsys.readouterr().err
    sweep(GRID, product_point, executor=Inline(), resume=journal)
    assert "6/6" in capsys.readouterr().err
    here(GRID, product_point)
    assert capsys.readouterr().err == ""
