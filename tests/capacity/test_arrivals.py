"""When calls come: rates are kept, whatever parts a run is drawn in; bad input is told."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.capacity.model import arrivals
from mpcsim.capacity.model.arrivals import (
    Bursts,
    Profile,
    RatePiece,
    Steady,
    Times,
    draw_times,
)
from mpcsim.capacity.model.incidents import Slowdown
from mpcsim.errors import UsageError
from tests.helpers.reviewed import check_calls
from tests.vectors.network import make

RATES = st.floats(0.0, 500.0)
LENGTHS = st.floats(1.0, 4_000.0)
SHAPES = st.one_of(
    st.builds(Steady, RATES),
    st.builds(
        lambda rate, burst, lasting, more, first: Bursts(
            rate, burst, lasting, lasting + more, first
        ),
        RATES,
        RATES,
        LENGTHS,
        st.one_of(st.just(math.inf), LENGTHS),
        LENGTHS,
    ),
    st.builds(
        lambda rates, lasting: Profile(tuple(rates), lasting),
        st.lists(RATES, min_size=1, max_size=24),
        LENGTHS,
    ),
)


@given(arrivals=SHAPES, begin=st.floats(0, 5_000), length=LENGTHS)
def test_pieces_cover_a_time_once(arrivals: Any, begin: float, length: float) -> None:
    pieces = list(arrivals.pieces(begin, begin + length))
    assert pieces[0].begin_s == begin
    assert pieces[-1].end_s == begin + length
    for one, following in pairwise(pieces):
        assert one.end_s == following.begin_s
    assert all(piece.begin_s < piece.end_s for piece in pieces)


def test_bursts_are_where_they_should_be() -> None:
    bursts = Bursts(1.0, 5.0, lasting_s=10.0, every_s=100.0, first_s=50.0)
    assert bursts.active_intervals_s(300.0) == [(50.0, 60.0), (150.0, 160.0), (250.0, 260.0)]
    assert list(bursts.pieces(155.0, 265.0)) == [
        RatePiece(155.0, 160.0, 5.0),
        RatePiece(160.0, 250.0, 1.0),
        RatePiece(250.0, 260.0, 5.0),
        RatePiece(260.0, 265.0, 1.0),
    ]
    assert Bursts(1.0, 5.0, lasting_s=10.0).active_intervals_s(1e6) == [(60.0, 70.0)]


@pytest.mark.parametrize("per_s", [0.5, 40.0])
def test_as_many_come_as_should_and_independently(per_s: float) -> None:
    minutes = [draw_times(Steady(per_s), n * 60.0, (n + 1) * 60.0, 7, n) for n in range(400)]
    counts = np.array([len(each) for each in minutes])
    assert abs(counts.mean() - 60 * per_s) < 4 * math.sqrt(60 * per_s / len(counts))
    # Poisson: the variance of the counts is their mean.
    assert 0.7 < counts.var() / counts.mean() < 1.4
    times = np.concatenate(minutes)
    assert (np.diff(times) >= 0).all()


def test_times_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text("when,who\n100.5,a\n101,b\n103.25,a\n")
    assert Times.of_csv(path).at_s == (0.0, 0.5, 2.75)
    assert Times.of_csv(path, "when").at_s == (0.0, 0.5, 2.75)
    path.write_text("when\n100.5\n101\n", "utf-16")
    assert Times.of_csv(path).at_s == (0.0, 0.5)
    path.write_text("1\n2\n")
    assert Times.of_csv(path).at_s == (0.0, 1.0)
    assert list(draw_times(Times((0.0, 1.0, 2.0)), 1.0, 2.0, 1, 0)) == [1.0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time_ms\n0\n250\n", (0.0, 0.25)),
        ("id,timestamp\n7,1700000000000\n9,1700000000250\n", (0.0, 0.25)),
        ("\ufeffzeit_s;aufrufe\n0,00;1\n0,25;1\n", (0.0, 0.25)),
        ("Datum;Anzahl\n31.12.2026 10:00:00,5;1\n31.12.2026 10:00:02;1\n", (0.0, 1.5)),
        ("2026-01-01T00:00:00Z\n2026-01-01T01:00:02.5+01:00\n", (0.0, 2.5)),
        ("at\n10:00:00\n10:01:00.5\n", (0.0, 60.5)),
        ("response_time_ms,start\n9,1\n7,2\n", (0.0, 1.0)),
    ],
)
def test_units_and_dates_of_a_file(tmp_path: Path, text: str, expected: tuple[float, ...]) -> None:
    path = tmp_path / "calls.csv"
    path.write_text(text, encoding="utf-8")
    assert Times.of_csv(path).at_s == pytest.approx(expected)


@pytest.mark.parametrize("name", ["arrivals_ms.csv", "arrivals_decimal_comma.csv"])
def test_forty_calls_in_ten_seconds(name: str) -> None:
    times = Times.of_csv(Path(make.__file__).parent / "reports" / name)
    assert times.at_s == pytest.approx(tuple(n / 4 for n in range(40)))
    assert str(times) == "40 calls at given times, over 9.75 s"


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    def of_csv(text: str) -> None:
        path = tmp_path / "calls.csv"
        path.write_text(text)
        with pytest.raises(UsageError) as error:
            Times.of_csv(path)
        raise UsageError(str(error.value).removeprefix(f"{path}"))

    bursts = partial(Bursts, per_s=1.0, burst_per_s=2.0, lasting_s=5.0)
    names = {"of_csv": of_csv, "bursts": bursts, "Slowdown": Slowdown}
    check_calls(Path(__file__).with_name("wrong_arrivals.txt"), arrivals, math, **names)
