"""The twin's kernel does what queueing theory says, and what its own totals say.

Every run has a fixed seed, so that none fails by chance; that the intervals are right is what the
99 % are for.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mpcsim import Network
from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.model.costs import Costs, Kind, Scheduling, loopback_network
from mpcsim.capacity.model.incidents import (
    BulkReshare,
    Event,
    ProcessCrash,
    ProcessPause,
    RollingRestart,
    Slowdown,
)
from mpcsim.capacity.model.limits import Limit
from mpcsim.capacity.model.operations import REQUEST, RESPONSE, Operation
from mpcsim.capacity.model.parts import Part
from mpcsim.capacity.model.workload import Client
from mpcsim.errors import UsageError
from tests.helpers.capacity import (
    ASKS,
    ASKS_INSTITUTION,
    ASKS_OPERATOR,
    SimulatedRun,
    combined_service,
    constant,
    exponential,
    fork_join_service,
    interval,
    node_service,
    poisson_arrivals,
    prepare_run,
    with_split_stages,
)

CALLS = 60_000


def run_to_end(run: SimulatedRun) -> SimulatedRun:
    """Let it come to an end, and check its totals."""
    run.driver.run(math.inf)
    check_invariants(run)
    return run


def finished_run(*service: Any, **known: Any) -> SimulatedRun:
    return run_to_end(prepare_run(*service, **known))


def check_invariants(run: SimulatedRun) -> None:
    """Nothing is left of anything, and all that was done was done for somebody."""
    rows, totals, driver = run.rows, run.driver.usage_totals(), run.driver
    final = rows[rows[:, kernel.FINAL] == 1]
    orders = int(driver.state["orders_so_far"])
    assert sorted(final[:, kernel.NUMBER]) == list(range(orders)), "every order ends once"
    attempts = np.bincount(rows[:, kernel.NUMBER].astype(int), minlength=orders)
    assert (attempts[final[:, kernel.NUMBER].astype(int)] == final[:, kernel.ATTEMPT]).all()
    waited = (rows[:, kernel.ENDED] - rows[:, kernel.BEGAN]).sum()
    assert totals.in_flight == pytest.approx(waited), "Little's law"
    used = sum(
        place_used
        for place, place_used in zip(run.layout.resources, totals.used, strict=True)
        if place.name.startswith("cores")
    )
    assert used == pytest.approx(totals.cpu.sum(), abs=1e-6), "no work is lost, or done twice"
    assert (driver.calls.calls["number"] == kernel.NONE).all()
    assert (driver.service.jobs["call"] == kernel.NONE).all()
    assert driver.state["spare_jobs"] == len(driver.service.jobs)
    assert driver.state["spare_transfers"] == len(driver.calls.deliveries)
    for lines in (driver.calls.connection_queues, driver.calls.limits):
        assert not lines["inside"].any()
        assert not lines["waiting"].any()
        assert (lines["head"] == kernel.NONE).all()
    assert not driver.calls.keys["held"].any()
    assert (driver.calls.keys["head"] == kernel.NONE).all()
    assert not driver.service.processes["calls"].any()
    heads = driver.network.heads[: int(driver.network.pool["used"][0])]
    assert (heads["owner"] < 0).all()


def assert_mean(values: np.ndarray, expected: float, widest: float) -> None:
    """The mean is what it should be, and is known well enough for that to mean something."""
    mean, half = interval(values)
    assert half < widest * expected
    assert abs(mean - expected) < half


def erlang_c(servers: int, load: float) -> float:
    """The part of calls that wait in M/M/c."""
    b = erlang_b(servers, load)
    return b / (1 - load / servers * (1 - b))


def erlang_b(servers: int, load: float) -> float:
    """The part of calls that are turned away in M/M/c/c."""
    b = 1.0
    for n in range(1, servers + 1):
        b = load * b / (n + load * b)
    return b


# ---------------------------------------------------------------------- open queues


@pytest.mark.parametrize(
    ("kind", "times", "load", "calls", "seed", "expected", "widest"),
    [
        ("loop", constant(1.0), 0.8, 2 * CALLS, 2, 1 + 0.8 / (2 * (1 - 0.8)), 0.05),
        # M/M/3: threads that share cores, and are moved at no cost.
        ("free thread", exponential(1.0), 2.1, CALLS, 3, 1 + erlang_c(3, 2.1) / (3 - 2.1), 0.06),
        # M/G/1 with processor sharing: three cores are of no use to one interpreter.
        ("thread", exponential(1.0), 0.7, CALLS, 6, 1 / (1 - 0.7), 0.08),
    ],
    ids=["M/D/1", "M/M/3", "M/G/1"],
)
def test_open_queues(
    kind: Kind,
    times: tuple[float, ...],
    load: float,
    calls: int,
    seed: int,
    expected: float,
    widest: float,
) -> None:
    deployment = Deployment(Network.star(1.0), Part(3))
    service = with_scheduling(node_service(times, kind), Scheduling(hot_ms=0.0))
    run = finished_run(service, poisson_arrivals(load, calls, seed), deployment=deployment)
    assert_mean(run.took, expected, widest)


def with_scheduling(
    service: tuple[Operation, Costs], scheduling: Scheduling
) -> tuple[Operation, Costs]:
    operation, known = service
    return operation, replace(known, scheduling=scheduling)


def test_a_core_that_takes_over_nobody_is_idle_while_others_wait() -> None:
    deployment = Deployment(Network.star(1.0), Part(3))
    service = node_service(exponential(1.0), "free thread")
    kept, hot, taken = (
        finished_run(
            with_scheduling(service, scheduling),
            poisson_arrivals(2.1, CALLS // 4, 3),
            deployment=deployment,
        ).took.mean()
        for scheduling in (Scheduling(takes=0.0), Scheduling(), Scheduling(hot_ms=0.0))
    )
    assert kept > 1.1 * taken
    assert hot > 1.02 * taken, "what has just begun to wait is left where its caches are"


def arrivals_at(*due_ms: float) -> Iterator[tuple[float, Any]]:
    count = len(due_ms)
    yield math.inf, (np.array(due_ms), np.zeros(count, int), np.arange(count))


def test_nobody_waits_for_what_is_done_later_but_who_comes_next() -> None:
    service = with_split_stages(node_service(constant(2.0)), [("loop", 0.5), ("later loop", 0.5)])
    run = finished_run(service, arrivals_at(0.0, 0.25, 2.5))
    # The third finds the first one's rest, and after it the second one's comes first.
    assert run.took == pytest.approx([1.0, 1.75, 2.5])
    assert run.driver.usage_totals().cpu.sum() == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("scheduling", "took", "waited", "worked"),
    [
        (Scheduling(), 3.0, (0.0, 0.0), (3.0, 0.0)),
        (Scheduling(together=1.0, takes=0.0), 4.0, (0.0, 3.0), (0.0, 1.0)),
        (Scheduling(together=1.0, ahead=1.0, takes=0.0), 4.0, (1.0, 0.0), (3.0, 0.0)),
    ],
)
def test_who_wakes_up_where(
    scheduling: Scheduling, took: float, waited: tuple[float, float], worked: tuple[float, float]
) -> None:
    """The gateway wakes both MPC nodes: on cores of their own, or on its own one after the
    other, where who has less to do may go first."""
    ms = {ASKS: 0.001, ASKS_OPERATOR: 3.0, ASKS_INSTITUTION: 1.0}
    service = fork_join_service(ms, times=constant)
    deployment = Deployment.on_one_machine(4, loopback_network(0.0))
    run = finished_run(
        with_scheduling(service, scheduling), arrivals_at(0.0), deployment=deployment
    )
    assert run.took == pytest.approx([took], abs=0.01)
    for first, ms in ((kernel.FIRST_ROLE, waited), (kernel.FIRST_ROLE + kernel.ROLES, worked)):
        assert run.rows[0, first + 3 : first + 5] == pytest.approx(ms, abs=0.01)


@pytest.mark.parametrize("waiting", [math.inf, 0])
def test_m_m_c_behind_a_limit(waiting: float) -> None:
    """Whoever finds it full waits as Erlang's C says, or is turned away as Erlang's B does."""
    load, inside, seed = (2.1, 3, 4) if waiting else (4.0, 5, 5)
    limit = Limit(("work",), at_once=inside, waiting=waiting, enters=REQUEST, leaves=REQUEST)
    deployment = Deployment(Network.star(1.0), Part(16))
    service = node_service(exponential(1.0), "free thread")
    run = finished_run(
        service, poisson_arrivals(load, CALLS, seed), deployment=deployment, limits=[limit]
    )
    totals = run.driver.usage_totals()
    if waiting:
        waits = erlang_c(inside, load)
        assert_mean(run.took, 1 + waits / (inside - load), 0.05)
        assert_mean((run.column(kernel.LIMIT) > 0).astype(float), waits, 0.05)
        assert totals.limit_queued[0] == pytest.approx(run.column(kernel.LIMIT).sum())
        assert totals.inside[0] == pytest.approx(load * totals.at_ms, rel=0.02)
    else:
        refused = run.column(kernel.OUTCOME) == kernel.REFUSED
        assert_mean(refused.astype(float), erlang_b(inside, load), 0.05)
        assert totals.limit_refused[0] == refused.sum()
        assert not run.took[refused].any()


# ---------------------------------------------------------------------- a closed network


def mean_value_analysis(demands: list[float], elsewhere: float, users: int) -> float:
    """How long users spend at queues, by Reiser and Lavenberg's recursion (1980).

    Args:
        demands: work for each queue.
        elsewhere: time that they spend where there are no queues.
    """
    queues = [0.0] * len(demands)
    for n in range(1, users + 1):
        times = [demand * (1 + queue) for demand, queue in zip(demands, queues, strict=True)]
        rate = n / (elsewhere + sum(times))
        queues = [rate * time for time in times]
    return sum(times)


@pytest.mark.parametrize(("users", "think_ms"), [(1, 5.0), (8, 10.0), (30, 40.0)])
def test_users_who_think(users: int, think_ms: float) -> None:
    way_ms = 2.0
    deployment = Deployment(Network.star(way_ms, way_ms, way_ms))
    # Both visits of the node's queue take equally long on average: else it is no such network.
    service = fork_join_service({"in": 1.0, "out": 0.6, REQUEST: 0.6})
    run = prepare_run(service, deployment=deployment, users=users)
    run.driver.start_users(np.arange(users), think_ms, np.ones(1), seed=7)
    run.driver.run(20_000.0 * max(1.0, think_ms / users / 2))
    done = run.rows
    took = (done[:, kernel.ENDED] - done[:, kernel.BEGAN])[np.argsort(done[:, kernel.ENDED])]
    network = done[:, kernel.NETWORK].mean()
    assert network == pytest.approx(4 * way_ms, rel=0.05)
    expected = mean_value_analysis([1.2, 1.0], think_ms + network, users) + network
    assert_mean(took, expected, 0.05)


# ---------------------------------------------------------------------- determinism


def run_with_incidents(room: int = 256, stops: tuple[float, ...] = ()) -> SimulatedRun:
    """Everything at once: more than it can do, retries, limits, queues, incidents."""
    operations = combined_service(
        fork_join_service(queue=(2, 0.1)), fork_join_service(2.0, "recover secp256k1")
    )
    events: list[Event] = [
        ProcessCrash(0.3, "node", 1, 0.5),
        ProcessCrash(0.9, "gateway", 2, 0.2),
        ProcessCrash(1.2, "operator", 1, 0.1),
        ProcessPause(1.6, "institution", 0.3),
        RollingRestart(2.2, "node", 0.1),
        RollingRestart(2.3, "gateway", 0.2),
        Slowdown(2.0, "operator", 5.0, 0.7),
        BulkReshare(2.5, 7),
    ]
    run = prepare_run(
        operations,
        poisson_arrivals(0.45, 1500, 8, users=80, operations=(0.9, 0.1)),
        deployment=Deployment(
            Network.star(3.0, 2.0, 9.0, loss=0.01), *(Part(1, replicas=2, workers=2),) * 2
        ),
        client=Client(timeout_s=0.4, attempts=3, pause_s=0.05, factor=2.0, jitter=0.5),
        users=80,
        limits=[Limit(("recover secp256k1",), at_once=2, waiting=5)],
        events=events,
        room=room,
    )
    for stop in stops:
        run.driver.run(stop)
    return run_to_end(run)


def test_a_storm_leaves_nothing_behind_and_is_the_same_again() -> None:
    once = run_with_incidents()
    outcomes = set(once.column(kernel.OUTCOME))
    assert outcomes == {kernel.DONE, kernel.REFUSED, kernel.TIMED_OUT, kernel.BROKEN}
    again = run_with_incidents(room=64, stops=(10.0, 333.3, 1700.0, 2500.0))
    assert again.rows.tobytes() == once.rows.tobytes()


PARTS = ("node", "gateway", "operator", "institution")
moments = st.floats(0.0, 0.5)
lengths = st.floats(0.01, 0.3)
anything = st.one_of(
    st.builds(ProcessCrash, moments, st.sampled_from(PARTS), st.just(1), lengths),
    st.builds(ProcessPause, moments, st.sampled_from(PARTS), lengths),
    st.builds(RollingRestart, moments, st.sampled_from(PARTS), lengths),
    st.builds(Slowdown, moments, st.sampled_from(("node", "operator", "institution")), lengths),
    st.builds(BulkReshare, moments, st.integers(1, 9)),
)


chance = st.sampled_from((0.0, 0.5, 1.0))


@settings(max_examples=15, derandomize=True, phases=[Phase.generate])
@given(
    events=st.lists(anything, max_size=6),
    parts=st.lists(
        st.builds(Part, st.just(1), st.integers(1, 3), st.integers(1, 2)), min_size=4, max_size=4
    ),
    client=st.builds(
        Client, st.sampled_from((0.03, 0.3, math.inf)), st.integers(1, 4), st.floats(0.0, 0.1)
    ),
    limits=st.lists(
        st.builds(Limit, st.just(("recover secp256k1",)), st.integers(1, 3), st.integers(0, 4)),
        max_size=1,
    ),
    queue=st.tuples(st.integers(0, 3), st.floats(0.001, 0.1)),
    http=st.sampled_from(("1.1", "2")),
    rate=st.floats(0.05, 0.8),
    scheduling=st.builds(Scheduling, chance, chance, chance),
    cores=st.sampled_from((0, 1, 2, 3)),
    pool=st.sampled_from((2, 512)),
)
def test_whatever_happens_the_books_are_right(
    events: list[Event],
    parts: list[Part],
    client: Client,
    limits: list[Limit],
    queue: tuple[int, float],
    http: str,
    rate: float,
    pool: int,
    scheduling: Scheduling,
    cores: int,
) -> None:
    """``cores``: of a machine that all are on; 0: they have machines of their own."""
    network = Network.star(1.0, 0.5, 4.0).with_connection(http=http)
    if cores:
        parts = [replace(part, cores=cores, replicas=1, machine="one") for part in parts]
    signing = with_split_stages(
        fork_join_service(queue=queue), [("loop", 0.5), ("loop", 0.3), ("later loop", 0.2)]
    )
    operations, known = combined_service(signing, fork_join_service(2.0, "recover secp256k1"))
    run = prepare_run(
        (operations, replace(known, scheduling=scheduling)),
        poisson_arrivals(rate, int(400 * rate), 8, users=40, operations=(0.9, 0.1)),
        deployment=Deployment(network, *parts),
        client=client,
        users=40,
        limits=limits,
        events=events,
        room=64,
    )
    run.driver.network.links["pool"] = pool
    run_to_end(run)


def test_users_draw_the_same_whoever_else_there_is() -> None:
    """What a user's n-th call is, and how long it takes alone, is theirs."""
    found = []
    for users in (1, 3):
        deployment = Deployment(Network.star(1.0), Part(64))
        service = combined_service(
            node_service(exponential(1.0), "free thread", "one"),
            node_service(exponential(5.0), "free thread", "other"),
        )
        run = prepare_run(service, deployment=deployment, users=users)
        run.driver.start_users(np.arange(users), 3.0, np.array([0.7, 0.3]), seed=9)
        run.driver.run(2_000.0)
        rows = run.rows[run.rows[:, kernel.USER] == 0]
        found.append(rows[:, [kernel.OPERATION_OF, kernel.DUE, kernel.ENDED]])
    assert np.allclose(*found)
    assert (found[0][:, 0] == 1).mean() == pytest.approx(0.3, abs=0.05)


