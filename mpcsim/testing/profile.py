"""Profiles and budgets of tests, and their progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Final, TextIO

from hypothesis import HealthCheck, Phase, settings

from mpcsim.errors import UsageError


@dataclass(frozen=True)
class Profile:
    """Profile of tests: how much to try."""

    name: str
    examples: int
    """Number of runs, each with fresh users; without effect if there are ``seconds``."""
    steps: int
    """Limit of rules that one run follows; a rule is one step or several."""
    seconds: float | None = None
    """Time budget."""
    both_curves: float = 0.25
    """Share of the keys that are on secp256k1, whose generation takes some forty times as long
    as on ed25519."""

    def __post_init__(self) -> None:
        if self.examples < 1 or self.steps < 1:
            raise UsageError(f"profile {self.name}: examples and steps are at least 1")
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"profile {self.name}: seconds is {self.seconds}: not above 0")

    def with_budget(self, examples: int | None = None, seconds: float | None = None) -> Profile:
        """Return it with another budget; a number of examples replaces a time, and the reverse."""
        changed = self
        if examples is not None:
            changed = replace(changed, examples=examples, seconds=None)
        if seconds is not None:
            changed = replace(changed, seconds=seconds)
        return changed

    def rounds(self, clock: Callable[[], float] = time.monotonic) -> Iterator[int]:
        """Yield the number of examples of each round, until the budget is used up; one round at
        least.

        Args:
            clock: seconds, monotonic.
        """
        if self.seconds is None:
            yield self.examples
            return
        until, began = clock() + self.seconds, False
        while clock() < until or not began:
            began = True
            yield ROUND

    def settings(self, examples: int) -> settings:
        """Return Hypothesis's settings for so many examples.

        A seed reproduces a run, so nothing is kept in an example database.
        """
        return settings(
            max_examples=examples,
            stateful_step_count=self.steps,
            deadline=None,
            database=None,
            print_blob=False,
            derandomize=False,
            report_multiple_bugs=False,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )


ROUND: Final = 10
"""Number of examples between two looks at the clock."""

QUICK: Final = Profile("quick", examples=25, steps=12)
THOROUGH: Final = Profile("thorough", examples=150, steps=25)
SOAK: Final = Profile("soak", examples=5000, steps=40, seconds=900.0, both_curves=0.5)
PROFILES: Final = {profile.name: profile for profile in (QUICK, THOROUGH, SOAK)}


class Progress:
    """Counters of runs and calls, with a progress bar if tqdm is installed."""

    def __init__(self, what: str, total: int | None = None, stream: TextIO | None = None) -> None:
        """
        Args:
            total: number of examples; None if the budget is a time.
            stream: stream for the bar; None: no bar.
        """
        self.done = 0
        """Number of runs."""
        self.calls = 0
        """Number of requests to the service."""
        self.races = 0
        """Number of times that several were sent at once."""
        self._bar: Any = None
        if stream is not None and find_spec("tqdm") is not None:
            # Imported here: it may not be there.
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=what, unit=" runs", file=stream, mininterval=0.5)

    @classmethod
    def on_terminal(cls, what: str, total: int | None = None) -> Progress:
        """Return a progress on standard error, if that is a terminal."""
        return cls(what, total, sys.stderr if sys.stderr.isatty() else None)

    def step(self, calls: int = 0, races: int = 0) -> None:
        """Count one more run, and its calls."""
        self.done += 1
        self.calls += calls
        self.races += races
        if self._bar is not None:
            self._bar.update(1)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def __str__(self) -> str:
        return f"runs: {self.done:,}, calls: {self.calls:,}, races: {self.races:,}"
