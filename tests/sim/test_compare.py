"""Times beside each other: the numbers are those of the times, and nothing is made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpcsim.sim import compare
from mpcsim.sim.call_times import CallTimes
from mpcsim.sim.replay.results import Replay
from tests.helpers.reviewed import check_calls, check_reviewed

MS = np.random.default_rng(1).lognormal(5.0, 0.3, 2_000)


def replay(times: np.ndarray) -> Replay:
    return Replay("sign", "lte", "free", 1, times, {})


def calls(times: np.ndarray, failed: int = 0) -> CallTimes:
    return CallTimes(times, 0.0, "lte", "virtual", failed, "HTTP 500" if failed else "")


def test_rows() -> None:
    first, second = compare({"as it is": replay(MS), "closer": replay(MS / 2)}).rows()
    assert list(first) == [
        *("name", "scope", "n", "failed", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "p99.9_ms"),
        *("difference_ms", "low_ms", "high_ms", "difference_low_ms", "difference_high_ms"),
        *("seed", "network", "compute"),
    ]
    assert (second["name"], second["scope"], second["n"], second["failed"]) == (
        *("closer", "protocol", 2_000),
        0,
    )
    assert first["mean_ms"] == pytest.approx(MS.mean())
    for percent in (50, 95, 99, 99.9):
        assert first[f"p{percent}_ms"] == pytest.approx(np.percentile(MS, percent))
        assert second["difference_ms"][f"p{percent}"] == pytest.approx(-first[f"p{percent}_ms"] / 2)
    assert set(first["difference_ms"].values()) == {0.0}


def test_what_too_few_times_do_not_tell_is_left_out() -> None:
    found = compare({"many": replay(MS), "few": calls(MS[:40])})
    few = found.rows()[1]
    assert few["p95_ms"] is not None
    assert few["p99_ms"] is few["p99.9_ms"] is few["difference_ms"]["p99"] is None


def test_what_is_said_is_as_it_was_reviewed() -> None:
    """Noise and few times are marked; scopes, failures, and a choice among several are told."""
    first = replay(MS)
    three = {"first": first, "same": replay(MS[::2]), "closer": replay(MS / 2)}
    level = {name: replay(np.full(500, 7.0)) for name in ("first", "same")}
    scopes = {"protocol": first, "call": calls(MS[:500], failed=2)}
    few = {"many": first, "few": calls(MS[:40])}
    found = [three, three | {"at once": replay(MS * 0)}, level, scopes, few, {"first": first}]
    said = "\n".join(str(compare(each)) for each in found)
    check_reviewed(said, Path(__file__).with_name("comparisons.txt"))


def test_what_cannot_be_compared() -> None:
    names = {"compare": compare, "replay": replay, "calls": calls, "MS": MS}
    check_calls(Path(__file__).with_name("wrong_comparisons.txt"), **names)


def test_intervals_of_differences_hold_the_truth_as_often_as_they_say() -> None:
    random, held, truth = np.random.default_rng(2), 0, 120 * np.log(2) - 100 * np.log(2)
    for _ in range(200):
        runs = {f"{ms}": replay(random.exponential(ms, 300)) for ms in (100, 120)}
        row = compare(runs).rows()[1]
        held += row["difference_low_ms"]["p50"] <= truth <= row["difference_high_ms"]["p50"]
    assert held >= 184  # 0.92; of 0.95 it is that or more with a probability of 97 %
