"""Calibration: what meters wrote, what fits it, and a real service."""

import json
import math
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from mpcsim.capacity.calibration import calibrate, calibrating, prediction, reading
from mpcsim.capacity.calibration.calibrating import _pool_samples
from mpcsim.capacity.calibration.fitting import (
    Observations,
    solve_costs,
    stages,
    uncontended_activity,
)
from mpcsim.capacity.calibration.measuring import (
    KERNEL,
    Measurement,
    meter_environment,
    run_measured_service,
)
from mpcsim.capacity.calibration.prediction import (
    Load,
    LoopActivity,
    Prediction,
    handling_parts,
)
from mpcsim.capacity.model.costs import LATER, Stage
from mpcsim.capacity.model.operations import REQUEST, RESPONSE, Operation
from mpcsim.capacity.model.speed import Speed
from mpcsim.capacity.recording import record_operation
from mpcsim.errors import UsageError
from mpcsim.ids import CLIENT
from mpcsim.sim.replay import GraphMessage, MessageGraph, Step
from mpcsim.sim.replay.steps import GATEWAY
from tests.helpers.processes import until
from tests.helpers.reviewed import check_reviewed

ADDRESSES = {
    "operator": "http://127.0.0.1:20001",
    "institution": "http://127.0.0.1:20002",
    "gateway": "http://127.0.0.1:20003",
    "node": "http://127.0.0.1:20000",  # whose address begins like no other's
}
MS = 1_000_000


def line(call, began, *parts):
    """What a meter writes about a request."""
    rows = [[what, loop, 0, 0, 0, 0, 0, 0, 0, 0, [loop]] for what, loop in parts]
    return json.dumps([call, "/path", began, rows])


def write(folder, part, *lines):
    path = folder / f"{part}.jsonl"
    path.write_text("".join(each + "\n" for each in lines))
    return reading.read([path])