# ---------------------------------------------------------------------- incidents


def test_nothing_is_done_in_a_pause_and_all_afterwards() -> None:
    run = finished_run(
        node_service(exponential(1.0)),
        poisson_arrivals(0.4, CALLS, 10),
        events=[ProcessPause(10.0, "node", 60.0)],
    )
    ended = run.column(kernel.ENDED)
    assert not ((ended > 10_000) & (ended < 70_000)).any()
    assert (run.column(kernel.OUTCOME) == kernel.DONE).all()
    # A backlog of 24 000 ms of work is gone after 24 000 / 0.6 ms.
    late = run.took > 100
    assert ended[late].max() == pytest.approx(70_000 + 24_000 / 0.6, rel=0.05)


def test_a_dead_replica_takes_its_calls_with_it() -> None:
    deployment = Deployment(Network.star(4.0, 4.0, 4.0), Part(2), Part(2, replicas=2))
    service = fork_join_service()
    run = finished_run(
        service,
        poisson_arrivals(0.4, 12_000, 11),
        deployment=deployment,
        events=[ProcessCrash(10.0, "gateway", 1, 5.0), ProcessCrash(20.0, "gateway", 2, 1.0)],
    )
    ended, began = run.column(kernel.ENDED), run.column(kernel.BEGAN)
    broken = run.column(kernel.OUTCOME) == kernel.BROKEN
    assert 2 < broken.sum() < 40
    # The node learns it when the news is there; a call that was on its way to it, a little later.
    for at in (10_000, 20_000):
        mine = broken & (abs(ended - at) < 100)
        assert mine.any()
        assert (ended[mine] >= at + 4.0 - 1e-9).all()
        assert (ended[mine] < at + 9.0).all()
        assert (began[mine] < at).all()
    assert broken.sum() == sum((broken & (abs(ended - at) < 100)).sum() for at in (10_000, 20_000))
    processes = run.driver.service.processes
    assert (processes["incarnation"][[2, 3]] == 1).all()


