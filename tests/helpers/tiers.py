"""The two tiers of tests: what `make test` runs, and what only `make soak` runs.

A test of the second tier is marked `soak`. Hypothesis tests are in both: `examples(n)` draws n
examples, always the same ones, in `make test`, and many more, from a fresh seed, in `make soak`.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

SOAKING = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SOAK_FACTOR = 10
"""How many times as many examples a soak run draws."""


def examples(count: int, **more: Any) -> settings:
    """Return settings for `count` examples in `make test`, and `SOAK_FACTOR` as many in a soak."""
    return settings(max_examples=count * (SOAK_FACTOR if SOAKING else 1), deadline=None, **more)


def fast_few(cases: Iterable[Any], count: int) -> list[ParameterSet]:
    """Return all cases for `parametrize`; all but `count` evenly spread ones are marked `soak`.

    The first and the last case are always among the fast ones, if `count` is two or more.
    """
    every = [case if isinstance(case, ParameterSet) else _param(case) for case in cases]
    fast = _evenly_spread(len(every), count)
    return [case if i in fast else _soaking(case) for i, case in enumerate(every)]


def mark_all_but_few(items: Iterable[pytest.Item]) -> None:
    """Mark `soak` all cases of a test marked `few(count)`, but for that many evenly spread ones."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in cases.values():
        marker = each[0].get_closest_marker("few")
        assert marker is not None
        fast = _evenly_spread(len(each), marker.args[0])
        for i, item in enumerate(each):
            if i not in fast:
                item.add_marker("soak")


def _evenly_spread(total: int, count: int) -> set[int]:
    return {round(i * (total - 1) / max(count - 1, 1)) for i in range(count)}


def _param(case: Any) -> ParameterSet:
    return pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)


def _soaking(case: ParameterSet) -> ParameterSet:
    return pytest.param(*case.values, marks=(*case.marks, pytest.mark.soak), id=case.id)
