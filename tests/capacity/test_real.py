"""The real service under load: the same calls take the same times as in the compiled twin."""

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from mpcsim import Network
from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.model.arrivals import Steady
from mpcsim.capacity.model.costs import LATER, Costs, Kind, Scheduling, Stage
from mpcsim.capacity.model.incidents import (
    Event,
    ProcessCrash,
    ProcessPause,
    RollingRestart,
    Slowdown,
)
from mpcsim.capacity.model.operations import REQUEST, RESPONSE, Operation
from mpcsim.capacity.model.parts import Part
from mpcsim.capacity.model.speed import Speed
from mpcsim.capacity.model.workload import Client, Workload
from mpcsim.capacity.real.async_kernel import AsyncKernel
from mpcsim.capacity.real.calls import Call, Message
from mpcsim.capacity.real.carrier import _LoadedExchange
from mpcsim.capacity.real.loaded import LoadedService, WrongAnswer, _verify
from mpcsim.capacity.recording import _caller, record_operation
from mpcsim.capacity.simulation.driver import ArrivalChunk, KernelDriver, UsageTotals
from mpcsim.capacity.simulation.layout import Layout
from mpcsim.capacity.simulation.machines import threads
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT
from mpcsim.sim.replay.calls import message_name
from node.local import LocalService

SIGN = "sign ed25519"  # a key is made in 30 ms, a signature in 4 ms
NEAR = Network.star(0.05, 0.05, 0.05)
FAR = Network.preset("seoul", institution="frankfurt")
STREAM = Network.star(1.0).with_connection(forwarding="stream")
TWO_NODES = Deployment(NEAR, Part(2, replicas=2), Part(2), Part(2, workers=1), Part(2, speed=0.8))
PATIENT = Client()
CLOSE_MS = 1e-6
BYTES_MS = 0.01
"""Some bytes more or less, in which a key's first recovery differs from others, and refusals do."""


def made_up_costs(operations: Sequence[Operation], factor: float = 1.0) -> Costs:
    """Of all kinds, in no relation to anything real."""
    generator = np.random.default_rng(0)

    def stage(kind: Kind, ms: float) -> Stage:
        return Stage.from_samples(kind, factor * ms * generator.lognormal(0, 0.3, 1000))

    def stages(n: int) -> tuple[Stage, ...]:
        found = [stage("loop", 0.3 + n * 7 % 5 * 0.5)]
        if n % 3 == 0:
            found += [stage("free thread" if n % 2 else "thread", 1.5), stage("loop", 0.2)]
        if n % 4 == 0:
            found += [stage("loop", 0.1), stage("loop", 0.3)]
        if n % 5 == 0:
            found.append(stage("loop disk", 0.4))
        if n % 7 == 0:
            found += [stage("thread disk", 1.0), stage("loop", 0.1)]
        if n % 2 == 0:
            found.append(stage(LATER, 0.2))
        return tuple(found)

    names = {
        each.name: [*(packet.kind for packet in each.graph.messages), REQUEST, RESPONSE]
        for each in operations
    }
    turns = dict.fromkeys(("node", "gateway", "operator", "institution", "caller"), 0.3)
    known = {
        name: {message: stages(n) for n, message in enumerate(messages)}
        for name, messages in names.items()
    }
    return Costs(known, turns, {}, Speed.NONE, {}, scheduling=Scheduling(0.5, 0.5, 0.5))


