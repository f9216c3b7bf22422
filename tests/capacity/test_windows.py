"""Answers about a run from its windows: units, bounds, and which windows count.

The windows are made up, so that every answer follows by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpcsim import Network
from mpcsim.capacity import Deployment, Part, ProcessPause, Steady, Workload, cheapest, sensitivity
from mpcsim.capacity.demand import Demand
from mpcsim.capacity.experiments import search
from mpcsim.capacity.experiments.points import summary_row
from mpcsim.capacity.experiments.search import SearchResult
from mpcsim.capacity.model.arrivals import Arrivals, Bursts, Profile, Times, Users
from mpcsim.capacity.results.collecting import CLASSES, Counts, Gauges
from mpcsim.capacity.results.parts import PARTS
from mpcsim.capacity.results.run import Run
from mpcsim.errors import UsageError
from mpcsim.sim.statistics.quantile_sketch import QuantileSketch
from tests.helpers.made_up_costs import made_up

WINDOW_S = 2.0
TEN = 10
"""Windows of a made-up run: the first is its first tenth."""
CALM = (1_000, 0, 0, 0)
"""Attempts of a window: done, refused, timed out, broken."""
STAR = Deployment(Network.star(5.0, 2.0, 20.0))


def run_of_windows(
    attempts: Sequence[Sequence[int]] = (CALM,) * TEN,
    *,
    by_limit: Sequence[int] = (0,) * TEN,
    in_flight: Sequence[float] = (4.0,) * TEN,
    used: Sequence[float] = (0.5,) * TEN,
    threads_used: Sequence[float] = (0.5,) * TEN,
    took_ms: Sequence[float] = (10.0,) * TEN,
    under_way_ms: Sequence[float] = (),
    deployment: Deployment = STAR,
    arrivals: Arrivals = Steady(500.0),  # noqa: B008
    memory_mb: dict[str, tuple[float, float]] | None = None,
) -> Run:
    """A run of windows of two seconds each, with a value of everything for each window.

    Args:
        by_limit: so many of the refused calls were refused by the limit.
        took_ms: every call that is done takes so long.
        under_way_ms: of the last window, at the end.
    """
    windows = []
    for counts, ms in zip(attempts, took_ms, strict=True):
        still = QuantileSketch.of(under_way_ms if len(windows) == len(attempts) - 1 else ())
        sketch = QuantileSketch()
        sketch.add(np.full(counts[0], ms))
        done = np.array([counts[0]])
        parts = np.zeros((1, len(PARTS)))
        ended, outcomes = np.array([sum(counts)]), np.array([counts])
        windows.append(Counts(outcomes, ended, done, parts, outcomes, [sketch], [still]))

    def column(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array(values, dtype=float)[:, None]

    nothing = np.zeros((len(windows), 0))
    refusals_per_ms = column(by_limit) / (WINDOW_S * 1000)
    idle, threads = column((0,) * len(windows)), 8 * column(threads_used)
    gauges = Gauges(
        *(column(used), idle, idle, threads, idle, nothing, nothing),
        *(refusals_per_ms, column(in_flight)),
    )
    collector: Any = SimpleNamespace(
        edges_ms=np.arange(len(windows) + 1) * WINDOW_S * 1000,
        operations=("sign secp256k1",),
        windows=windows,
        gauges=lambda: gauges,
        made_of=np.zeros((1, CLASSES, 1 + len(PARTS))),
    )
    layout: Any = SimpleNamespace(
        resources=[SimpleNamespace(name="cores of gateway 1", cores=2)],
        processes=["gateway 1.1"],
        service=SimpleNamespace(processes={"threads": np.array([8])}),
    )
    costs = replace(made_up(), memory_mb=memory_mb or {})
    demand, kept = Demand({"event loop of gateway 1.1": 0.005}), SimpleNamespace()
    workload = Workload(arrivals)
    return Run(deployment, workload, 1, collector, layout, demand, costs, kept)  # type: ignore[arg-type]


def value_in_window(window: int, value: Any, otherwise: Any = 0) -> list[Any]:
    """The value in one window, and another in all others."""
    return [value if k == window else otherwise for k in range(TEN)]


def saturations(run: Run) -> list[tuple[str, float]]:
    return [(each.what, each.at_s) for each in run.saturations]


MAKING = "too many keys are made at a time"
IN_USE = "calls are refused because their keys are in use"


@pytest.mark.parametrize(
    ("refused", "by_limit", "said"),
    [(40, 40, [MAKING]), (40, 0, [IN_USE]), (80, 40, [MAKING, IN_USE]), (0, 0, [])],
)
def test_refusals_are_of_limits_or_of_keys(refused: int, by_limit: int, said: list[str]) -> None:
    """As many as a limit has refused in a window, whatever its length, are not of keys."""
    attempts = value_in_window(3, (960, refused, 0, 0), CALM)
    run = run_of_windows(attempts, by_limit=value_in_window(3, by_limit))
    assert saturations(run) == [(what, 6.0) for what in said]
    assert [each.offered_per_s for each in run.saturations] == [(960 + refused) / 2] * len(said)


@pytest.mark.parametrize("column", [1, 2, 3])
def test_bad_ends_count_from_a_thousandth_on_that_is_no_chance(column: int) -> None:
    """Of 1 000 attempts one is expected; more than six are chance in 1 of 12,000 windows."""
    for calls, bad, said in ((1_000, 6, 0), (1_000, 7, 1), (10, 1, 0), (11, 2, 1)):
        counts = [calls - bad, 0, 0, 0]
        counts[column] = bad
        run = run_of_windows(value_in_window(5, counts, (calls, 0, 0, 0)))
        assert len(saturations(run)) == said


def test_what_is_full_or_too_small_breaks() -> None:
    full = "the cores of gateway 1 is full"
    assert saturations(run_of_windows(used=value_in_window(4, 1.0, 0.5))) == [], (
        "a window is full by chance"
    )
    assert saturations(run_of_windows(used=(0.5, 0.94, *(0.96,) * 8))) == [(full, 4.0)]
    assert saturations(run_of_windows(used=(0.5, *(0.95,) * 9))) == []
    threads = run_of_windows(threads_used=(0.5, *(0.96,) * 9))  # of eight, on average
    assert saturations(threads) == [("the threads of gateway 1.1 is full", 2.0)]
    # Two processes of 100 MB, and 10 MB for each call of a replica.
    gateway = Part(workers=2, replicas=2, memory_mb=250.0)
    small = replace(STAR, gateway=gateway)
    memory = {"gateway": (100.0, 10.0)}
    for calls, said in ((10.0, []), (10.1, [("gateway needs more than its 250 MB", 12.0)])):
        run = run_of_windows(
            in_flight=value_in_window(6, calls, 4.0), deployment=small, memory_mb=memory
        )
        assert saturations(run) == said
        assert run.memory_mb["gateway"][6] == pytest.approx(200 + 10 * calls / 2)
    # Both replicas, and a node of 100 MB beside them.
    for limit, said in ((539.0, [("machine one needs more than its 539 MB", 0.0)]), (540.0, [])):
        one = replace(gateway, machine="one", memory_mb=limit)
        shared = replace(STAR, gateway=one, node=Part(machine="one"))
        run = run_of_windows(deployment=shared, memory_mb=memory | {"node": (100.0, 0.0)})
        assert saturations(run) == said


@pytest.mark.parametrize(
    ("in_flight", "recovered_s"),
    [
        ([4, 40, 40, 4, 4, 4, 4, 4, 4, 4], 0.0),  # before it was over
        ([4, 4, 40, 40, 40, 40, 4, 4, 4, 4], 4.0),
        ([4, 4, 40, 40, 40, 4, 4, 40, 4, 4], 8.0),  # it must stay so
        ([4, 4, 40, 40, 7, 7, 7, 7, 7, 7], 0.0),  # as few as before, and three
        ([4, 4, 40, 40, 8, 4, 4, 4, 4, 4], 2.0),
        ([40, 40, 40, 40, 60, 61, 60, 4, 4, 4], 4.0),  # half as many more
        ([4, 4, 40, 40, 40, 40, 40, 40, 40, 40], math.inf),
    ],
)
def test_recovery_is_timed_from_the_end_of_its_cause(
    in_flight: list[float], recovered_s: float
) -> None:
    assert run_of_windows(in_flight=in_flight).recovered_s(8.0) == recovered_s
    crowd = [99, *in_flight[1:]]  # in the first window people come who stay
    assert run_of_windows(in_flight=crowd, arrivals=Users(9)).recovered_s(8.0) == recovered_s


@pytest.mark.parametrize(
    ("per_s", "first", "grows_by_s", "answered"),
    [
        (2_500.0, 0.0, 70.1, "2.43e+03"),
        (2_500.0, 0.0, 62.0, ""),  # perhaps by chance: 3.99 standard deviations
        (4_000.0, 0.0, 79.9, ""),  # not by a fiftieth of what comes
        (2_500.0, 2_000.0, 50.1, ""),  # not by half in the second half
        (0.5, 0.0, 0.1, ""),  # perhaps by chance
    ],
)
def test_overload_is_a_queue_that_grows(
    per_s: float, first: float, grows_by_s: float, answered: str
) -> None:
    queue = [first + grows_by_s * WINDOW_S * k for k in range(TEN)]
    said = run_of_windows(in_flight=queue, arrivals=Steady(per_s)).overload
    assert bool(said) == bool(answered)
    assert said.startswith(f"{per_s:g} calls a second come and {answered} are" * bool(answered))
    assert run_of_windows(in_flight=queue, arrivals=Users(9)).overload == ""


@pytest.mark.parametrize(
    ("arrivals", "said"),
    [
        (Profile((250.0,)), "250 calls a second come"),  # 200 are possible
        (Profile((250.0, 100.0)), ""),
        (Bursts(150.0, 300.0, 10.0, 20.0), "225 calls a second come"),
        (Bursts(150.0, 300.0, 10.0), ""),
        (Steady(42.0), ""),  # a pause: nothing about the rate
        (Times((0.0,)), "500 calls a second come"),  # as the windows have them
    ],
)
def test_the_demand_says_whether_the_rate_is_too_much(arrivals: Arrivals, said: str) -> None:
    queue = [100.0 * WINDOW_S * k for k in range(TEN)]
    found = run_of_windows(in_flight=queue, arrivals=arrivals).overload
    assert found.startswith(said) if said else not found


def test_given_times_have_the_rate_at_which_they_come() -> None:
    """Calls under way count, too: 50 a second end, 200 are possible, and more come."""
    run = run_of_windows(((100, 0, 0, 0),) * TEN, under_way_ms=[9.0] * 4_000, arrivals=Times((0,)))
    assert run.relaxation_time_s() == math.inf


PAUSE = (ProcessPause(12.0, "institution", 8.0),)


@pytest.mark.parametrize("events", [(), PAUSE])
def test_a_queue_that_grows_in_a_pause_is_no_overload(events: tuple[ProcessPause, ...]) -> None:
    """At three quarters of what is possible."""
    queue = [4.0] * 6 + [300.0, 600.0, 900.0, 700.0]
    run = run_of_windows(in_flight=queue, arrivals=Steady(150.0))
    assert bool(replace(run, workload=replace(run.workload, events=events)).overload) != bool(
        events
    )


@pytest.mark.parametrize(
    ("during", "said"),
    [
        ([90.0, 180.0, 270.0, 90.0], ["calls wait (270 under way, 4 before)"]),
        ([90.0, 4.0, 270.0, 90.0], []),
    ],
)
def test_calls_that_wait_while_something_happens(during: list[float], said: list[str]) -> None:
    run = run_of_windows(in_flight=[4.0, 3.0, 4.0, 5.0, 4.0, 4.0, *during], arrivals=Steady(42.0))
    run = replace(run, workload=replace(run.workload, events=PAUSE))
    assert [each.what for each in run.saturations] == said


# ---------------------------------------------------------------------- which windows count

SLOW_START = {
    "attempts": value_in_window(0, (100, 300, 200, 400), (990, 10, 0, 0)),
    "took_ms": value_in_window(0, 9_000.0, 10.0),
}


def test_the_first_tenth_counts_only_where_it_is_asked_for() -> None:
    run = run_of_windows(**SLOW_START)
    assert run.windows() == range(1, TEN)
    assert run.percentile(99).ms == pytest.approx(10, rel=0.002)
    assert run.percentile(99, between_s=(0, 20)).ms == pytest.approx(9_000, rel=0.002)
    assert SearchResult(STAR, 1.0, run, None).p99.ms == run.percentile(99).ms  # type: ignore[arg-type]
    assert run.outcomes() == {"done": 9_010, "refused": 390, "timed out": 200, "broken": 400}
    assert run.throughput_per_s() == 990 / WINDOW_S
    assert run.ended_per_s() == 1_000 / WINDOW_S
    assert run.goodput_per_s(11.0) == 990 / WINDOW_S
    assert run.throughput_per_s((0, 4)) == (100 + 990) / 4
    assert run.ended_per_s((0, 4)) == 2_000 / 4
    late = run_of_windows(**SLOW_START, under_way_ms=[1.0] * 36)
    assert late.offered_per_s() == 1_000 / WINDOW_S + 2, "what came, whatever became of it"
    row = summary_row(run)
    assert row["p99_ms"] == run.percentile(99).ms
    assert (row["offered_per_s"], row["answered_per_s"]) == (500, 495)
    assert (row["refused"], row["timed_out"], row["broken"]) == (0.01, 0, 0)


@pytest.mark.parametrize(
    ("between_s", "inside"),
    [
        ((2, 6), range(1, 3)),
        ((1.9, 6.1), range(1, 3)),
        ((2.1, 6), range(2, 3)),
        ((0, 20), range(TEN)),
    ],
)
def test_windows_count_as_a_whole(between_s: tuple[float, float], inside: range) -> None:
    assert run_of_windows().windows(between_s) == inside
    with pytest.raises(UsageError, match=r"no window of the run lies between 2\.1 s and 3\.9 s"):
        run_of_windows().windows((2.1, 3.9))


def test_what_takes_many_runs_leaves_out_their_first_tenths() -> None:
    """In the beginning nobody is answered for a while."""
    slow = Workload(Steady(40.0), events=(ProcessPause(0.0, "gateway", 0.3),))
    known = {"costs": made_up(), "minutes": 0.1, "seed": 7}
    run = STAR.run(slow, seconds=6, costs=made_up())
    assert run.percentile(99, between_s=(0, 6)).ms > 200
    found = cheapest(STAR, slow, {"node_replicas": [1]}, p99_ms=150, **known)  # type: ignore[arg-type]
    assert found.p99.ms < 150
    assert found.run.seed == 7
    moved = sensitivity(STAR, slow, **known)  # type: ignore[arg-type]
    assert moved[["less_ms", "more_ms"]].max().max() < 150


# ---------------------------------------------------------------------- what is printed is taken


def test_the_cheapest_takes_the_most_that_it_has_named() -> None:
    """But for the time it takes then."""

    def why_not(per_s: float) -> str:
        with pytest.raises(UsageError) as error:
            work = Workload(Steady(per_s))
            cheapest(STAR, work, {"node_cores": [2]}, p99_ms=1, minutes=0.005, costs=made_up())
        return str(error.value).partition(" below 1 ms: ")[2]

    refused = why_not(1_000.0)
    assert refused.startswith("event loop of ")
    most = float(refused.partition(": ")[2].removesuffix(" calls a second at most"))
    assert "at most" not in why_not(most)


# ---------------------------------------------------------------------- the cheapest


@pytest.mark.parametrize(
    ("price", "tried"),
    [
        (search.total_cores, [(1, 1), (1, 2), (2, 1), (2, 2)]),  # more of one thing may do
        (lambda deployment: -search.total_cores(deployment), [(2, 2)]),  # less of all does not
    ],
)
def test_what_has_no_more_of_anything_than_what_failed_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
    price: Callable[[Deployment], float],
    tried: list[tuple[int, int]],
) -> None:
    found = []

    def too_little(deployment: Deployment, *_: object) -> Demand:
        found.append((deployment.node.cores, deployment.gateway.cores))
        return Demand({"everything": 1.0})

    monkeypatch.setattr(search, "demand_of", too_little)
    choices = {"node_cores": [2, 1], "gateway_cores": [1, 2]}
    with pytest.raises(UsageError, match="none of 4 configurations"):
        cheapest(STAR, Workload(Steady(2.0)), choices, p99_ms=1, price=price)
    assert found == tried


def test_what_no_test_decides_straddles() -> None:
    """Too few calls, however long it runs; what is found then says that cheaper ones may do."""
    few = Workload(Steady(0.5))
    with pytest.raises(UsageError, match=r"p99 .* on neither side of 150 ms in 1\.28 minutes"):
        cheapest(STAR, few, {"node_cores": [2]}, p99_ms=150, minutes=0.02, costs=made_up())
    rows = [
        {"node_cores": n, "price": n, "why_not": why}
        for n, why in ((1, "p99: on neither side of"), (2, ""))
    ]
    text = str(SearchResult(STAR, 2.0, run_of_windows(), pd.DataFrame(rows)))
    assert text.endswith("; 1 cheaper ones may do, too: too close to tell")


@pytest.mark.parametrize(
    ("slow", "failing", "said"),
    [
        ("unknown", "below", "p99 on neither side of 150 ms"),
        ("below", "unknown", "the share of failed calls on neither side of 0.001"),
    ],
)
def test_what_is_undecided_is_named(slow: str, failing: str, said: str) -> None:
    run = SimpleNamespace(
        overload="", length_s=60.0, bounds_s=tuple, percentile=lambda *_, **__: "?",
        compare_failures=lambda *_: failing, compare_percentile=lambda *_: slow,
    )  # fmt: skip
    deployment: Any = SimpleNamespace(run=lambda *_, **__: run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "demand_of", lambda *_: Demand({"cores": 1e-9}))
        found, _ = search._why_insufficient(deployment, Workload(Steady(1.0)), 150, 1, 0, None)
    assert said in found


def test_a_deployment_that_refuses_calls_does_not_do() -> None:
    work = Workload(Steady(60.0), users=20)
    with pytest.raises(UsageError, match="calls are refused, break off or take too long"):
        cheapest(STAR, work, {"node_cores": [2]}, p99_ms=1e6, minutes=0.1, costs=made_up())
