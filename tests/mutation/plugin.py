"""pytest plugin: run any tests against one mutant, or record which checks refuse in which test.

    python -m pytest -p tests.mutation.plugin --mutant NAME tests/protocols

Worker processes of pytest-xdist get the option, too; programs that a test starts do not.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mutation import hook


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutation checks")
    group.addoption("--mutant", metavar="NAME", help="leave out the check of that name")
    group.addoption(
        "--record-checks", metavar="FILE", help="write which checks refuse in which test (JSON)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    options = early_config.known_args_namespace
    try:
        if options.mutant:
            hook.install_mutant(options.mutant)
        if options.record_checks:
            recording = Recording(Path(options.record_checks))
            hook.install_recorder(recording.note)
            early_config.pluginmanager.register(recording)
    except (LookupError, RuntimeError) as error:
        raise pytest.UsageError(str(error)) from error


class Recording:
    """Which checks refused in which test, and how long each test took."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.test = ""
        self.refused: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.drawn: set[str] = set()
        """Tests that draw their input (Hypothesis)."""

    def note(self, check: str) -> None:
        self.refused.setdefault(self.test, set()).add(check)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                self.drawn.add(item.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid

    def pytest_runtest_logfinish(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = self.seconds.get(report.nodeid, 0.0)
        # a test that fails as things are can kill no mutant
        failed = report.outcome == "failed"
        self.seconds[report.nodeid] = float("inf") if failed else seconds + report.duration

    def pytest_sessionfinish(self) -> None:
        found = {
            test: {
                "seconds": seconds,
                "drawn": test in self.drawn,
                "refused": sorted(self.refused.get(test, ())),
            }
            for test, seconds in self.seconds.items()
            if seconds != float("inf")
        }
        self.path.write_text(json.dumps(found), encoding="utf-8")