class Case:
    """A workload, to be run either way."""

    def __init__(
        self,
        deployment: Deployment = TWO_NODES,
        operations: Sequence[str] = (SIGN,),
        *,
        per_s: float = 15.0,
        seconds: float = 2.0,
        users: int = 12,
        client: Client = PATIENT,
        events: Sequence[Event] = (),
        factor: float = 1.0,
        seed: int = 1,
    ) -> None:
        found = [record_operation(name) for name in operations]
        # Who makes a key has none: nobody else is at it.
        self.operations = [
            replace(each, turns=()) if each.name.startswith("generate") else each for each in found
        ]
        self.deployment, self.users, self.seed, self.events = deployment, users, seed, events
        self.until_ms = seconds * 1000
        self.layout = lambda: Layout(
            deployment, self.operations, made_up_costs(self.operations, factor), client, users, seed
        )
        self._per_s = per_s

    def arrivals(self) -> Iterator[tuple[float, ArrivalChunk]]:
        generator = np.random.default_rng(self.seed)
        end = self.until_ms - 500.0
        n = generator.poisson(self._per_s * end / 1000)
        due = np.sort(generator.uniform(0, end, n))
        operation = generator.integers(0, len(self.operations), n)
        yield math.inf, (due, operation, generator.integers(0, self.users, n))

    def run_recorded(self) -> tuple[NDArray[np.float64], UsageTotals]:
        rows: list[Any] = []
        driver = KernelDriver(
            self.layout(), self.arrivals(), lambda r: rows.append(r.copy()), self.events
        )
        return self._run(driver, rows)

    def real(self, **options: Any) -> tuple[NDArray[np.float64], UsageTotals]:
        rows: list[Any] = []
        with LoadedService(
            self.layout(),
            self.deployment,
            self.arrivals(),
            lambda r: rows.append(r.copy()),
            self.events,
            seed=self.seed,
            **options,
        ) as service:
            return self._run(service, rows)

    def _run(
        self, driver: KernelDriver, rows: list[Any]
    ) -> tuple[NDArray[np.float64], UsageTotals]:
        if not self._per_s:
            driver.start_users(
                np.arange(self.users), 40.0, np.ones(len(self.operations)), self.seed
            )
        driver.run(self.until_ms / 2)
        driver.run(self.until_ms)
        driver.flush()
        return np.concatenate(rows), driver.usage_totals()


def check_same_rows(case: Case, *, close_ms: float = CLOSE_MS) -> NDArray[np.float64]:
    """Every call ends at the same time with the same outcome, and so do machines.

    Returns:
        The rows.
    """
    (one, busy), (other, really) = case.run_recorded(), case.real()
    assert len(one) == len(other) > 0
    order = [np.lexsort((rows[:, kernel.ATTEMPT], rows[:, kernel.NUMBER])) for rows in (one, other)]
    one, other = one[order[0]], other[order[1]]
    np.testing.assert_array_equal(one[:, kernel.OUTCOME], other[:, kernel.OUTCOME])
    np.testing.assert_allclose(one, other, rtol=0, atol=close_ms)
    for what in ("used", "loop_busy", "queued", "thread_busy", "cpu", "in_flight"):
        there, here = getattr(busy, what), getattr(really, what)
        np.testing.assert_allclose(there, here, rtol=0, atol=close_ms * len(one), err_msg=what)
    return other


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "network",
    [
        pytest.param(NEAR, id="near"),
        pytest.param(FAR, id="far"),
        pytest.param(Network.preset("seoul", institution="frankfurt", loss=0.02), id="lossy"),
    ],
)
def test_a_quiet_service(network: Network) -> None:
    rows = check_same_rows(Case(replace(TWO_NODES, network=network), users=1_000))
    assert (rows[:, kernel.OUTCOME] == kernel.DONE).all()
    took = rows[:, kernel.ENDED] - rows[:, kernel.BEGAN]
    parts = rows[:, kernel.NETWORK : kernel.FIRST_ROLE].sum(1) + rows[:, kernel.FIRST_ROLE :].sum(1)
    np.testing.assert_allclose(parts, took, rtol=0, atol=CLOSE_MS)


@pytest.mark.soak
def test_a_busy_service_on_one_machine() -> None:
    case = Case(
        Deployment.on_one_machine(2, NEAR), per_s=30.0, factor=2.0, users=1_000, seconds=2.5
    )
    _, busy = case.run_recorded()
    assert 0.5 < busy.used[0] / (2 * 2000) < 0.8
    check_same_rows(case)


