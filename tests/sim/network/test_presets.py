"""The public figures hang together, and nothing is faster than light."""

import math
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from mpcsim import Network
from mpcsim.errors import UsageError
from mpcsim.sim.network import presets
from mpcsim.sim.network.latency import LogNormal
from mpcsim.sim.network.presets import ACCESS, COORDINATES, REGIONS, Access
from tests.helpers.reviewed import check_calls

PAIRS = list(combinations(REGIONS, 2))


def test_round_trips_are_symmetric() -> None:
    for a, b in product(REGIONS, repeat=2):
        assert presets.round_trip_ms(a, b) == presets.round_trip_ms(b, a)
        assert presets.region_latency(a, b) == presets.region_latency(b, a)
        assert 0.5 <= presets.round_trip_ms(a, a) <= 1


def test_a_few_well_known_round_trips() -> None:
    assert presets.round_trip_ms("seoul", "tokyo") == 36
    assert presets.round_trip_ms("seoul", "virginia") == 180
    assert presets.round_trip_ms("london", "virginia") == 78
    assert presets.round_trip_ms("sydney", "capetown") == 409
    assert presets.round_trip_ms("ohio", "virginia") == 16


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_nothing_beats_light_in_fibre(a: str, b: str) -> None:
    """2 d / (2/3 c); and no route is six times as long as the great circle."""
    bound = 2 * presets.great_circle_km(a, b) / (299.792458 * 2 / 3)
    assert presets.light_round_trip_ms(a, b) == pytest.approx(bound)
    assert bound <= presets.round_trip_ms(a, b) <= 6 * bound
    assert 2 * presets.region_latency(a, b).floor_ms >= bound


def test_latency_between_regions() -> None:
    latency = presets.region_latency("seoul", "frankfurt")
    assert latency == LogNormal(231 / 2, 0.5, floor_ms=0.95 * 231 / 2)
    assert latency.mean_ms == pytest.approx(231 / 2, rel=0.01)
    generator = np.random.default_rng(1)
    round_trips = latency.sample(generator, 200_000) + latency.sample(generator, 200_000)
    median, tail = np.percentile(round_trips, (50, 90))
    assert median == pytest.approx(231, rel=0.01)
    assert 1.025 <= tail / median <= 1.04
    # A caller's line to a gateway there is an access network and this, one after the other.
    both = latency.sample(generator, 200_000) + ACCESS["lte"].latency.sample(generator, 200_000)
    line = Network.preset("seoul", gateway="frankfurt", access="lte").links[0].latency
    expected = pytest.approx(np.percentile(both, (50, 99)), rel=0.01)
    assert np.percentile(line.sample(generator, 200_000), (50, 99)) == expected


def test_access_networks() -> None:
    assert set(ACCESS) == {"datacentre", "fibre", "wifi", "lte", "5g", "3g", "satellite"}
    for name, each in ACCESS.items():
        assert each.name == name
        assert each.latency.mean_ms > 0
        assert each.down_mbit_per_s >= each.up_mbit_per_s
        assert presets.access(name) is each


def test_satellite_scatters_as_measured() -> None:
    """Quartiles of the round trip 40, 50 and 60 ms, at least 20."""
    one_way = ACCESS["satellite"].latency
    generator = np.random.default_rng(1)
    round_trips = one_way.sample(generator, 200_000) + one_way.sample(generator, 200_000)
    assert np.percentile(round_trips, (25, 50, 75)) == pytest.approx([40, 48, 60], rel=0.03)
    assert round_trips.min() >= 20


def test_unknown_region_names_the_near_matches_and_the_list() -> None:
    with pytest.raises(UsageError) as failure:
        presets.region("soul")
    text = str(failure.value)
    assert text.startswith("unknown region 'soul'; did you mean seoul")
    assert all(name in text for name in REGIONS)


def test_unknown_access_network() -> None:
    with pytest.raises(UsageError, match="unknown access network 'fiber'; did you mean fibre"):
        presets.access("fiber")
    with pytest.raises(UsageError, match=r"\(known: datacentre, fibre, wifi, lte, 5g, 3g, sat"):
        presets.access("pigeon")


def test_bad_access_networks_are_refused() -> None:
    def access(**change: float) -> Access:
        rates = {"up_mbit_per_s": 1.0, "down_mbit_per_s": 1.0, "loss": 0.0, **change}
        return Access("mine", LogNormal(1.0, 0.0), **rates)

    check_calls(Path(__file__).with_name("wrong_access.txt"), math, access=access)


def test_regions() -> None:
    assert len(REGIONS) == len(set(REGIONS)) >= 10
    assert set(COORDINATES) == set(presets.CLOUD_REGIONS) == set(REGIONS)
    assert len(set(presets.CLOUD_REGIONS.values())) == len(REGIONS)
