"""What is said of a run: overload, what breaks first, recovery, percentiles, traces."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from mpcsim import Network
from mpcsim.capacity import (
    BulkReshare,
    Client,
    Deployment,
    LoadCurve,
    Overloaded,
    Part,
    ProcessPause,
    Run,
    Slowdown,
    Steady,
    Users,
    Workload,
    cheapest,
    load_curve,
    running,
    sensitivity,
)
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.speed import Speed
from mpcsim.capacity.recording import record_operation
from mpcsim.capacity.results import answers, figures
from mpcsim.capacity.simulation.incidents import incidents
from mpcsim.errors import UsageError
from mpcsim.sim.trace import Trace
from tests.capacity.test_real import made_up_costs
from tests.capacity.test_windows import CALM, run_of_windows, value_in_window
from tests.helpers.made_up_costs import made_up
from tests.helpers.reviewed import check_calls, check_reviewed, rounded
from tests.sim.test_figures_copied import describe

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


def test_no_percentile_of_a_queue_that_grows(flood: Run) -> None:
    with pytest.raises(Overloaded, match=r"300 calls a second come and .* without bound"):
        flood.percentile(99)
    assert flood.percentile(99, between_s=(15.0, 30.0)).ms > 2_500  # who asks for it gets it


def test_a_line_that_is_busy_or_full_is_named() -> None:
    """50 kB and 36 headers a call, up a line of 1 Mbit/s; who gives up has sent them, too."""
    thin = Network.star().with_link("client", "gateway", mbit_per_s=1.0, back_mbit_per_s=5.0)
    line, law = "link client → gateway", "of the time by the utilisation law"
    for per_s, said in ((1.5, f"the {line}, used 62% {law}"), (5.0, f"the {line} is full, from 0")):
        found = Deployment(thin).run(Workload(Steady(per_s)), seconds=30, costs=both_operations())
        assert found.demand.most_per_s == pytest.approx(1e6 / 8 / (50_586 + 36 * 52), rel=0.01)
        assert said in found.first_to_break
    hasty = Workload(Steady(1.5), client=Client(timeout_s=0.6))
    found = Deployment(thin).run(hasty, seconds=30, costs=both_operations())
    assert answers.busiest(found) == (line, pytest.approx(0.62, abs=0.02))


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
    path = slow.critical_path()
    assert path.total_ms == pytest.approx(slow.finished_ms)
    slow.save_perfetto(f"{tmp_path}/slow.json")
    with pytest.raises(UsageError, match="slow call 0: the slowest"):
        calm.slow_call(0)
    kept = len(calm.slow_calls.rows)
    assert calm.slow_call(kept).finished_ms <= slow.finished_ms
    with pytest.raises(UsageError, match=f"slow call {kept + 1}: the slowest {kept} are kept"):
        calm.slow_call(kept + 1)


def price(deployment: Deployment) -> float:
    return deployment.gateway.speed + deployment.node.replicas


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


def test_bad_input_is_one_clear_error() -> None:
    def run(mix: dict[str, float] | None = None, **known: Any) -> Run:
        work = Workload(mix=mix) if mix else Workload()
        return STAR.run(work, **{"hours": 1, "costs": both_operations()} | known)

    names = {"run": run, "Part": Part, "Deployment": Deployment, "Costs": Costs, "Speed": Speed}
    check_calls(Path(__file__).with_name("wrong_input.txt"), math, **names)


def runs_of(values: Iterable[object]) -> str:
    """Return values of which equal ones that follow each other are counted; the first thirty."""
    counted = [(value, sum(1 for _ in same)) for value, same in groupby(map(str, values))]
    return " ".join(f"{n} x {value}" if n > 1 else value for value, n in counted[:30])


def arrays(records: Any) -> Iterator[str]:
    """Yield a line for those fields of each array of a layout that are alike."""
    for name, array in records._asdict().items():
        alike: dict[str, list[str]] = {}
        for field in array.dtype.names or ("",):
            values = array[field] if field else array
            alike.setdefault(runs_of(values.ravel()), []).append(field)
        yield from (f"{name} {', '.join(of)}: {values}" for values, of in alike.items())


def test_a_layout_is_as_it_was_reviewed() -> None:
    """What the kernel is given for a deployment with something of everything."""
    network = Network.preset("seoul", institution="frankfurt", access="lte", loss=0.01)
    rich = Deployment(
        network, Part(2, replicas=2, workers=2, speed=2.0), Part(40, machine="rack"),
        operator=Part(40, machine="rack", speed=4.0), making_limit=2,
    )  # fmt: skip
    events = (BulkReshare(9.0), Slowdown(1.0), ProcessPause(2.0, "node"))
    work = Workload(Steady(9.0), users=4, client=Client(2.0, 3, 0.5, 2.0, 0.1), events=events)
    known = made_up_costs([record_operation(name) for name in both_operations().stages])
    costs = replace(known, version=both_operations().version, hop_ms=0.5, cooling_ms=40.0)
    layout = running._layout(rich, work, costs, 7)
    found = [str(layout.limits), *map(str, layout.groups.items()), *map(str, layout.resources)]
    found += [*map(str, layout.processes), *arrays(layout.calls), *arrays(layout.service)]
    found += [*map(str, incidents(layout, events)), f"{running.demand_of(rich, work, costs)}"]
    check_reviewed(map(rounded, found), Path(__file__).with_name("layout.txt"))


def test_what_is_said_of_runs_is_as_it_was_reviewed(calm: Run, flood: Run) -> None:
    """Pages, tables, figures and a trace of two runs and of one that is made up."""
    late = replace(
        run_of_windows(
            value_in_window(3, (900, 0, 90, 10), CALM),
            under_way_ms=[500.0] * 200,
            memory_mb={"node": (100.0, 2.0)},
        ),
        slow_calls=calm.slow_calls,
    )
    found = []
    for name, of in {"calm": calm, "flood": flood, "late": late}.items():
        found += [f"# {name}", *str(of).splitlines(), *map(str, of.saturations)]
        for row in of.table()[::20].to_dict("records"):
            found += [", ".join(f"{column} {value}" for column, value in row.items() if value)]
        found += [f"{of.outcomes((4.0, 10.0))}, {of.goodput_per_s(80.0)} a second in time"]
        found += [runs_of(of.percentiles_over_time(90)[::5]), str(of.made_of(0.1))]
        found += [f"memory {part}: {runs_of(mb)}" for part, mb in of.memory_mb.items()]
        found += [f"{of.relaxation_time_s()} s, {of.recovered_s(5.0)} s, {of.ended_per_s()}"]
        found += describe(of.timeline())
        found += [f"{ms}: {of.compare_percentile(95, ms)}" for ms in (10.0, 60.0, 90.0, 130.0)]
    nobody = run_of_windows([(0, 0, 0, 0)] * 10, under_way_ms=[500.0])
    found += [str(nobody.percentile(99)), f"{nobody.offered_per_s()}, {nobody.goodput_per_s(9.0)}"]
    found += [repr(late.percentile(50, between_s=each)) for each in ((5, 9), (6, 8), (0, 20))]
    found += [str(late.percentile(50, between_s=(5, 9))), str(late.percentile(99))]
    found += [*describe(calm.utilisation())][::3]
    slow = calm.slow_call(2)
    found += map(str, (slow.name, *slow.messages, *slow.work, *slow.endings))
    found += [runs_of(row) for row in flood.resources()[::61].itertuples(index=False)]
    parts = {"computing": 30.0, "travelling": 12.0, "waiting": 0.01}
    found += describe(figures.comparison({"as it is": parts}))
    check_reviewed(map(rounded, found), Path(__file__).with_name("runs.txt"))


def test_what_experiments_find_is_as_it_was_reviewed() -> None:
    """A load curve and what matters most, of short runs."""
    known: dict[str, Any] = {"minutes": 0.02, "costs": both_operations(), "seed": 3}
    with ThreadPoolExecutor(1) as here:
        curve = load_curve(STAR, executor=here, **known)
    found = ["# load by load", *str(curve).splitlines(), *describe(curve.plot())]
    found += describe(figures.load_curves({"one": curve, "other": curve}, [95]))
    with_interval = curve.table.assign(p99_low_ms=8.5, p99_high_ms=9.5, timed_out=0.01)[3:5]
    found += str(LoadCurve(with_interval, 50.0, "loop")).splitlines()
    matters = sensitivity(STAR, Workload(Users(9)), change=0.5, **known)
    found += ["# what matters", *matters.round(3).to_string().splitlines()]
    check_reviewed(map(rounded, found), Path(__file__).with_name("experiments.txt"))


def test_a_page_shows_the_same_in_a_notebook(calm: Run) -> None:
    assert re.search(r"<th.*slowest 1%", calm._repr_html_(), re.DOTALL)