def test_retries_that_meet_their_own_keys() -> None:
    client = Client(timeout_s=0.045, attempts=3, pause_s=0.02, factor=2.0, jitter=0.5)
    case = Case(client=client, users=4, per_s=25.0, factor=2.5)
    rows = check_same_rows(case, close_ms=BYTES_MS)
    assert {kernel.DONE, kernel.REFUSED, kernel.TIMED_OUT} <= set(rows[:, kernel.OUTCOME])


def test_users_who_think() -> None:
    rows = check_same_rows(Case(per_s=0.0, users=4, seconds=0.6))
    assert len(rows) > 15


def test_events() -> None:
    far = replace(TWO_NODES, network=FAR)
    events = (ProcessPause(0.3, "gateway", 0.2), Slowdown(0.8, "institution", 3.0, 0.5))
    check_same_rows(Case(far, events=events, users=1_000))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("deployment", "outcomes"),
    [
        pytest.param(TWO_NODES, {kernel.DONE}, id="two"),
        pytest.param(Deployment(NEAR), {kernel.DONE, kernel.BROKEN}, id="one"),
    ],
)
def test_nodes_that_are_started_anew(deployment: Deployment, outcomes: set[int]) -> None:
    rows = check_same_rows(
        Case(deployment, events=(RollingRestart(0.3, "node", 0.3),), users=1_000)
    )
    assert set(rows[:, kernel.OUTCOME]) == outcomes


@pytest.mark.soak
def test_other_operations() -> None:
    """Each with keys of its own: nobody asks with what was replaced meanwhile."""
    names = (SIGN, "generate ed25519", "recover ed25519", "validate password", "validate share")
    rows = check_same_rows(Case(operations=names, users=10_000, per_s=10.0), close_ms=BYTES_MS)
    assert set(rows[:, kernel.OPERATION_OF]) == set(range(len(names)))
    assert (rows[:, kernel.OUTCOME] == kernel.DONE).all()


def test_runs_of_either_exactness_agree() -> None:
    deployment, workload = Deployment(NEAR), Workload(Steady(12.0), {SIGN: 1.0}, users=5)
    known = replace(
        made_up_costs([record_operation(SIGN)]), version={SIGN: record_operation(SIGN).digest}
    )
    one, other = (
        deployment.run(workload, seconds=2, costs=known, exactness=exactness)
        for exactness in ("recorded", "real")
    )
    assert one.outcomes() == other.outcomes()
    assert one.percentile(50).ms == pytest.approx(other.percentile(50).ms, rel=0.002)


def test_live_computing() -> None:
    # Each call is another user's: on a busy machine two of one user would meet, and one be refused.
    case = Case(seconds=1.0, seed=50)
    ((_, (_, _, users)),) = case.arrivals()
    assert len({*users.tolist()}) == len(users) == 9
    (sampled, _), (live, totals) = case.run_recorded(), case.real(compute="live")
    assert len(live) == len(sampled)
    assert (live[:, kernel.OUTCOME] == kernel.DONE).all()
    assert (live[:, kernel.ENDED] > live[:, kernel.BEGAN]).all()
    assert not totals.cpu.any()


def test_a_wrong_signature_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = LocalService.answer

    async def wrong(self: LocalService, request: Any, node: int = 0) -> Any:
        found = await answer(self, request, node)
        if request.url.path.endswith("/sign"):
            first = b"0" if found.content[14:15] == b"1" else b"1"
            found._content = found.content[:14] + first + found.content[15:]
        return found

    monkeypatch.setattr(LocalService, "answer", wrong)
    with pytest.raises(WrongAnswer, match="a signature of ed25519 does not verify"):
        Case(seconds=1.0).real()


