"""Latency distributions: samples against their analytic moments, and what is refused."""

import ast
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import UsageError
from mpcsim.sim.network import latency
from mpcsim.sim.network.latency import (
    Constant,
    Empirical,
    Gamma,
    Latency,
    LogNormal,
    Normal,
    Pareto,
    Uniform,
)
from tests.helpers.reviewed import check_answers, check_calls

N = 20_000

times = st.floats(0, 1000)
positive = st.floats(0.1, 1000)


@st.composite
def uniforms(draw: st.DrawFn) -> Latency:
    low = draw(times)
    return Uniform(low, low + draw(times))


@st.composite
def normals(draw: st.DrawFn) -> Latency:
    """At least some 2% of the samples are above the floor."""
    mean, std = draw(times), draw(st.floats(0.1, 200))
    return Normal(mean, std, draw(st.floats(0, mean + 2 * std)))


@st.composite
def log_normals(draw: st.DrawFn) -> Latency:
    floor = draw(times)
    return LogNormal(floor + draw(positive), draw(st.floats(0, 1)), floor)


@st.composite
def gammas(draw: st.DrawFn) -> Latency:
    floor = draw(times)
    return Gamma(floor + draw(positive), draw(st.floats(0.3, 20)), floor)


latencies = st.one_of(
    st.builds(Constant, times),
    uniforms(),
    normals(),
    log_normals(),
    gammas(),
    st.builds(Pareto, positive, st.floats(6, 20), times),
    st.lists(times, min_size=1, max_size=30).map(Empirical.of),
)
"""Of every class, with tails light enough for Monte Carlo moments."""

EXAMPLES = (
    Constant(12.5),
    Uniform(3, 9),
    Normal(20, 5),
    Normal(2, 6),
    Normal(3, 4, 5),
    LogNormal(12, 0.25),
    LogNormal(12, 0.6, 10),
    Gamma(15, 0.7, 5),
    Gamma(15, 9),
    Pareto(4, 6, 8),
    Empirical((5.0, 7.5, 7.5, 20.0)),
)


def draw(latency: Latency, n: int = N, seed: int = 1) -> np.ndarray:
    return latency.sample(np.random.default_rng(seed), n)


# --------------------------------------------------------------------------- sampling


@given(latencies, st.integers(0, 2**32))
def test_samples_are_finite_and_never_negative(latency: Latency, seed: int) -> None:
    drawn = draw(latency, 500, seed)
    assert drawn.dtype == np.float64
    assert drawn.shape == (500,)
    assert np.isfinite(drawn).all()
    assert (drawn >= 0).all()


@pytest.mark.parametrize("latency", EXAMPLES[1:], ids=str)
def test_samples_follow_the_generator_alone(latency: Latency) -> None:
    assert not np.array_equal(draw(latency, 100, 1), draw(latency, 100, 2))
    generator = np.random.default_rng(1)
    first, second = latency.sample(generator, 100), latency.sample(generator, 100)
    assert not np.array_equal(first, second)
    np.random.seed(0)
    assert np.array_equal(first, draw(latency, 100, 1))


@given(latencies)
def test_mean_and_std_are_the_analytic_ones(latency: Latency) -> None:
    """Within six standard errors: the seed is fixed, so Hypothesis cannot hunt for a bad one; and
    eight, from the samples' own fourth moment."""
    drawn = draw(latency)
    tolerance = 6 * latency.std_ms / math.sqrt(N) + 1e-9 * latency.mean_ms + 1e-12
    assert abs(drawn.mean() - latency.mean_ms) <= tolerance
    squares = (drawn - drawn.mean()) ** 2
    error = squares.std() / math.sqrt(N)
    tolerance = 8 * error + 1e-9 * latency.mean_ms**2 + 1e-3 * latency.std_ms**2 + 1e-12
    assert abs(squares.mean() - latency.std_ms**2) <= tolerance


@pytest.mark.parametrize("latency", EXAMPLES, ids=str)
def test_empty_and_single_draws(latency: Latency) -> None:
    assert draw(latency, 0).shape == (0,)
    assert draw(latency, 1).shape == (1,)
    with pytest.raises(UsageError, match="cannot draw -1"):
        draw(latency, -1)


# --------------------------------------------------------------------------- scaled and shifted


