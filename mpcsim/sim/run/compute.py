"""Compute models: the virtual time of a computation is zero, declared per round, or measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from mpcsim.errors import UsageError
from mpcsim.frozen_dict import freeze_fields
from mpcsim.protocols.engine.events import Listener, PartyEvent, StepFinished, StepStarted

RoundKey = tuple[str, str]
"""(protocol, round name)."""


@dataclass(frozen=True)
class RoundWork:
    """Round that a party ran, with its measured time."""

    protocol: str
    number: int
    name: str
    measured_ms: float
    began_ms: float = 0.0
    """Start of the round, by the clock that measured it."""


def cpu_ms() -> float:
    """Return this process's CPU time in milliseconds."""
    return time.process_time_ns() / 1e6


class Stopwatch:
    """Listener that measures rounds, and passes all events on."""

    def __init__(self, onward: Listener, clock_ms: Callable[[], float] = cpu_ms) -> None:
        self.onward = onward
        self.rounds: list[RoundWork] = []
        self._clock_ms = clock_ms
        self._depth = 0
        self._began = 0.0

    def __call__(self, event: PartyEvent) -> None:
        if isinstance(event, StepStarted):
            if not self._depth:
                self._began = self._clock_ms()
            self._depth += 1
        elif isinstance(event, StepFinished):
            self._depth -= 1
            if not self._depth:
                took = self._clock_ms() - self._began
                of = event.protocol, event.round, event.step
                self.rounds.append(RoundWork(*of, took, self._began))
        self.onward(event)

    def take(self) -> list[RoundWork]:
        """Return the rounds since the last call."""
        rounds, self.rounds = self.rounds, []
        return rounds


class Compute(Protocol):
    """Model of the time that computation takes on a site with ``cpu_factor`` 1."""

    @property
    def name(self) -> str: ...
    def handling_ms(self, whole_ms: float, rounds: Iterable[RoundWork]) -> float:
        """Return the time of work before the first round: decrypting and decoding messages."""
        ...

    def round_ms(self, work: RoundWork) -> float:
        """Return the time of one round."""
        ...


@dataclass(frozen=True)
class Free:
    """Computation takes no time."""

    name: str = "free"

    def handling_ms(self, whole_ms: float, rounds: Iterable[RoundWork]) -> float:
        return 0.0

    def round_ms(self, work: RoundWork) -> float:
        return 0.0


@dataclass(frozen=True)
class Measured:
    """Computation takes its measured CPU time; runs differ a little each time."""

    name: str = "measured"

    def handling_ms(self, whole_ms: float, rounds: Iterable[RoundWork]) -> float:
        return max(0.0, whole_ms - sum(work.measured_ms for work in rounds))

    def round_ms(self, work: RoundWork) -> float:
        return work.measured_ms


@dataclass(frozen=True)
class Declared:
    """Computation takes a declared time per round; runs repeat exactly."""

    costs_ms: Mapping[RoundKey, float]
    name: str = field(default="declared")

    def __post_init__(self) -> None:
        freeze_fields(self, "costs_ms")
        for (protocol, round_), cost in self.costs_ms.items():
            if not cost >= 0:
                raise UsageError(f"cost of {protocol} {round_} is {cost} ms: below 0")

    def handling_ms(self, whole_ms: float, rounds: Iterable[RoundWork]) -> float:
        return 0.0

    def round_ms(self, work: RoundWork) -> float:
        """Return the declared time of the round.

        Raises:
            UsageError: none was declared.
        """
        try:
            return self.costs_ms[work.protocol, work.name]
        except KeyError:
            raise UsageError(
                f"no cost is declared for round {work.name} of {work.protocol}"
            ) from None


def calibrate(runs: Iterable[Callable[[Listener], Any]]) -> Declared:
    """Return a compute model measured on this machine: the median time of each round.

    Args:
        runs: functions that run a whole session with the listener they are given.
    """
    seen: dict[RoundKey, list[float]] = {}
    for run in runs:
        watch = Stopwatch(lambda event: None)
        run(watch)
        for work in watch.take():
            seen.setdefault((work.protocol, work.name), []).append(work.measured_ms)
    return Declared({key: median(times) for key, times in seen.items()})
