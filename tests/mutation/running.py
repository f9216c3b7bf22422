"""Runs single tests against single mutants, each in a process forked from a warm one.

What the product imports from elsewhere is imported once, before the forks; the product itself and
the tests are imported anew in each, with one module mutated.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.mutation import hook
from tests.mutation.mutants import ROOT

LIMIT_S = 60.0
"""A mutant that keeps its test busy for longer is stopped, and does not count as caught."""

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


def _forked(job: Callable[[], int]) -> Outcome:
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
        code = _wait(child)
        return Outcome(code, path.read_text(errors="replace"))


def _wait(child: int) -> int | None:
    end = time.monotonic() + LIMIT_S
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