def test_a_deployment_loses_nothing_where_there_are_two() -> None:
    deployment = Deployment(Network.star(4.0), Part(1, replicas=2, workers=2))
    run = prepare_run(
        fork_join_service(turns=False),
        poisson_arrivals(0.2, 4000, 13),
        deployment=deployment,
        events=[RollingRestart(5.0, "node")],
    )
    up = []
    for stop in range(0, 60_000, 1000):
        run.driver.run(float(stop))
        up.append(int((run.driver.service.processes["state"][1:5] == kernel.UP).sum()))
    run_to_end(run)
    assert (run.column(kernel.OUTCOME) == kernel.DONE).all()
    assert up[:5] == [4] * 5
    assert up[7:15] == [2] * 8
    assert up[17:25] == [2] * 8
    assert up[27:] == [4] * 33
    assert (run.driver.service.processes["incarnation"][1:5] == 1).all()


def test_every_key_is_recovered_once_some_at_a_time() -> None:
    service = combined_service(fork_join_service(), fork_join_service(1.0, "recover secp256k1"))
    run = finished_run(
        service, poisson_arrivals(0.05, 500, 15, users=200), users=200, events=[BulkReshare(2.0, 5)]
    )
    recovers = run.column(kernel.OPERATION_OF) == 1
    final = run.column(kernel.FINAL) == 1
    assert sorted(run.column(kernel.USER)[recovers & final]) == list(range(200))
    assert (run.column(kernel.OUTCOME)[recovers & final] == kernel.DONE).all()
    began, ended = run.column(kernel.BEGAN)[recovers], run.column(kernel.ENDED)[recovers]
    arrivals_at = [((began <= at) & (at < ended)).sum() for at in began]
    assert max(arrivals_at) == 5
    assert began.min() == 2_000.0