@given(latencies, st.floats(0, 50))
def test_scaled_multiplies_every_sample(latency: Latency, factor: float) -> None:
    scaled = latency.scaled(factor)
    assert type(scaled) is type(latency)
    np.testing.assert_allclose(draw(scaled, 200), factor * draw(latency, 200), 1e-9, 1e-9)
    assert scaled.mean_ms == pytest.approx(factor * latency.mean_ms, 1e-9, 1e-9)
    assert scaled.std_ms == pytest.approx(factor * latency.std_ms, 1e-4, 1e-4)


@given(latencies, times)
def test_shifted_adds_to_every_sample(latency: Latency, ms: float) -> None:
    shifted = latency.shifted(ms)
    assert type(shifted) is type(latency)
    np.testing.assert_allclose(draw(shifted, 200), draw(latency, 200) + ms, 1e-9, 1e-9)
    assert shifted.mean_ms == pytest.approx(latency.mean_ms + ms, 1e-9, 1e-9)
    assert shifted.std_ms == pytest.approx(latency.std_ms, 1e-4, 1e-4)


@pytest.mark.parametrize("latency", EXAMPLES, ids=str)
def test_bad_factors_and_shifts_are_refused(latency: Latency) -> None:
    for bad in (-1, math.nan, math.inf, 10**400, "2"):
        with pytest.raises(UsageError, match="latency factor is"):
            latency.scaled(bad)  # type: ignore[arg-type]
    for bad in (math.nan, math.inf, -math.inf, None):
        with pytest.raises(UsageError, match="latency shift is"):
            latency.shifted(bad)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be negative"):
        latency.shifted(-100)


# --------------------------------------------------------------------------- each distribution


def test_log_normal_median_and_quantiles() -> None:
    drawn = draw(LogNormal(12, 0.25, 10), 400_000)
    assert drawn.min() >= 10
    low, median, high = np.percentile(drawn, (15.8655, 50, 84.1345))
    assert median == pytest.approx(12, rel=0.002)
    assert (low, high) == (
        pytest.approx(10 + 2 * math.exp(-0.25), rel=0.002),
        pytest.approx(10 + 2 * math.exp(0.25), rel=0.002),
    )


@given(times, positive, st.floats(0, 500))
def test_log_normal_with_mean(floor: float, excess: float, std: float) -> None:
    latency = LogNormal.with_mean(floor + excess, std, floor)
    assert latency.floor_ms == floor
    assert latency.mean_ms == pytest.approx(floor + excess, rel=1e-6)
    assert latency.std_ms == pytest.approx(std, rel=1e-5, abs=1e-9)


# --------------------------------------------------------------------------- measured samples


def test_empirical_draws_only_what_was_measured() -> None:
    latency = Empirical.of([5, 7, 7, 20])
    values, counts = np.unique(draw(latency), return_counts=True)
    assert values.tolist() == [5.0, 7.0, 20.0]
    assert counts / N == pytest.approx([0.25, 0.5, 0.25], abs=0.02)
    assert latency.mean_ms == statistics.fmean([5, 7, 7, 20])
    assert latency.std_ms == pytest.approx(statistics.pstdev([5, 7, 7, 20]))


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("1.5\n2\n\n30\n", 0, (1.5, 2.0, 30.0)),
        ("1.5\n2\n\n30\n", None, (1.5, 2.0, 30.0)),
        ("delay\n1.5\n2\n", 0, (1.5, 2.0)),
        ("delay,\n1.5,\n2,\n", None, (1.5, 2.0)),
        ("\ufeffhost,delay ms\na, 1.5\nb,2\n ,\n", "delay ms", (1.5, 2.0)),
        ('host,delay\r\n"x,y",3\r\n', 1, (3.0,)),
        ("latency_s\n0.25\n", None, (250.0,)),
        ("time,Latency [µs]\n1,1500\n", "Latency [µs]", (1.5,)),
        ("at,oneWayNs\n1,2000000\n", 1, (2.0,)),
        ("mapping,start_time\n1,2\n", "start_time", (2.0,)),  # no "ping", no "rtt"
    ],
)
def test_empirical_from_csv(
    tmp_path: Path, text: str, column: str | int | None, expected: tuple[float, ...]
) -> None:
    path = tmp_path / "samples.csv"
    path.write_text(text, encoding="utf-8")
    assert Empirical.from_csv(path, column).samples_ms == expected
    assert Empirical.from_csv(str(path), column) == Empirical(expected)


def test_bad_csv(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"

    def said(file: str) -> str:
        text, column = ast.literal_eval(file)
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError) as refused:
            Empirical.from_csv(path, column)
        with pytest.raises(UsageError) as of_round_trips:
            Empirical.from_rtt(path, column)
        assert str(of_round_trips.value) == str(refused.value)
        return str(refused.value).replace(str(path), "FILE")

    check_answers(said, Path(__file__).with_name("wrong_samples.txt"))


