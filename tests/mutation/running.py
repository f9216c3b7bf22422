"""Runs single tests against single mutants, each in a process forked from a warm one.

What the product imports from elsewhere is imported once, before the forks. ``run`` imports the
product itself and the tests anew, with one module mutated. ``escaped`` imports them once for all
mutants of a file of tests, and gives functions the mutated code: much quicker, but what was worked
out while importing is as it was.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.mutation import hook
from tests.mutation.mutants import ROOT, all_checks

LIMIT_S = 60.0
"""A mutant that keeps its test busy for longer is stopped, and does not count as caught."""

ESCAPED = "ESCAPED "

WARM = (
    "hypothesis.strategies",
    "mpcsim.attacks.catalogue",
    "mpcsim.runner",
    "mpcsim.vault",
    "mpcsim.rpc.tokens",
    "node.app",
)
"""Imported for what they import."""

OPTIONS = (
    "-q",
    "-x",
    "--no-header",
    "--tb=short",
    # no assertion rewriting: nothing here needs its messages, and it takes time
    "--assert=plain",
    "-pno:cacheprovider",
    "-pno:xdist",
    # these two collect garbage, several times
    "-pno:threadexception",
    "-pno:unraisableexception",
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


class Outcome:
    """How a forked pytest ended."""

    def __init__(self, code: int | None, output: str) -> None:
        self.code = code
        """pytest's exit code; None if it had to be stopped."""
        self.output = output

    @property
    def caught(self) -> bool:
        """A test failed. One that cannot be found, or never ends, catches nothing."""
        return self.code == pytest.ExitCode.TESTS_FAILED


def run(tests: Sequence[str], mutant: str | None = None) -> Outcome:
    """Run tests in a fork, against a mutant or against the product as it is."""

    def job() -> int:
        if mutant is not None:
            hook.install_mutant(mutant)
        return int(pytest.main([*OPTIONS, *tests]))

    return _forked(job)


def escaped(killers: Mapping[str, str]) -> list[str]:
    """The mutants that were not caught by their tests.

    Args:
        killers: the test of each mutant, by the mutant's name.

    Raises:
        RuntimeError: a test fails without a mutant, too, or cannot be found.
    """

    def job() -> int:
        tests = dict.fromkeys(killers.values())
        return int(pytest.main([*OPTIONS, *tests], plugins=[_Mutants(killers)]))

    outcome = _forked(job, len(killers) * 2 * LIMIT_S)
    if outcome.code != pytest.ExitCode.OK:
        raise RuntimeError(f"without a mutant (exit code {outcome.code}):\n{outcome.output}")
    lines = outcome.output.splitlines()
    return [line.removeprefix(ESCAPED) for line in lines if line.startswith(ESCAPED)]


class _Mutants:
    """A plugin of pytest: runs the tests once, and each again in a fork for its mutants."""

    def __init__(self, killers: Mapping[str, str]) -> None:
        self.killers = killers

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        checks = [all_checks()[name] for name in self.killers]
        for check in checks:
            import_module(check.module)
        patches = hook.Patches({check.path for check in checks})
        gc.collect()
        gc.freeze()
        item_of = {item.nodeid: item for item in session.items}

        def run(items: Sequence[pytest.Item]) -> int:
            for item in items:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            failed = session.testsfailed > 0
            return int(pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK)

        def without_a_mutant() -> int:
            patches.renew()
            return run(session.items)

        unchanged = _forked(without_a_mutant, len(session.items) * LIMIT_S)
        if unchanged.code != pytest.ExitCode.OK:
            raise pytest.UsageError(unchanged.output)
        for name, test in self.killers.items():

            def with_it(name: str = name, test: str = test) -> int:
                try:
                    patches.mutate(name)
                except (LookupError, ValueError):
                    return int(pytest.ExitCode.OK)
                return run([item_of[test]])

            if not _forked(with_it).caught:
                print(f"\n{ESCAPED}{name}")
        return True


def _forked(job: Callable[[], int], limit_s: float = LIMIT_S) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output"
        with path.open("w") as output:
            sys.stdout.flush()
            sys.stderr.flush()
            child = os.fork()
            if child == 0:
                code = pytest.ExitCode.INTERNAL_ERROR
                try:
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
                    code = job()
                    sys.stdout.flush()
                    sys.stderr.flush()
                finally:
                    os._exit(code)
        code = _wait(child, limit_s)
        return Outcome(code, path.read_text(errors="replace"))


def _wait(child: int, limit_s: float) -> int | None:
    end = time.monotonic() + limit_s
    pause = 0.001
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