def test_events_about_what_there_is_not() -> None:
    for event, text in (
        (ProcessCrash(0.0, "node", 2), "event replica is 2: node has 1"),
        (BulkReshare(0.0), "unknown operation 'recover secp256k1'"),
    ):
        with pytest.raises(UsageError, match=text):
            prepare_run(fork_join_service(), events=[event])


# ---------------------------------------------------------------------- limits, turns, retries


def test_attempts_follow_each_other_at_growing_distances() -> None:
    client = Client(attempts=4, pause_s=0.1, factor=2.0)
    run = finished_run(
        node_service(constant(1.0)),
        poisson_arrivals(0.01, 50, 16),
        client=client,
        events=[ProcessCrash(0.0)],
    )
    assert (run.column(kernel.OUTCOME) == kernel.BROKEN).all()
    began = run.column(kernel.BEGAN).reshape(50, 4)
    assert np.allclose(np.diff(began), [100.0, 200.0, 400.0])
    assert (run.column(kernel.FINAL).reshape(50, 4) == [0, 0, 0, 1]).all()


def test_callers_give_up_and_the_service_goes_on() -> None:
    client = Client(timeout_s=0.002)
    run = finished_run(node_service(constant(3.0)), poisson_arrivals(0.1, 300, 18), client=client)
    assert (run.column(kernel.OUTCOME) == kernel.TIMED_OUT).all()
    assert np.allclose(run.took, 2.0)
    assert run.driver.usage_totals().cpu.sum() == pytest.approx(900.0)


