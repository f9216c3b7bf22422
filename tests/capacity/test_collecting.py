"""What is kept of a run says the same as all of its calls would."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpcsim.capacity.kernel import records as kernel
from mpcsim.capacity.results.collecting import (
    CLASSES,
    FIRST_MS,
    OUTCOMES,
    RATIO,
    Collector,
    latency_class,
)
from mpcsim.capacity.results.parts import PARTS, latency_parts
from mpcsim.capacity.simulation.driver import UsageTotals

WINDOWS = 10
LENGTH_MS = 60_000.0
ENDS_MS = FIRST_MS * RATIO ** np.arange(1.0, CLASSES + 1)
"""Of classes."""
NAMES = ("sign secp256k1", "recover secp256k1")


def made_up_rows(seed: int, count: int) -> NDArray[np.float64]:
    """Attempts, a tenth of which go wrong, in the order in which they ended."""
    generator = np.random.default_rng(seed)
    rows = np.zeros((count, kernel.COLUMNS))
    rows[:, kernel.NUMBER] = np.arange(count)
    rows[:, kernel.OPERATION_OF] = generator.integers(0, len(NAMES), count)
    rows[:, kernel.ENDED] = np.sort(generator.uniform(0, LENGTH_MS, count))
    parts = generator.lognormal(1.0, 1.0, (count, len(PARTS)))
    parts[:, 0] *= generator.random(count) < 0.1  # few have attempts before them
    rows[:, kernel.BEGAN] = rows[:, kernel.ENDED] - parts[:, 1:].sum(axis=1)
    rows[:, kernel.DUE] = rows[:, kernel.BEGAN] - parts[:, 0]
    rows[:, [kernel.NETWORK, kernel.POOL, kernel.LIMIT]] = parts[:, 1:4]
    rows[:, kernel.FIRST_ROLE :] = parts[:, 4:]
    rows[:, kernel.ATTEMPT] = 1
    rows[:, kernel.OUTCOME] = generator.choice(4, count, p=[0.9, 0.04, 0.03, 0.03])
    rows[:, kernel.FINAL] = (rows[:, kernel.OUTCOME] == 0) | (generator.random(count) < 0.5)
    return rows


def idle_driver(now: float) -> Any:
    """A driver in whose kernel nothing goes on."""
    zeros = {each.name: np.zeros(1) for each in fields(UsageTotals)}
    totals = UsageTotals(**zeros | {"at_ms": now, "in_flight": 0.0})
    state = np.zeros(1, kernel.STATE)
    state["now"] = now
    resources = np.zeros(1, kernel.RESOURCE)
    resources["cores"] = 1
    return SimpleNamespace(
        state=state[0],
        service=SimpleNamespace(resources=resources),
        calls=SimpleNamespace(calls=np.zeros(0, kernel.CALL)),
        usage_totals=lambda: totals,
    )


def collect(rows: NDArray[np.float64]) -> Collector:
    edges = np.linspace(0.0, LENGTH_MS, WINDOWS + 1)
    collector = Collector(edges.tolist(), NAMES)
    for begin, end in pairwise(edges):
        ended = rows[:, kernel.ENDED]
        for part in np.array_split(rows[(ended >= begin) & (ended < end)], 3):
            collector.take(part)
        collector.close_window(idle_driver(float(end)))
    return collector


def test_calls_count_where_they_came() -> None:
    """Also those that are over after the last window, or not at all; later ones do not."""
    edges = np.array([0.0, 10.0, 20.0])
    collector = Collector(edges.tolist(), NAMES)
    rows = np.zeros((4, kernel.COLUMNS))
    rows[:, kernel.DUE] = rows[:, kernel.BEGAN] = [1.0, 2.0, 12.0, 20.0]
    rows[:, kernel.ENDED] = [15.0, 25.0, 26.0, 27.0]
    rows[:, kernel.OUTCOME] = [kernel.DONE, kernel.TIMED_OUT, kernel.DONE, kernel.DONE]
    rows[:, kernel.FINAL] = 1
    driver = idle_driver(30.0)
    collector.close_window(driver)
    collector.take(rows[:1])
    collector.close_window(driver)
    collector.take(rows[1:])
    driver.calls.orders = np.zeros(3, kernel.ORDER)
    driver.calls.orders["due"] = [3.0, 13.0, 23.0]
    driver.calls.orders["following"] = kernel.NONE
    driver.state["free_order"] = 0  # the first one is over
    assert not collector.is_complete(driver)
    collector.finish(driver)
    assert [each.outcomes.sum(axis=0).tolist() for each in collector.windows] == [
        [1, 0, 1, 0],
        [1, 0, 0, 0],
    ]
    assert [each.latency[0].greatest for each in collector.windows] == [14.0, 14.0]
    assert [each.under_way[0].count for each in collector.windows] == [0, 1]
    assert collector.windows[1].under_way[0].least == 17.0
    assert [each.ended[0] for each in collector.windows] == [0, 1]
    driver.calls.orders["due"] = 23.0
    assert collector.is_complete(driver)


def test_counts_are_those_of_the_rows() -> None:
    rows = made_up_rows(2, 4_000)
    collector = collect(rows)
    for k in range(len(NAMES)):
        mine = rows[rows[:, kernel.OPERATION_OF] == k]
        for n in range(len(OUTCOMES)):
            assert (
                sum(each.attempts[k, n] for each in collector.windows)
                == (mine[:, kernel.OUTCOME] == n).sum()
            )
        assert sum(each.ended[k] for each in collector.windows) == mine[:, kernel.FINAL].sum()
        well = mine[mine[:, kernel.OUTCOME] == kernel.DONE]
        assert sum(each.latency[k].count for each in collector.windows) == len(well)
        sums = sum(each.parts_ms[k] for each in collector.windows)
        assert np.asarray(sums) == pytest.approx(latency_parts(well).sum(axis=0))
    assert collector.spent_ms == pytest.approx(
        (rows[:, kernel.ENDED] - rows[:, kernel.BEGAN]).sum()
    )
    assert not any(each.any() for each in collector.gauges()), "nothing went on"


def test_classes_hold_what_is_below_their_ends() -> None:
    took = np.geomspace(0.02, 1e6, 5_000)
    classes = latency_class(took)
    ends = ENDS_MS
    assert (took <= ends[classes] * (1 + 1e-9)).all()
    assert (took >= ends[classes - 1] * (1 - 1e-9)).all()
    assert latency_class(np.array([0.0]))[0] == 0
