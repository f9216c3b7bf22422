"""pytest plugin: record which test runs which lines of the product."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.mutants import ROOT


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutation")
    group.addoption("--record-lines", metavar="FOLDER", help="write which test runs which lines")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    folder = Path(early_config.known_args_namespace.record_lines)
    early_config.pluginmanager.register(Recording(folder))


class Recording:
    """Which lines each test runs, and how long it takes."""

    def __init__(self, folder: Path) -> None:
        from coverage import Coverage

        self.folder = folder
        self.test = ""
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.coverage = Coverage(
            data_file=str(folder / "lines.coverage"), config_file=False,
            source=[str(ROOT / "mpcsim"), str(ROOT / "node")],
        )  # fmt: skip
        self.coverage.set_option("run:relative_files", True)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """What several tests have in common is run by all tests of the file."""
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(self.test.partition("::")[0])
        try:
            return (yield)
        finally:
            self.coverage.switch_context(self.test)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.test = item.nodeid
        self.coverage.switch_context(self.test)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self.seconds.get(report.nodeid, 0.0)
        self.seconds[report.nodeid] = before + report.duration
        if report.outcome == "failed":
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        passed = {test: taken for test, taken in self.seconds.items() if test not in self.failed}
        (self.folder / "times.json").write_text(json.dumps(passed), encoding="utf-8")
