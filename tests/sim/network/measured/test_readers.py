"""Each format is recognised by its content, and read into what its program measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.reading import read
from mpcsim.sim.network.measured.series import Series
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent


def alone(name: str) -> Series:
    (series,) = read(FOLDER / name).series
    return series


def said(series: Series) -> str:
    return "\n".join((*series.understood, *series.warnings))


def test_ping_of_linux() -> None:
    """Both ways of its loss lose as many: (1 - loss)^2 of the probes come back."""
    series = alone("ping_linux.txt")
    assert "ICMP, not TCP" in said(series)
    assert (1 - series.loss) ** 2 == pytest.approx(1 - series.lost / series.sent)
    line = (FOLDER / "ping_linux.txt").read_text().splitlines()[series.lines[3] - 1]
    assert f"time={series.rtt_ms[3]:g}" in line


def test_mtr_has_a_summary_of_the_last_hop() -> None:
    series = alone("mtr.json")
    assert series.rtt_ms == ()
    assert series.summary is not None
    times = make.series(100, 27, 1.15 * 27, 0.6, 0.0, of=13)
    assert series.summary.mean_ms == pytest.approx(times.mean(), abs=1e-3)
    assert series.summary.count == 99
    assert "hops on the way lose more" in said(series)
    assert "ICMP" in said(series)


def test_iperf3_the_other_way(tmp_path: Path) -> None:
    report = json.loads((FOLDER / "iperf3.json").read_text())
    report["start"]["test_start"]["reverse"] = 1
    report["intervals"][0]["streams"][0]["omitted"] = True
    (tmp_path / "report").write_text(json.dumps(report))
    (series,) = read(tmp_path / "report").series
    assert (series.mbit_per_s, series.back_mbit_per_s) == (None, pytest.approx(43.1))
    assert len(series.rtt_ms) == 19


def test_calls_in_a_browser_s_log() -> None:
    series = alone("calls.har")
    assert (series.a, series.b) == ("client", "gateway.example")
    connects = make.series(120, 28, 33, 0.3, 0.0, of=6).reshape(40, 3)[::2, 0]
    assert series.rtt_ms == pytest.approx(connects, abs=2e-3)
    assert series.tls_round_trips == 1
    assert "20 calls over open connections" in said(series)
    assert "the server says it took 12 ms" in said(series)


@pytest.mark.parametrize("name", ["curl.txt", "curl.jsonl"])
def test_calls_of_curl(name: str) -> None:
    series = alone(name)
    connects = make.series(150, 28, 33, 0.3, 0.0, of=7).reshape(50, 3)[:, 0]
    assert series.rtt_ms == pytest.approx(np.delete(connects, 17), abs=2e-3)
    assert (series.sent, series.lost) == (50, 1)
    assert "taken for a lost SYN" in said(series)
    assert "of the server's time" in said(series)
    assert series.tls_round_trips == 1


def test_calls_of_curl_over_tls_1_2_and_open_connections(tmp_path: Path) -> None:
    calls = [
        {"time_namelookup": 0.001, "time_connect": 0.021, "time_appconnect": 0.063}
        | {"time_pretransfer": 0.064, "time_starttransfer": 0.1, "num_connects": 1},
        {"time_namelookup": 0.001, "time_connect": 0.001, "time_pretransfer": 0.002}
        | {"time_starttransfer": 0.04, "num_connects": 0},
        {"time_namelookup": 0.001, "time_connect": 0.0, "time_starttransfer": 0.0},
    ]
    for text in ("\n".join(map(json.dumps, calls)), json.dumps(calls)):
        (tmp_path / "calls").write_text(text)
        (series,) = read(tmp_path / "calls").series
        assert series.rtt_ms == pytest.approx((20.0,))
        assert (series.tls_round_trips, series.lost) == (2, 1)
        assert "1 call over open connections" in said(series)
        # 36 and 38 ms after the request, a round trip of them on the way.
        assert "about 17 ms of the server's time" in said(series)


def test_a_pair_that_never_answered_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("source,destination,rtt\nx,y,20\nx,z,*\n")
    (series,) = read(tmp_path / "x.csv").series
    assert "nothing came back: x - z: left out" in series.warnings


def test_the_unit_and_the_column_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("rtt,rtt_tcp\n90000,2\n")
    (series,) = read(path, unit="us", column="rtt").series
    assert series.rtt_ms == pytest.approx((90.0,))
    with pytest.raises(UsageError, match=r"x.csv, .*which of the columns 'rtt', 'rtt_tcp'"):
        read(path)
    for other in ("mean size", "mean total"):
        path.write_text(f"{other}\n1\n2\n")
        with pytest.raises(UsageError, match=rf"x.csv, .*'{other}'"):
            read(path)


def test_a_triangle_with_directions_that_differ(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("ms,x,y,z\nx,,10,20\ny,15,,\nz,20,,0\n")
    found = {(each.a, each.b): each for each in read(tmp_path / "x.csv").series}
    assert {pair: each.rtt_ms for pair, each in found.items()} == {
        ("x", "y"): (12.5,),
        ("x", "z"): (20.0,),
    }
    assert "10 ms one way round and 15 ms the other" in said(found["x", "y"])
    assert "1 pairs have no round trip" in said(found["x", "y"])