@pytest.fixture
def requests(tmp_path):
    at = ADDRESSES
    return {
        "node": write(
            tmp_path,
            "node",
            line("a", 10.0, ("request", MS), (at["gateway"] + "/sign", 2 * MS)),
            line("b", 99.0, ("request", 9 * MS)),
        ),
        "gateway": write(
            tmp_path,
            "gateway",
            # The meter writes them as they end.
            line("a", 10.2, ("request", 5 * MS), (at["operator"] + "/exchange", 6 * MS)),
            line(
                "a",
                10.1,
                ("request", 3 * MS),
                (at["institution"] + "/open", MS // 2),
                (at["operator"] + "/sign", 4 * MS),
            ),
            line("x", 10.1, ("request", 8 * MS)),
        ),
        "operator": write(
            tmp_path, "operator", line("a", 10.15, ("request", 7 * MS)), line("a", 10.3, ("r", MS))
        ),
        "institution": write(tmp_path, "institution", line("a", 10.15, ("request", 8 * MS))),
    }


def test_what_made_a_server_go_on_is_a_message_of_the_graph(requests):
    found = reading.samples(requests, ADDRESSES, [(9.0, 11.0)])
    assert {name: list(rows[:, 0]) for name, rows in found.by_message.items()} == {
        REQUEST: [1],
        "answer to request 1 client → gateway": [2],
        "request 1 client → gateway": [3],
        "answer to request 1 gateway → institution": [0.5],
        "answer to request 1 gateway → operator": [4],
        "request 2 client → gateway": [5],
        "answer to request 2 gateway → operator": [6],
        "request 1 gateway → operator": [7],
        "request 2 gateway → operator": [1],
        "request 1 gateway → institution": [8],
    }
    assert found.handled_at["answer to request 1 gateway → operator"] == "gateway"


def test_calls_outside_of_the_windows_do_not_count(requests):
    assert reading.samples(requests, ADDRESSES, [(11.0, 99.0)]).by_message == {}
    both = reading.samples(requests, ADDRESSES, [(9.0, 11.0), (99.0, 100.0)])
    assert list(both.by_message[REQUEST][:, 0]) == [1, 9]


def columns(**ms):
    return np.array([[ms.get(name, 0.0) for name in reading.COLUMNS]] * 3)


def test_event_loops_have_as_many_turns_for_a_message_as_most_often():
    turns = [np.array(each) for each in ([1.0, 3.0], [2.0, 2.0], [4.0])]
    found = reading.Samples({"m": columns(loop=8.0, later=1.0)}, {}, {"m": turns})
    made = found.stages("m", reading.Samples({}, {}))
    # Two turns are as long together as all on average.
    assert [(stage.kind, pytest.approx(stage.mean_ms)) for stage in made] == [
        ("loop", 3.0),
        ("loop", 5.0),
        (LATER, 1.0),
    ]


def test_a_load_in_which_a_stage_never_occurs_leaves_the_others_as_they_are():
    tables = [columns(loop=1.0), columns(loop=3.0, later=2.0)]
    made = _pool_samples([reading.Samples({"m": table}, {}) for table in tables])
    assert np.isfinite(made.by_message["m"]).all()
    assert [(stage.kind, stage.mean_ms) for stage in made.stages("m", reading.Samples({}, {}))] == [
        ("loop", pytest.approx(2.0)),
        (LATER, pytest.approx(1.0)),
    ]


# ---------------------------------------------------------------------- fitting


def operation() -> Operation:
    packets = (
        GraphMessage("request 1 client → gateway", CLIENT, GATEWAY, 10, 0, 0),
        GraphMessage("answer to request 1 client → gateway", GATEWAY, CLIENT, 10, 1, 0),
    )
    steps = (
        Step(CLIENT, "rest", 1, "client 1", (), (0,)),
        Step(GATEWAY, "rest", 1, "gateway 1", (0,), (1,)),
        Step(CLIENT, "rest", 2, "client done", (1,), ()),
    )
    return Operation("sign secp256k1", MessageGraph("sign", steps, packets, "rest"), 1, 1, ())


PARTS = ("caller", "node", "gateway")
STAGES = {
    REQUEST: (Stage.from_samples("loop", np.array([1.0, 2.0, 3.0])),),
    "request 1 client → gateway": (
        Stage.from_samples("loop", np.array([0.5])),
        Stage.from_samples("loop disk", np.array([9.0])),
        Stage.from_samples("thread", np.array([4.0])),
        Stage.from_samples("loop", np.array([0.5])),
    ),
    "answer to request 1 client → gateway": (Stage.from_samples("free thread", np.array([7.0])),),
}
PACES = {
    Load(per_s=10.0): LoopActivity(3.0, 0.8),
    Load(per_s=20.0): LoopActivity(2.9, 0.5),
    Load(per_s=30.0): LoopActivity(2.0, 0.1),
    Load(32): LoopActivity(0.4, 0.0),
}


def observed(own, turn, cold):
    cpu = {
        load: dict.fromkeys(PARTS, own + turn * activity.iterations + cold * activity.coldness)
        for load, activity in PACES.items()
    }
    return Observations(operation(), cpu, STAGES)


def activities(*each):
    return {
        (one.operation.name, load): dict.fromkeys(PARTS, activity)
        for one in each
        for load, activity in PACES.items()
    }


@pytest.mark.parametrize(("turn", "cold"), [(0.3, 1.0), (0.3, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_what_turns_cost_is_found_again(turn, cold):
    one = observed(10.0, turn, cold)
    found = solve_costs([one], activities(one), 40.0)
    assert found.turn_ms["node"] == pytest.approx(turn, abs=0.06)
    assert found.cold_ms["node"] == pytest.approx(cold, abs=0.06)
    assert found.own_ms["sign secp256k1", "node"] == pytest.approx(10.0, rel=0.01)
    assert found.rms_error < 0.005
    for load, cpu in one.cpu_ms.items():
        said = found.predicted_ms["sign secp256k1", load]
        assert said == pytest.approx(sum(cpu.values()), rel=0.01)


def test_what_the_meters_do_not_see_is_shared_out():
    one = observed(20.0, 0.3, 1.0)
    found = solve_costs([one], activities(one), 40.0)
    made = stages(one, found)
    assert made.keys() == {*STAGES, RESPONSE}
    for part in PARTS:
        spent = sum(
            stage.mean_ms
            for message, at in handling_parts(operation()).items()
            if at == part
            for stage in made[message]
            if not stage.kind.endswith("disk")
        )
        assert spent == pytest.approx(found.own_ms["sign secp256k1", part])
    # The event loop takes in what a thread works on, and takes it up again.
    kinds = [stage.kind for stage in made["answer to request 1 client → gateway"]]
    assert kinds == ["loop", "free thread"]
    assert uncontended_activity(one)["gateway"].iterations == 2
    loop, disk, thread, after = made["request 1 client → gateway"]
    assert (disk.mean_ms, thread.mean_ms) == pytest.approx((9.0, 4.0))
    assert loop.mean_ms == pytest.approx(after.mean_ms)


# ---------------------------------------------------------------------- the whole of it


class Clock:
    """A clock that goes on while others sleep and measure."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def busyness(jobs: float, cooling_ms: float) -> LoopActivity:
    return LoopActivity(2 / (1 + jobs / 8), math.exp(-(1 + jobs) * cooling_ms / 400))


class MadeUpService:
    """A service with a process for each part, whose calls take as long as the load says."""

    def __init__(self, name: str, log: list[str], clock: Clock) -> None:
        self.name, self.log, self.clock = name, log, clock
        self.windows: list[tuple[float, float]] = []
        ids = {part: n for n, part in enumerate(ADDRESSES, 40)}
        cpu_ms = lambda: {part: 3.0 * clock.now * n for n, part in enumerate(PARTS[1:], 1)}  # noqa: E731
        self.served = SimpleNamespace(process_ids=ids, addresses=ADDRESSES, cpu_ms=cpu_ms)

    def closed(self, name: str, most: int, calls: int) -> Measurement:
        return self.measured(name, most, 0.0, calls, f"{most} at a time")

    def open(self, name: str, per_s: float, calls: int, seed: int, *, keys: int) -> Measurement:
        load = f"{per_s:.4g} a second, seed {seed}, {keys} keys"
        return self.measured(name, 0, per_s, calls, load)

    def measured(self, name: str, most: int, per_s: float, calls: int, load: str) -> Measurement:
        self.log.append(f"{self.name}: {calls} calls of {name}, {load}")
        more = 1 + (len(self.windows) % 3) / 100  # no two rounds are alike
        jobs = most or per_s / 60
        took_ms = more * (24 + jobs / 50)
        seconds = calls * took_ms / 1000 / jobs
        self.windows.append((self.clock.now, self.clock.now + seconds))
        self.clock.now += seconds
        iterations, coldness = busyness(jobs, 80.0)
        cpu = {part: more * (n + 0.3 * iterations + coldness) for n, part in enumerate(PARTS, 4)}
        idle = {part: 90.0 + n + more for n, part in enumerate(PARTS[1:])}
        peak = {part: mb + jobs for part, mb in idle.items()}
        spent = (np.full(calls, took_ms), 0, seconds, cpu | {KERNEL: 0.6 * more / jobs})
        return Measurement(name, load, *spent, idle, peak, 50.0 * more, self.windows[-1])

    def write_meters(self, folder: Path) -> None:
        """The last two calls of each measurement."""
        said: dict[str, list[str]] = {part: [] for part in ADDRESSES}
        for number, (_, end) in enumerate(self.windows):
            for k in (1, 2):
                call, began, ms = f"{number} {k}", end - k / 1000, (MS + 1000 * number) * k
                row = [
                    ms // 50 if "curve" in name else ms * n // 8
                    for n, name in enumerate(reading.COLUMNS, 1)
                ]
                loop = row[reading.COLUMNS.index("loop")]
                taken = [[what, *row, [loop // 4, loop - loop // 4]] for what in ("request", "x/")]
                taken[1][0] = f"{ADDRESSES['gateway']}/sign"
                said["node"].append(json.dumps([call, "/", began, taken]))
                said["gateway"].append(json.dumps([call, "/", began, taken[:1]]))
        for part, number in self.served.process_ids.items():
            (folder / f"{number}.jsonl").write_text("\n".join(said[part]))


def predict(operation, costs, load, cores, *, hop_ms=0.0, calls=prediction.CALLS):
    """Instead of a run of the model: the busier it is, the fewer turns a call takes."""
    assert (cores, calls) == (2, prediction.CALLS)
    jobs = load.in_flight or load.per_s / 60
    activity = busyness(jobs, costs.cooling_ms)
    every = [stage for each in costs.stages[operation.name].values() for stage in each]
    took_ms = sum(stage.mean_ms for stage in every) + sum(costs.turn_ms.values()) + 3 * hop_ms
    together, ahead, takes, _ = vars(costs.scheduling).values()
    slower = 1 + (together - 0.7) ** 2 + (ahead - 0.25) ** 2 + takes / 5
    per_s = 1000 * jobs / took_ms / slower
    return Prediction(dict.fromkeys(PARTS, activity), np.array([1.0, took_ms, 99.0]), per_s)


def test_a_calibration_is_as_it_was_reviewed(tmp_path, monkeypatch):
    """What is measured, in which order, and the costs that follow; the services and the model's
    runs are made up."""
    log: list[str] = []
    clock = Clock()

    @contextmanager
    def run(environment=MappingProxyType({})):
        folder, *curves = environment.values() or ("plain",)
        service = MadeUpService(Path(folder).name, log, clock)
        assert curves == ["1"] * (service.name == "curves")
        yield service
        if environment:
            service.write_meters(Path(folder))

    for name, value in {
        "run_measured_service": run,
        "record_operation": lambda name: replace(operation(), name=name),
        "time": clock,
        "os": SimpleNamespace(cpu_count=lambda: 2),
    }.items():
        monkeypatch.setattr(calibrating, name, value)
    monkeypatch.setattr(prediction, "predict", predict)
    monkeypatch.setattr(Speed, "measured", lambda folder: Speed(1.0, 2.0, 3.0, clock.now))

    def report(what: str, done: float) -> None:
        log.append(f"{done:.4f} {what}")

    costs = calibrate(["sign secp256k1", "generate ed25519"], 1.0, report)
    costs.save(tmp_path / "costs.json")
    text = (tmp_path / "costs.json").read_text()
    # Of long lists the first four numbers and the last.
    text = re.sub(r"(\[[\d.]+(?:,[\d.]+){3})[\d.,]{60,}((?:,[\d.]+){4}\])", r"\1 ..\2", text)
    check_reviewed("\n".join([*log, text]), Path(__file__).with_name("calibration.txt"))


# ---------------------------------------------------------------------- recorded operations


def test_an_unknown_operation_is_refused():
    with pytest.raises(UsageError, match="unknown operation 'sing ed25519'; did you mean"):
        record_operation("sing ed25519")
    with pytest.raises(UsageError, match="unknown operation"):
        calibrate(["sing ed25519"])
    with pytest.raises(UsageError, match="no operations"):
        calibrate([])
    with pytest.raises(UsageError, match="minutes"):
        calibrate(["sign ed25519"], minutes=0)


# ---------------------------------------------------------------------- a real service


@pytest.mark.soak
def test_the_meters_account_for_what_a_real_service_uses(tmp_path):
    name = "sign secp256k1"
    with run_measured_service(meter_environment(tmp_path)) as service:
        one = service.closed(name, in_flight=1, calls=30)
        some = service.closed(name, in_flight=8, calls=60)
        due = service.open(name, one.per_s / 3, calls=20, seed=1)
        numbers, addresses = service.served.process_ids, service.served.addresses
    assert one.errors == some.errors == due.errors == 0
    assert len(due.latencies_ms) == 20
    assert some.in_flight == pytest.approx(8, rel=0.25)
    requests = {part: reading.read([tmp_path / f"{n}.jsonl"]) for part, n in numbers.items()}
    for measured in (one, some):
        found = reading.samples(requests, addresses, [measured.window_s])
        parts = handling_parts(record_operation(name))
        assert found.by_message.keys() == parts.keys() - {RESPONSE}
        assert {message: found.handled_at[message] for message in found.by_message} == {
            message: part for message, part in parts.items() if message != RESPONSE
        }
        for part, spent in measured.cpu_ms.items():
            mine = sum(
                stage.mean_ms
                for message, at in parts.items()
                if at == part and message != RESPONSE
                for stage in found.stages(message, found)
            )
            if part in addresses:  # the others have no meter
                assert 0.5 * spent < mine < 1.1 * spent


@pytest.mark.soak
def test_ctrl_c_stops_all_of_it(tmp_path):
    file = tmp_path / "costs.json"
    command = [sys.executable, "-m", "mpcsim", "calibrate", str(file)]
    with subprocess.Popen(
        [*command, "--operations", "validate share"], stderr=subprocess.PIPE
    ) as process:
        started = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: process.poll() is not None or len(started.read_text().split()) >= 4)
        children = started.read_text().split()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert not said
    assert not file.exists()
    # Whoever was just being started ends by itself, a moment later.
    until(lambda: not any(Path("/proc", number).exists() for number in children))
