"""pytest plugin of a soak run: skips tests this round has run, records outcomes, ends in time."""

import json
import time
from pathlib import Path

import pytest

from tests.soak.record import Record


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak runs")
    group.addoption("--soak-record", type=Path, metavar="FILE", help="a line of JSON a test")
    group.addoption("--soak-until", type=float, default=float("inf"), help="UNIX time of the end")
    group.addoption("--soak-outside", default="[]", help="JSON: paths of other areas")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--soak-record")
    if path is not None:
        config.pluginmanager.register(Soak(config, Record(path)))


class Soak:
    """One area's run: which of its tests are left, and what came of those that ran."""

    def __init__(self, config: pytest.Config, record: Record) -> None:
        self._record = record
        self._until: float = config.getoption("--soak-until")
        self._outside = tuple(json.loads(config.getoption("--soak-outside")))
        self._seed = config.getoption("--hypothesis-seed")
        self._is_worker = hasattr(config, "workerinput")
        self._seconds: dict[str, float] = {}
        # Read before anything runs, so that all worker processes collect the same tests.
        self._done = record.done()
        self._known_s = record.seconds()
        self._left_s = self._until - time.time()

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        left = [item for item in items if self._is_left(item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
        # Tests that nobody has timed yet first, then the long ones: the last to end is a short one.
        left.sort(key=lambda item: -self._known_s.get(item.nodeid, float("inf")))
        items[:] = left

    def _is_left(self, test: str) -> bool:
        """Return whether a test is this area's, is new in this round, and fits into the budget."""
        if test.startswith(self._outside) or test in self._done:
            return False
        return self._known_s.get(test, 0.0) <= max(self._left_s, 0.0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._is_worker:
            return
        test = report.nodeid
        self._seconds[test] = self._seconds.get(test, 0.0) + report.duration
        if (
            report.failed
            or report.when == "teardown"
            or (report.skipped and report.when == "setup")
        ):
            outcome = "failed" if report.failed else "skipped" if report.skipped else "passed"
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self._record.add(test, outcome, self._seconds[test], self._seed, why)

    def pytest_runtest_logfinish(self) -> None:
        if time.time() >= self._until:
            self._session.shouldstop = "the budget is used up"

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session