@pytest.mark.parametrize(
    ("name", "in_ms"),
    [
        ("rtt_ms", 1.0),
        ("RTT", 1.0),
        ("avgrtt", 1.0),
        ("rttMs", 1.0),
        ("ping", 1.0),
        ("Round-trip time (s)", 1000.0),
        ("roundtrip_us", 0.001),
    ],
)
def test_round_trips_are_not_taken_for_latencies(tmp_path: Path, name: str, in_ms: float) -> None:
    """A latency is one way; a file of pings read as one would double every distance."""
    path = tmp_path / "pings.csv"
    path.write_text(f"time,{name}\n1700000000,20\n1700000001,30\n", encoding="utf-8")
    for column in (name, 1):
        with pytest.raises(UsageError, match=r"holds round trips by its name.*from_rtt"):
            Empirical.from_csv(path, column)
        expected = pytest.approx((10 * in_ms, 15 * in_ms))
        assert Empirical.from_rtt(path, column).samples_ms == expected


def test_half_a_round_trip_is_one_way(tmp_path: Path) -> None:
    assert Empirical.from_rtt([20, 30]) == Empirical((10.0, 15.0))
    assert Empirical.from_rtt(np.array([0.02, 0.03]), unit="s") == Empirical((10.0, 15.0))
    path = tmp_path / "pings.csv"
    path.write_text("20\n30\n", encoding="utf-8")
    assert Empirical.from_rtt(path) == Empirical.from_rtt(str(path)) == Empirical((10.0, 15.0))
    assert Empirical.from_rtt(path, unit="us").samples_ms == pytest.approx((0.01, 0.015))
    with pytest.raises(UsageError, match="columns are of files"):
        Empirical.from_rtt([20, 30], "rtt")
    with pytest.raises(UsageError, match="cannot be negative"):
        Empirical.from_rtt([20, -30])


def test_units_are_said_once(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    path.write_text("delay_us,plain,delay_us_east\n1500,3,8\n", encoding="utf-8")
    assert Empirical.from_csv(path, "delay_us", unit="us") == Empirical((1.5,))
    assert Empirical.from_csv(path, "plain", unit="s") == Empirical((3000.0,))
    with pytest.raises(UsageError, match=r"'delay_us' of .* is not in ms by its name"):
        Empirical.from_csv(path, "delay_us", unit="ms")
    with pytest.raises(UsageError, match=r"'delay_us_east' of .* may be in us: say its unit"):
        Empirical.from_csv(path, "delay_us_east")
    assert Empirical.from_csv(path, "delay_us_east", unit="ms") == Empirical((8.0,))
    for act in (Empirical.from_csv, Empirical.from_rtt):
        with pytest.raises(UsageError, match=r"unknown unit 'm'.* \(known: ns, us"):
            act(path, "plain", unit="m")


# --------------------------------------------------------------------------- values


def test_bad_arguments_are_named() -> None:
    check_calls(Path(__file__).with_name("wrong_distributions.txt"), latency)


GOOD_ARGUMENTS = [
    (Constant, {"ms": 1}),
    (Uniform, {"low_ms": 1, "high_ms": 2}),
    (Normal, {"mean_ms": 1, "std_ms": 1, "floor_ms": 1}),
    (LogNormal, {"median_ms": 1, "sigma": 1, "floor_ms": 1}),
    (LogNormal.with_mean, {"mean_ms": 2, "std_ms": 1, "floor_ms": 1}),
    (Gamma, {"mean_ms": 1, "shape": 0.01, "floor_ms": 1}),
    (Pareto, {"scale_ms": 1, "alpha": 3, "floor_ms": 1}),
]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 10**400, "1", None, 1j])
@pytest.mark.parametrize(
    ("make", "arguments", "name"),
    [(make, arguments, name) for make, arguments in GOOD_ARGUMENTS for name in arguments],
)
def test_what_is_no_finite_number_is_refused(
    make: type[Latency], arguments: dict, name: str, bad: object
) -> None:
    make(**arguments)
    with pytest.raises(UsageError, match=f"latency {name} is .*: it must be"):
        make(**{**arguments, name: bad})


def test_empirical_is_not_shown_at_length() -> None:
    assert repr(Empirical.of(range(1000))) == "Empirical(<1000 samples>)"