@pytest.mark.parametrize("waiting", [math.inf, 3])
def test_a_limit_is_never_exceeded(waiting: float) -> None:
    limit = Limit(("sign",), at_once=4, waiting=waiting)
    run = prepare_run(
        fork_join_service(2.0, turns=False), poisson_arrivals(0.3, 2000, 19), limits=[limit]
    )
    for stop in range(0, 8_000, 10):
        run.driver.run(float(stop))
        line = run.driver.calls.limits[0]
        assert line["inside"] <= 4
        assert line["waiting"] <= waiting
    totals = run.driver.usage_totals()
    assert totals.inside[0] / totals.at_ms > 2
    run_to_end(run)
    refused = run.column(kernel.OUTCOME) == kernel.REFUSED
    assert refused.any() == (waiting < math.inf)


def test_a_busy_key_is_refused_or_waited_for() -> None:
    """All calls are for one key."""
    refuses = finished_run(fork_join_service(), poisson_arrivals(0.2, 1000, 20, users=1), users=1)
    refused = refuses.column(kernel.OUTCOME) == kernel.REFUSED
    assert 0.3 < refused.mean() < 0.9
    some = fork_join_service(queue=(2, 0.02))
    waits = finished_run(some, poisson_arrivals(0.2, 1000, 20, users=1), users=1)
    still = waits.column(kernel.OUTCOME) == kernel.REFUSED
    assert 0 < still.mean() < refused.mean()
    limited = waits.column(kernel.LIMIT)[~still]
    assert 0 < limited.max() <= 20.0 + 1e-9
    patient = fork_join_service(queue=(1000, 1e6))
    all_ = finished_run(patient, poisson_arrivals(0.2, 1000, 20, users=1), users=1)
    assert (all_.column(kernel.OUTCOME) == kernel.DONE).all()