@pytest.mark.parametrize("signature", [b"", bytes(64), bytes(65), bytes(64) + b"\x1b"])
@pytest.mark.parametrize(("curve", "key"), [("secp256k1", b"\2" * 33), ("ed25519", b"X" * 32)])
def test_what_is_no_signature_is_no_other_error(curve: str, key: bytes, signature: bytes) -> None:
    document = {"curve": curve, "public_key": f"0x{key.hex()}"}
    with pytest.raises(WrongAnswer, match=f"a signature of {curve} does not verify"):
        _verify(document, bytes(32), signature)


@pytest.mark.parametrize("policy", ["both", "signer"])
def test_suspensions_are_exchanged_where_one_node_opens_vaults(policy: str) -> None:
    done: list[str] = []

    async def renew() -> None:
        done.append("renewed")

    def begin() -> None:
        raise InterruptedError

    service: Any = object.__new__(LoadedService)
    service._failed, service._settings = None, SimpleNamespace(vault_policy=policy)
    service._renew, service._clock = renew, SimpleNamespace(begin=begin)
    service._start = lambda coroutine: coroutine.close()
    with pytest.raises(InterruptedError):
        asyncio.run(service._advance_to(1.0))
    assert bool(done) == (policy == "signer")


def test_nothing_is_due_after_the_end() -> None:
    kernel: Any = object.__new__(AsyncKernel)
    kernel._timer, kernel._over = None, True
    kernel.apply_due_events()


def test_a_connection_is_held_while_something_is_under_way() -> None:
    released: list[int] = []
    carrier: Any = SimpleNamespace(release=released.append, process=lambda *_: 0)
    call: Any = SimpleNamespace(request=lambda *_: ("request", "answer"))
    exchange = _LoadedExchange(carrier, call, CLIENT, None, 7)
    exchange._taken, exchange._under_way = True, 1
    exchange.close()
    assert not released
    exchange._under_way = 0
    exchange.close()
    assert released == [7]


def test_requests_between_two_ends_are_counted() -> None:
    kind: Any = SimpleNamespace(message=lambda name: name, count=1)
    call = Call(cast(Any, None), kind, 0, np.uint64(0))
    for nth in range(2):
        names = [message_name(CLIENT, None, nth, answer=answer) for answer in (False, True)]
        assert [*call.request(CLIENT, None)] == names
    call.over = True
    call.note_sent(Message(0, 0, 0, 0), 0.0)  # it has no record any more


def test_a_recorded_call_is_of_its_curve() -> None:
    asked: list[str] = []
    user = SimpleNamespace(post=lambda path, json: asked.append(json["curve"]))
    for curve in ("secp256k1", "ed25519"):
        _caller(cast(Any, SimpleNamespace(user=lambda name: user)), f"generate {curve}")()
    assert asked == ["secp256k1", "ed25519"]


@pytest.mark.parametrize(
    ("part", "cores", "expected"),
    [("node", 1, 3), ("node", 4, 8), ("gateway", 4, 8), ("node", 99, 32), ("gateway", 99, 32)],
)
def test_a_process_has_the_threads_of_its_pools(part: str, cores: int, expected: int) -> None:
    assert threads(part, cores) == expected


def test_what_is_under_way_comes_to_an_end() -> None:
    case = Case(replace(TWO_NODES, network=FAR), seconds=1.0)
    with LoadedService(
        case.layout(), case.deployment, case.arrivals(), lambda rows: None
    ) as service:
        service.run(300.0)
        assert service.state["in_flight"] > 0


@pytest.mark.parametrize(
    ("deployment", "events", "compute", "said"),
    [
        (Deployment(gateway=Part(2, replicas=2)), (), "sampled", r"one gateway.*: 2 processe"),
        (Deployment(), (ProcessCrash(1.0),), "sampled", "ProcessCrash of node: only exactness 'r"),
        (Deployment(STREAM), (), "sampled", "forwarding is 'stream'"),
        (Deployment(), (), "dead", "compute is 'dead'"),
    ],
)
def test_what_the_real_service_cannot_be(
    deployment: Deployment, events: Sequence[Event], compute: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        Case(deployment, events=events).real(compute=compute)
