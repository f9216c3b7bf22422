"""Costs: distributions, other machines, and files of them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpcsim.capacity.kernel.draws import quantile
from mpcsim.capacity.model.costs import POINTS, Costs, Scheduling, Stage
from mpcsim.capacity.model.operations import Operation
from mpcsim.capacity.model.speed import Speed
from mpcsim.cli.measure.calibrate import table
from mpcsim.errors import UsageError
from mpcsim.sim.replay import GraphMessage, MessageGraph, Step
from tests.helpers.reviewed import check_calls

SAMPLES = np.random.default_rng(1).lognormal(0.0, 0.5, 5000)
HERE = Speed(20.0, 400.0, 50.0, 1.0)


def operation(size: int = 100) -> Operation:
    packets = (GraphMessage("request 1 client → gateway", 3, 0, size, 0, 0),)
    steps = (Step(3, "rest", 1, "client 1", (), (0,)), Step(3, "rest", 2, "client done", (0,), ()))
    return Operation("sign secp256k1", MessageGraph("sign", steps, packets, "rest"), 10, 20, ())


def costs(*stages: Stage) -> Costs:
    return Costs(
        {"sign secp256k1": {"the call": stages or (Stage.from_samples("loop", SAMPLES, 0.25),)}},
        {"node": 0.1},
        {"node": (100.0, 0.5)},
        HERE,
        {"sign secp256k1": operation().digest},
        {"node": 0.2},
        40.0,
        0.05,
        Scheduling(0.5, 0.25, 1.0),
        {"sign secp256k1": {"light": {"node": 3.0}}},
    )


def test_a_distribution_has_the_mean_and_the_tail_of_what_was_measured():
    stage = Stage.from_samples("loop", SAMPLES)
    assert stage.mean_ms == pytest.approx(SAMPLES.mean(), rel=1e-9)
    draw_times = draws_of(stage)
    for q in (0.5, 0.9, 0.99, 0.999):
        assert np.quantile(draw_times, q) == pytest.approx(np.quantile(SAMPLES, q), rel=0.02)


def draws_of(stage):
    u = np.random.default_rng(2).random(200_000)
    return np.interp(u, stage.at_levels, stage.quantiles_ms)


def test_seldom_pauses_stay_what_they_are():
    """Queues wait for the second moment: a pause in a hundred is not smeared over the last 3 %."""
    generator = np.random.default_rng(3)
    samples = np.where(generator.random(3_600) < 0.0115, 30.0, 1.0) * generator.normal(
        1, 0.01, 3_600
    )
    stage = Stage.from_samples("loop", samples)
    draw_times = draws_of(stage)
    assert np.quantile(draw_times, [0.98, 0.99]) == pytest.approx([1.02, 30], rel=0.03)
    assert np.square(draw_times).mean() == pytest.approx(np.square(samples).mean(), rel=0.03)
    tables, levels = np.array([stage.quantiles_ms]), stage.at_levels[None]
    for u in (0.0, 0.3, 0.989, 0.9999):  # what the kernel draws
        ms = quantile(tables, levels, np.zeros(1, int), 0, u)
        assert ms == pytest.approx(np.interp(u, stage.at_levels, stage.quantiles_ms))


@pytest.mark.parametrize("more", [0.7, 0.0, -0.3])
def test_what_comes_on_top_changes_the_mean_by_that(more):
    stage = Stage.from_samples("loop", SAMPLES, 0.5)
    other = stage.increased_by(more)
    assert other.mean_ms == pytest.approx(stage.mean_ms + more)
    if more > 0:  # curve arithmetic takes as long as before
        assert other.curve * other.mean_ms == pytest.approx(stage.curve * stage.mean_ms)


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("loop", 0.25 * 0.5 + 0.75 * 3),
        ("thread", 0.25 * 0.5 + 0.75 * 3),
        ("free thread", 5),
        ("loop disk", 7),
        ("thread disk", 7),
    ],
)
def test_another_machine_takes_longer_by_what_a_stage_consists_of(kind, factor):
    here = costs(Stage.from_samples(kind, SAMPLES, 0.25))
    there = here.scaled(Speed(10.0, 1200.0, 250.0, 7.0))
    (before,), (after,) = (c.stages_of("sign secp256k1", "the call") for c in (here, there))
    assert after.mean_ms == pytest.approx(before.mean_ms * factor)
    assert there.turn_ms["node"] == pytest.approx(0.3)
    assert there.cold_ms["node"] == pytest.approx(0.6)
    (back,) = there.scaled(HERE).stages_of("sign secp256k1", "the call")
    assert back.quantiles_ms == pytest.approx(before.quantiles_ms)
    assert back.curve == pytest.approx(before.curve) or kind not in ("loop", "thread")


def test_a_file_holds_all_of_it(tmp_path):
    costs().save(tmp_path / "costs.json")
    found = Costs.load(tmp_path / "costs.json")
    found.save(tmp_path / "again.json")
    assert Costs.load(tmp_path / "again.json") == found
    (before,), (after,) = (c.stages_of("sign secp256k1", "the call") for c in (costs(), found))
    assert after.quantiles_ms == pytest.approx(before.quantiles_ms, rel=1e-3)
    assert replace(found, stages=costs().stages) == costs()


def test_what_is_no_file_of_costs_gets_one_clear_error(tmp_path):
    path = tmp_path / "costs.json"
    costs().save(path)
    good = json.loads(path.read_text())

    def read(content):
        path.write_text(json.dumps(content))
        with pytest.raises(UsageError) as refused:
            Costs.load(path)
        raise UsageError(str(refused.value).removeprefix(str(path)))

    def load(without="", **changes):
        read({name: value for name, value in (good | changes).items() if name != without})

    def stages(*each):
        load(stages={"x": {"y": each}})

    names = {"read": read, "load": load, "stages": stages, "COSTS": good, "FLAT": [1] * POINTS}
    check_calls(Path(__file__).with_name("wrong_costs.txt"), **names)


@pytest.mark.parametrize("text", ["", "{", '{"format": 1, "format": 2}', '{"machine": NaN}'])
def test_what_is_no_json_gets_one_clear_error(tmp_path, text):
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"costs\.json: no costs: "):
        Costs.load(path)


def test_costs_of_another_version_name_the_command():
    costs().check_version([operation()])
    with pytest.raises(UsageError, match="another version of the service: mpcsim calibrate"):
        costs().check_version([operation(size=101)])
    with pytest.raises(UsageError, match="nothing is known of its answer"):
        costs().stages_of("sign secp256k1", "its answer")


@pytest.mark.parametrize(("twin_ms", "disturbed"), [(13.0, False), (15.0, True)])
def test_costs_that_contradict_each_other_are_told(twin_ms, disturbed):
    cpu_ms = {"node": 5.0, "gateway": 8.0, "twin": twin_ms}
    loads = {"light": cpu_ms, "heavy": cpu_ms}
    found = replace(costs(), cpu_ms={"sign secp256k1": loads})
    assert found.is_disturbed == disturbed
    assert ("CONTRADICT" in table(found)) == disturbed
    assert math.isnan(costs().fit_error)


def test_the_costs_of_the_package_were_not_disturbed():
    assert 0 < Costs.measured().fit_error < 0.03


def test_the_speed_of_a_machine_is_the_median_of_some():
    assert Speed.median([HERE, Speed(1.0, 500.0, 49.0, 2.0), HERE]) == HERE


def test_a_machine_of_nothing_is_refused():
    with pytest.raises(UsageError, match="fsync_ms"):
        Speed(1.0, 1.0, 1.0, 0.0)