# ---------------------------------------------------------------------- slow calls


def test_the_slowest_calls_are_kept_with_all_their_moments() -> None:
    run = finished_run(fork_join_service(2.0), poisson_arrivals(0.3, 3000, 21))
    kept = run.driver.slow_calls()
    took = kept.rows[:, kernel.KEPT_ENDED] - kept.rows[:, kernel.KEPT_DUE]
    done = np.sort(run.took[run.column(kernel.OUTCOME) == kernel.DONE])
    assert len(took) >= 256
    assert np.allclose(np.sort(took), done[-len(took) :])
    names = [message.name for message in run.layout.shapes[0].messages]
    of = kept.moments[:, [names.index(name) for name in (REQUEST, "in", "out", RESPONSE)]]
    moments = of[:, :, : kernel.SERVICE_MS]
    assert (np.diff(moments, axis=2) >= 0).all()
    assert (moments[:, 0, kernel.SENT] == kept.rows[:, kernel.KEPT_BEGAN]).all()
    assert (moments[:, -1, kernel.COMPLETED] == kept.rows[:, kernel.KEPT_ENDED]).all()
    assert (moments[:, 1:, kernel.SENT] >= moments[:, :-1, kernel.COMPLETED]).all()
    assert (
        of[:, :, kernel.SERVICE_MS] <= moments[:, :, kernel.HANDLED] - moments[:, :, 3] + 1e-9
    ).all()
    processes = kept.rows[:, kernel.KEPT_FIRST_ROLE :].astype(int)
    parts = [{run.layout.processes[p].part for p in of} for of in processes.T]
    assert parts == [{"caller"}, {"node"}, {"gateway"}, {"operator"}, {"institution"}]


# ---------------------------------------------------------------------- memory


def test_memory_grows_neither_with_time_nor_beyond_what_pools_allow() -> None:
    """An hour of 1 000 calls a second takes what its busiest moment takes."""
    run = prepare_run(node_service(exponential(0.5)), poisson_arrivals(1.0, 300_000, 22))
    sizes = []
    for stop in (1_000.0, 100_000.0, math.inf):
        run.driver.run(stop)
        records = (*run.driver.calls, *run.driver.service, *run.driver.network)
        sizes.append(sum(each.nbytes for each in records))
        run.driver.flush()
        run.parts.clear()
    assert sizes[2] - sizes[0] < 30e6  # the arrivals are given as a whole here
    overloaded = prepare_run(fork_join_service(5.0, turns=False), poisson_arrivals(2.0, 1500, 23))
    most = len(overloaded.driver.network.connections)
    run_to_end(overloaded)
    assert len(overloaded.driver.network.connections) == most
    pool = overloaded.driver.usage_totals()
    assert pool.connection_queued.max() > 0
    assert overloaded.column(kernel.POOL).sum() == pytest.approx(pool.connection_queued.sum())
