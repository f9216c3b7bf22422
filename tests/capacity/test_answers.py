"""What is said of a run: overload, what breaks first, recovery, percentiles, traces."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pandas as pd
import pytest

from mpcsim import Network
from mpcsim.capacity import (
    BulkReshare,
    Deployment,
    LoadCurve,
    Overloaded,
    ProcessPause,
    Run,
    Slowdown,
    Steady,
    Workload,
    cheapest,
    load_curve,
    sensitivity,
)
from mpcsim.capacity.model.costs import Costs
from mpcsim.errors import UsageError
from mpcsim.sim.trace import Trace
from tests.helpers.made_up_costs import made_up

RECOVER = "recover secp256k1"
STAR = Deployment(Network.star(5.0, 2.0, 20.0))
MOST = 200.0
"""Calls a second: five messages of a millisecond at the gateway."""


def both_operations() -> Costs:
    """Of signatures and recoveries."""
    return made_up("sign secp256k1", RECOVER)


def run(arrivals: object = None, *, seconds: float = 60.0, **changed: object) -> Run:
    workload = replace(Workload(arrivals or Steady(0.3 * MOST)), **changed)  # type: ignore[arg-type]
    return STAR.run(workload, seconds=seconds, costs=both_operations())


@pytest.fixture(scope="module")
def calm() -> Run:
    return run(events=(Slowdown(60.0),))


@pytest.fixture(scope="module")
def flood() -> Run:
    return run(Steady(1.5 * MOST), seconds=30)


def test_the_bottleneck_is_the_gateway(calm: Run) -> None:
    assert calm.demand.bottleneck == "event loop of gateway 1.1"
    assert calm.demand.most_per_s == pytest.approx(MOST, rel=0.05)


def test_a_calm_run_says_so(calm: Run) -> None:
    assert calm.overload == ""
    assert calm.saturations == []
    assert calm.first_to_break.startswith(
        "No shortage is found (tests err in 1% of runs); the busiest is the event loop of gat"
    )
    assert calm.littles_law.off_by < 0.02
    assert calm.throughput_per_s() == pytest.approx(0.3 * MOST, rel=0.1)


def test_no_percentile_of_a_queue_that_grows(flood: Run) -> None:
    with pytest.raises(Overloaded, match=r"300 calls a second come and .* without bound"):
        flood.percentile(99)
    assert flood.percentile(99, between_s=(15.0, 30.0)).ms > 2_500  # who asks for it gets it
    assert flood.littles_law.off_by > 0.1, "more come than are answered"
    assert flood.first_to_break.startswith(
        "What breaks first: the event loop of gateway 1.1 is full"
    )


def test_resources_over_time(flood: Run) -> None:
    table = flood.resources()
    gateway = table[table["place"] == "event loop of gateway 1.1"]
    assert (gateway["used"][3:] > 0.99).all()
    assert gateway["queue"].iloc[-1] > 500
    # All connections are in use: the others wait for one.
    waiting = table.groupby("begin_s")["queue"].sum()
    assert waiting.is_monotonic_increasing
    assert waiting.iloc[-1] > 2_000
    assert flood.table()["done"].sum() == flood.outcomes()["done"]
    assert not table["place"].str.startswith("disk").any(), "it serves all at once"


def test_a_line_that_is_busy_or_full_is_named() -> None:
    """50 kB and 36 headers a call, up a line of 1 Mbit/s."""
    thin = Network.star().with_link("client", "gateway", mbit_per_s=1.0, back_mbit_per_s=5.0)
    for per_s, said in ((1.5, "the busiest is the {}"), (5.0, "the {} is full, from 0:00:00")):
        found = Deployment(thin).run(Workload(Steady(per_s)), seconds=30, costs=both_operations())
        assert found.demand.most_per_s == pytest.approx(1e6 / 8 / (50_586 + 36 * 52), rel=0.01)
        assert said.format("link client → gateway") in found.first_to_break


def test_resharing_starves_signing_and_a_limit_helps() -> None:
    work = Workload(Steady(0.3 * MOST), users=400, events=(BulkReshare(20.0, at_once=40),))
    during = (20.0, 40.0)
    starved = STAR.run(work, seconds=40, costs=both_operations())
    limited = replace(STAR, making_limit=1).run(work, seconds=40, costs=both_operations())
    p99 = [each.percentile(99, "sign secp256k1", during).ms for each in (starved, limited)]
    assert p99[0] > 1.5 * p99[1]
    assert limited.made_of(operation=RECOVER)["for admission"] > 0


def test_a_slow_call_is_a_trace(calm: Run, tmp_path: object) -> None:
    slow = calm.slow_call()
    assert isinstance(slow, Trace)
    assert slow.finished_ms >= calm.slow_call(2).finished_ms
    assert slow.finished_ms == pytest.approx(calm.percentile(100, between_s=(0, 60)).ms, rel=0.003)
    works = [(work.party, work.end_ms) for work in slow.work]
    assert {end.party: end.at_ms for end in slow.endings} == dict(sorted(works, key=itemgetter(1)))
    assert sum(message.work is None for message in slow.messages) == 1
    path = slow.critical_path()
    assert path.total_ms == pytest.approx(slow.finished_ms)
    assert {work.name for work in slow.work} >= {"the call", "its answer"}
    slow.save_perfetto(f"{tmp_path}/slow.json")
    with pytest.raises(UsageError, match="slow call 0: the slowest"):
        calm.slow_call(0)
    kept = len(calm.slow_calls.rows)
    assert calm.slow_call(kept).finished_ms <= slow.finished_ms
    with pytest.raises(UsageError, match=f"slow call {kept + 1}: the slowest {kept} are kept"):
        calm.slow_call(kept + 1)


@pytest.mark.soak
def test_load_by_load() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as here:
        curve = load_curve(
            STAR,
            rates_per_s=[20, 100, 160, 190, 260],
            minutes=0.5,
            costs=both_operations(),
            executor=here,
        )
    assert list(curve.table["p99_ms"]) == sorted(curve.table["p99_ms"])
    assert [bool(each) for each in curve.table["overload"]] == [False] * 4 + [True]
    assert 100 <= curve.knee_per_s <= 190


def test_a_curve_shows_no_interval_where_there_is_none() -> None:
    row: dict[str, object] = {"p50_ms": 5.0, "p95_ms": 8.0, "p99_ms": 9.0}
    row |= {"p99_low_ms": 0.0, "p99_high_ms": math.inf}
    row |= {"answered_per_s": 20.0, "refused": 0.0, "timed_out": 0.0, "broken": 0.0}
    row |= {"per_s": 20.0, "busiest": "loop", "utilisation": 0.1, "overload": ""}
    found = row | {"per_s": 40.0, "p99_low_ms": 8.5, "p99_high_ms": 9.5}
    text = str(LoadCurve(pd.DataFrame([row, found, row | {"overload": "too much"}]), 50.0, "loop"))
    assert text.startswith("knee at 20 calls a second, most 50 (loop)\n  20 a second: too much\n")
    rows = [re.split("  +", line.strip())[3:5] for line in text.splitlines()[-2:]]
    assert rows == [["9.0", "-"], ["9.0", "8.5 to 9.5"]]


@pytest.mark.soak
def test_what_matters_most() -> None:
    table = sensitivity(STAR, Workload(Steady(0.8 * MOST)), minutes=0.5, costs=both_operations())
    moves = table.set_index("input")["moves"]
    assert moves["speed of gateway"] < 0 < moves["calls that come"]
    assert abs(moves["speed of gateway"]) > abs(moves["speed of institution"])
    assert list(table["moves"].abs()) == sorted(table["moves"].abs(), reverse=True)


def price(deployment: Deployment) -> float:
    return deployment.gateway.speed + deployment.node.replicas


@pytest.mark.soak  # that it suffices is known after three minutes of the service
def test_the_cheapest_that_does() -> None:
    choices = {"gateway_speed": [1.0, 2.0, 4.0], "node_replicas": [1, 2]}
    busy = Workload(Steady(1.2 * MOST))

    found = cheapest(
        STAR, busy, choices, p99_ms=400, price=price, minutes=0.1, costs=both_operations()
    )
    assert found.price == price(found.deployment)
    assert found.p99.ms <= 400
    dearer = [row for row in found.tried.itertuples() if row.why_not]
    assert all(row.price <= found.price for row in dearer)
    few = {"gateway_speed": [4.0]}
    with pytest.raises(UsageError, match=r"none of 1 .* below 1 ms: p99 .*, above 1 ms"):
        cheapest(STAR, busy, few, p99_ms=1, price=price, minutes=0.1, costs=both_operations())
    assert found.run.compare_percentile(99, 400) == "below", "known, not by chance"


@pytest.mark.soak
@pytest.mark.parametrize("per_s", [5.0, 0.6 * MOST])
def test_the_cheapest_is_the_same_for_all_seeds(per_s: float) -> None:
    """Or what straddles is said to: also where there are too few calls for an interval."""
    choices = {"gateway_speed": [1.0, 2.0], "node_replicas": [1, 2]}

    def chosen(seed: int) -> float:
        work = Workload(Steady(per_s))
        known = {"p99_ms": 150.0, "minutes": 0.5, "seed": seed, "costs": both_operations()}
        return cheapest(STAR, work, choices, price=price, **known).price  # type: ignore[arg-type]

    assert len({chosen(seed) for seed in range(1, 9)}) == 1


@pytest.mark.parametrize(("part", "timeout_s"), [("institution", 20.0), ("gateway", 30.0)])
def test_a_call_fails_when_the_service_has_waited_long_enough(part: str, timeout_s: float) -> None:
    """The gateway for an MPC node, the REST node for the gateway: of a pause that is 5 s longer,
    who comes in the first 5 s fails, then."""
    pause = ProcessPause(1.0, part, timeout_s + 5.0)
    paused = run(Steady(10.0), seconds=timeout_s + 8, events=(pause,))
    failed = paused.outcomes()["broken"]
    arrivals = paused.outcomes()["done"] + failed + paused.outcomes()["refused"]
    assert failed == pytest.approx(5 / (timeout_s + 8) * arrivals, rel=0.25)
    assert paused.percentile(100).ms == pytest.approx(timeout_s * 1000, rel=0.03)


@pytest.mark.parametrize("seconds", [15, pytest.param(60, marks=pytest.mark.soak)])
def test_what_breaks_first_does_not_depend_on_the_length(seconds: int) -> None:
    short = [
        STAR.run(Workload(Steady(0.7 * MOST)), seconds=seconds, costs=both_operations(), seed=seed)
        for seed in range(1, 5)
    ]
    assert [run.saturations for run in short] == [[]] * 4


def test_what_is_sensitive_to_nothing_moves_within_the_noise() -> None:
    table = sensitivity(
        STAR, Workload(Steady(0.3 * MOST)), change=0.0001, minutes=0.1, costs=both_operations()
    )
    assert (table["noise"] > 0).any()
    assert (table["moves"].abs() <= 2 * table["noise"] + 0.001).all()


@pytest.mark.parametrize(
    ("mix", "options", "said"),
    [
        ("sign secp256k1", {}, "say how long"),
        ("sign secp256k1", {"hours": math.inf}, "workloads never end"),
        ("sign secp256k1", {"hours": 1, "exactness": "exact"}, "unknown exactness 'exact'"),
        ("sign ed25519", {"hours": 1}, "sign ed25519 was not measured"),
        ("sign secp256k1", {"hours": 1, "costs": "none.json"}, "costs: none.json: No such fil"),
    ],
)
def test_bad_input_is_one_clear_error(mix: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        STAR.run(Workload(mix={mix: 1.0}), **{"costs": both_operations(), **options})


def test_costs_of_another_version_and_a_limit_below_zero_are_refused() -> None:
    old = replace(both_operations(), version={"sign secp256k1": "0"})
    with pytest.raises(UsageError, match="costs from another version of the service: mpcsim calib"):
        STAR.run(Workload(), hours=1, costs=old)
    with pytest.raises(UsageError, match="making_limit is -1"):
        replace(STAR, making_limit=-1)


def test_the_page_of_a_run_has_a_statement_a_line_and_units_in_its_tables(calm: Run) -> None:
    """What has no interval says why, once; a notebook shows the same."""
    head, *lines = str(calm).splitlines()
    assert head == "60 calls a second for 0:01:00, seed 1: 3,592 attempts: 3,592 done"
    assert lines[0] == f"  {calm.first_to_break}"
    assert lines[1].startswith("  link to the institution slows at 0:01:00: never took place")
    at = next(n for n, line in enumerate(lines) if line.startswith("  latency, ms"))
    interval = "  95 % interval"
    assert lines[at].count(interval) == 3
    assert any("no interval of p99 (" in line for line in lines[:at])
    shown = calm._repr_html_()
    assert "<th" in shown
    assert "slowest 1%" in shown
