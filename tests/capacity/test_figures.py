"""Figures of services under load: the labels of their axes have the units of what is drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from mpcsim.capacity.results import figures
from tests.capacity.test_windows import run_of_windows


def drawn(axes: Any) -> dict[str, list[tuple[float, float]]]:
    return {
        str(line.get_label()): list(zip(*map(list, line.get_data()), strict=True))
        for line in axes.get_lines()
    }


def test_a_run_over_time() -> None:
    """Ten windows of 2 s, in each 1,000 calls that take 10 ms, of which 4 are in flight."""
    *above, below = figures.timeline(run_of_windows()).axes
    latency, throughput = above
    assert below.get_xlabel() == "time (s)"
    for axes, unit, name, value in (
        (latency, "latency (ms)", "p50", 10.0),
        (throughput, "calls a second", "answered", 500.0),
        (below, "calls", "in flight", 4.0),
    ):
        assert axes.get_ylabel() == unit
        assert drawn(axes)[name] == [
            (pytest.approx(1 + 2 * k), pytest.approx(value, rel=0.02)) for k in range(10)
        ]


def test_latency_by_load() -> None:
    table = pd.DataFrame({"per_s": [100.0, 200.0], "overload": "", "p50_ms": [7.0, 9.0]})
    found = SimpleNamespace(table=table, most_per_s=250.0, knee_per_s=150.0)
    [axes] = figures.load_curves({"": found}, [50]).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "offered load (calls a second)",
        "latency (ms)",
    )
    assert drawn(axes)["p50"] == [(100.0, 7.0), (200.0, 9.0)]


def test_what_a_call_waits_for() -> None:
    [axes] = figures.comparison({"as it is": {"computing": 30.0, "travelling": 12.0}}).axes
    assert axes.get_xlabel() == "mean time (ms)"
    widths = [patch.get_width() for patch in axes.patches]
    assert sum(widths) == pytest.approx(42.0)
