"""Runs tests against mutants, each in a process forked from a warm one.

There are two ways. `Warm` has collected all fast tests once, and gives functions the mutated code
in a fork: quick, but what was worked out while importing is as it was. `anew` imports the product
and the tests with one module mutated, in a fork of a process that has imported what they import
from elsewhere: for mutants outside of functions, and before one is said to survive.
"""

import contextlib
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import Phase, settings

from tests.mutation import hook
from tests.mutation.mutants import ROOT

LIMIT_S = 10.0
"""A test is stopped, and has failed, after this long and twenty times what it takes usually."""
FAILED = "FAILED BY "
LATE = "Timeout (>"

WARM = (
    "hypothesis.strategies",
    "mpcsim.attacks.catalogue",
    "mpcsim.protocols.local_run",
    "mpcsim.service.vault",
)
WARM += ("mpcsim.service.rpc.tokens", "node.app")
"""Imported for what they import."""

OPTIONS = (
    *("-q", "-x", "--no-header", "--tb=short"),
    # no assertion rewriting: nothing here needs its messages, and it takes time
    "--assert=plain",
    *("-pno:cacheprovider", "-pno:xdist"),
    # these two collect garbage, several times
    *("-pno:threadexception", "-pno:unraisableexception"),
)


def warm() -> None:
    """Import what the forks have in common, but leave them the product and the tests."""
    # the same examples in every run, and no time spent on shrinking the one that fails
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutation", deadline=None, derandomize=True, phases=phases)
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    os.chdir(ROOT)
    for name in WARM:
        import_module(name)
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    for name in list(sys.modules):
        package = name.partition(".")[0]
        if package in ("mpcsim", "node") or name.startswith("tests.helpers"):
            del sys.modules[name]
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Test:
    """A test to be run, and how long it may take."""

    name: str
    limit_s: float


@dataclass(frozen=True)
class Outcome:
    """How tests ended."""

    code: int | None
    """pytest's exit code; None if it had to be stopped."""
    output: str

    @property
    def killer(self) -> str:
        """The test that failed; empty if none did."""
        lines = self.output.splitlines()
        found = [line for line in lines if line.startswith(FAILED)]
        if found:
            return found[0].removeprefix(FAILED)
        return "" if self.code in (pytest.ExitCode.OK, CANNOT) else f"exit code {self.code}"

    @property
    def timed_out(self) -> bool:
        return self.code is None or LATE in self.output


CANNOT = 77
"""Exit code: the mutant could not be made this way."""


class _Limits:
    """A plugin of pytest: gives tests their time limits, and says which failed."""

    def __init__(self, tests: Sequence[Test], output: TextIO) -> None:
        self.limits = {test.name: test.limit_s for test in tests}
        self.output = output

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: i for i, name in enumerate(self.limits)}
        items.sort(key=lambda item: order.get(item.nodeid, len(order)))
        for item in items:
            self.limit(item)

    def limit(self, item: pytest.Item) -> None:
        item.add_marker(pytest.mark.timeout(self.limits.get(item.nodeid, LIMIT_S)), append=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self) -> tuple[str, str, str]:
        return "", "", ""  # no dots

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "failed":
            text = f"\n{FAILED}{report.nodeid}\n{report.longreprtext[-3000:]}"
            print(text, file=self.output, flush=True)


def anew(tests: Sequence[Test], mutant: str | None = None) -> Outcome:
    """Run tests in a fork, against a mutant or against the product as it is."""

    def job(output: TextIO) -> int:
        if mutant is not None:
            hook.install_mutant(mutant)
        names = [test.name for test in tests]
        return int(pytest.main([*OPTIONS, *names], plugins=[_Limits(tests, output)]))

    return _forked(job, _limit_s(tests))


class Warm:
    """A process that has collected the fast tests, and forks for every mutant."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._here, there = Pipe()
        sys.stdout.flush()
        self._child = os.fork()
        if self._child == 0:
            self._here.close()  # or it would never hear that this end is closed
            try:
                pytest.main([*OPTIONS, *paths], plugins=[_Server(there)])
            finally:
                os._exit(0)
        there.close()

    def run(self, tests: Sequence[Test], mutant: str | None = None) -> Outcome:
        """The same as `anew`, with the exit code `CANNOT` where it has to be that way."""
        self._here.send((tests, mutant))
        return self._here.recv()

    def close(self) -> None:
        """End the process."""
        self._here.close()
        os.waitpid(self._child, 0)


class _Server:
    """A plugin of pytest: instead of running what was collected, does what it is asked to."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        patches = hook.Patches()
        gc.collect()
        gc.freeze()
        while True:
            try:
                tests, mutant = self.connection.recv()
            except EOFError:
                return True
            self.connection.send(self.ask(session, patches, items, tests, mutant))

    def ask(self, session, patches, items, tests, mutant) -> Outcome:
        known = [test for test in tests if test.name in items]

        def job(output: TextIO) -> int:
            if mutant is not None:
                try:
                    patches.mutate(mutant)
                except (LookupError, ValueError):
                    return CANNOT
            limits = _Limits(known, output)
            session.config.pluginmanager.register(limits)
            run = [items[test.name] for test in known]
            for item, following in zip(run, [*run[1:], None], strict=True):
                limits.limit(item)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return int(pytest.ExitCode.TESTS_FAILED)
            return int(pytest.ExitCode.OK)

        return _forked(job, _limit_s(known))


def _limit_s(tests: Sequence[Test]) -> float:
    """How long tests may take together: one that hangs while it is cleared away has no limit."""
    return 60 + sum(test.limit_s - LIMIT_S for test in tests) / 3


def _forked(job: Callable[[TextIO], int], limit_s: float) -> Outcome:
    """Run it in a process, and a folder, of its own; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    try:
        path = folder / "output"
        with path.open("a") as output:
            sys.stdout.flush()
            sys.stderr.flush()
            child = os.fork()
            if child == 0:
                code: int = pytest.ExitCode.INTERNAL_ERROR
                try:
                    os.setsid()
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
                    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
                    code = job(output)
                    sys.stdout.flush()
                    sys.stderr.flush()
                finally:
                    os._exit(code)
        code_or_none = _wait(child, limit_s)
        return Outcome(code_or_none, path.read_text(errors="replace"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(child: int, limit_s: float) -> int | None:
    end = time.monotonic() + limit_s
    pause, code = 0.001, None
    while time.monotonic() < end and code is None:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # with what a test left running
    if code is None:
        os.waitpid(child, 0)
    return code
