"""Distributions for round trips: they come near what the round trips were drawn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpcsim.errors import UsageError
from mpcsim.sim.network.latency import Constant, Empirical, Gamma, Latency, LogNormal, Normal
from mpcsim.sim.network.measured import Series, fit, read
from mpcsim.sim.network.measured.series import Probe
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent


def series(times: np.ndarray | list[float], **more: object) -> Series:
    return Series("x", "y", "test", Probe.TCP, tuple(map(float, times)), **more)  # type: ignore[arg-type]


def both_ways(one_way: Latency, n: int = 2000) -> Series:
    generator = np.random.default_rng(5)
    return series(one_way.sample(generator, n) + one_way.sample(generator, n))


@pytest.mark.parametrize(
    ("name", "one_way"),
    [
        ("log-normal", LogNormal(15, 0.8, 10)),
        ("gamma", Gamma(15, 2.0, 10)),
        ("normal", Normal(15, 2, 11)),
    ],
)
def test_the_family_that_it_was(name: str, one_way: Latency) -> None:
    found = fit(both_ways(one_way), name).chosen
    assert found.name == name
    assert found.ks is not None
    assert found.ks < 0.04
    assert found.one_way.mean_ms == pytest.approx(one_way.mean_ms, rel=0.02)
    assert found.one_way.std_ms == pytest.approx(one_way.std_ms, rel=0.15)


def test_the_floor_is_never_above_the_least() -> None:
    found = fit(read(FOLDER / "ping_linux.txt").series[0])
    least = min(found.series.rtt_ms)
    for each in found.candidates:
        if isinstance(floor := getattr(each.one_way, "floor_ms", None), float):
            assert 2 * floor <= least


def test_a_summary_keeps_its_moments() -> None:
    measured = read(FOLDER / "mtr.json").series[0]
    assert measured.summary is not None
    found = fit(measured).chosen
    assert found.ks is None
    assert 2 * found.one_way.mean_ms == pytest.approx(measured.summary.mean_ms)
    assert found.one_way.std_ms * 2**0.5 == pytest.approx(measured.summary.std_ms)
    assert isinstance(found.one_way, LogNormal)
    assert 2 * found.one_way.floor_ms == measured.summary.least_ms
    found = fit(replace(measured, one_way=True)).chosen  # these are twice the times one way
    assert 2 * found.one_way.std_ms == pytest.approx(measured.summary.std_ms)


def test_the_samples_themselves_give_the_measured_round_trips() -> None:
    measured = read(FOLDER / "ping_linux.txt").series[0]
    for found in (fit(measured, "empirical").chosen, fit(measured, blocks=24).chosen):
        assert isinstance(found.back, Constant)
        assert found.back.ms == min(measured.rtt_ms) / 2
        assert found.round_trip_mean_ms == pytest.approx(np.mean(measured.rtt_ms))
        assert set(np.round(found.round_trips(5000), 9)) <= set(np.round(measured.rtt_ms, 9))
        assert found.ks is not None
        assert found.ks < 0.02


def test_no_family_for_two_routes() -> None:
    generator = np.random.default_rng(2)
    times = np.where(generator.random(500) < 0.5, 20, 90) + generator.random(500)
    found = fit(series(times))
    assert found.chosen.name == "empirical"
    assert "no family fits (the nearest" in found.warnings[0]


def test_bursts_are_noticed() -> None:
    found = fit(read(FOLDER / "ping_linux.txt").series[0])
    # The logarithms remember 0.8; a correlation of 0.8^n is in the noise of 2 / sqrt(593) at 11.
    assert found.neighbours == pytest.approx(0.8, abs=0.06)
    assert found.memory == pytest.approx(11, abs=5)
    assert f"--blocks={2 * found.memory} keeps them" in found.warnings[-1]
    independent = fit(both_ways(LogNormal(15, 0.8, 10), 500))
    assert (independent.memory, independent.warnings) == (0, ())


def test_equal_round_trips_are_no_burst() -> None:
    """A clock of whole milliseconds: most times are the same."""
    times = np.random.default_rng(1).choice([12.0, 13.0, 14.0], 600, p=[0.8, 0.1, 0.1])
    found = fit(series(times), "empirical")
    assert abs(found.neighbours) < 0.1
    assert (found.memory, found.warnings) == (0, ())


def test_few_samples_and_one() -> None:
    assert "only 5 round trips" in fit(series([20, 21, 25, 20.5, 22])).warnings[0]
    # As between regions: the median of one way is half of the round trip.
    one = fit(series([20.0])).chosen
    assert isinstance(one.one_way, LogNormal)
    assert one.one_way.median_ms == 10.0
    alike = fit(series([20.0] * 40))
    assert alike.chosen.one_way.mean_ms == 10.0


def refused(message: str, measured: Series, *args: object, **more: object) -> None:
    with pytest.raises(UsageError, match=message):
        fit(measured, *args, **more)  # type: ignore[arg-type]


def test_what_cannot_be() -> None:
    some = series([20, 21, 25, 20.5, 22])
    refused("unknown distribution 'gama'; did you mean gamma", some, "gama")
    refused("blocks are of the samples themselves, not of a gamma", some, "gamma", 2)
    refused("blocks of 0 from 5 samples: from 1 to 2", some, blocks=0)
    refused("blocks of 3 from 5 samples", some, blocks=3)
    refused("time goes backwards in the file: sort it", series([20, 21], in_order=False), blocks=1)
    refused("these round trips allow no gamma", series([20, 20, 20]), "gamma")
    refused("blocks need the samples one by one", read(FOLDER / "mtr.json").series[0], blocks=2)


# ------------------------------------------------------------------ tails


def test_a_tail_that_no_family_has_is_kept() -> None:
    """18 of 3,600 round trips take half a second: hardly a difference of the distributions."""
    generator = np.random.default_rng(7)
    times = generator.normal(40.0, 1.5, 3_600)
    times[::200] = generator.normal(500.0, 5.0, 18)
    found = fit(series(times))
    assert found.chosen.name == "empirical"
    assert np.percentile(found.chosen.round_trips(50_000), 99.9) > 450
    assert "ms in the slowest percent instead of 2" in found.warnings[0]
    assert fit(series(times[:60])).chosen.name == "empirical"  # one of 60
    named = fit(series(times), "normal")
    assert named.chosen.name == "normal"
    assert "normal has another tail" in named.warnings[0]


@pytest.mark.parametrize("n", [60, 600, 6_000])
def test_a_tail_of_the_family_itself_is_no_other_tail(n: int) -> None:
    for one_way in (LogNormal(15, 0.8, 10), Gamma(15, 2.0, 10), Normal(15, 2, 11)):
        chosen = fit(both_ways(one_way, n)).chosen
        assert chosen.name != "empirical"


# ------------------------------------------------------------------ one way


@pytest.mark.parametrize("heading", ["one_way_ms", "latency_one_way_ms", "latency_ms", "rtt_ms"])
def test_a_heading_means_the_same_everywhere(heading: str, tmp_path: Path) -> None:
    """Times of 41 ms one way on average stay 41 and keep their spread; round trips are halved."""
    times = np.random.default_rng(3).normal(41.0, 4.0, 1_000)
    path = tmp_path / "times.csv"
    path.write_text("\n".join([heading, *map(str, times)]))
    [measured] = read(path).series
    round_trip = heading == "rtt_ms"
    assert measured.format == f"CSV of {'round trips' if round_trip else 'one-way times'}"
    for name in ("normal", "empirical"):
        chosen = fit(measured, name).chosen
        latency = chosen.one_way
        assert chosen.round_trip_mean_ms / 2 == pytest.approx(41.0 / (1 + round_trip), rel=0.01)
        if not round_trip:
            assert (latency.mean_ms, latency.std_ms) == pytest.approx((41.0, 4.0), rel=0.05)
            assert chosen.back is None
    path_of_regions = tmp_path / "regions.csv"
    path_of_regions.write_text(f"{heading},x,y\nx,,41\ny,41,\n")
    [regions] = read(path_of_regions).series
    assert regions.format == "matrix of regions (CSV)" + ", one way" * (not round_trip)
    assert regions.rtt_ms == (41.0 * (2 - round_trip),)
    made = Empirical.from_rtt(path) if round_trip else Empirical.from_csv(path)
    assert made.mean_ms == pytest.approx(41.0 / (1 + round_trip), rel=0.01)
    wrong = Empirical.from_csv if round_trip else Empirical.from_rtt
    with pytest.raises(UsageError, match="one way"):
        wrong(path)
