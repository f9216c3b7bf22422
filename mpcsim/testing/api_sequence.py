"""A run as a story: what was done, one sentence a step, and the code that does it again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Call:
    """One method call of a run, as data: draw it, keep it, print it, do it again."""

    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def perform(self, on: object) -> None:
        """Do it."""
        getattr(on, self.method)(**self.arguments)

    def code(self, on: str, owner: type) -> str:
        """As a line of Python, without arguments that are as by default.

        Args:
            on: name of the object.
            owner: its class.
        """
        parameters = inspect.signature(getattr(owner, self.method)).parameters
        shown = []
        for name, value in self.arguments.items():
            default = parameters[name].default
            if default is inspect.Parameter.empty:
                shown.append(repr(value))
            elif value != default:
                shown.append(f"{name}={value!r}")
        return f"{on}.{self.method}({', '.join(shown)})"

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.method}({shown})"


@dataclass
class Step:
    """A call and what is to be said about it."""

    call: Call
    sentence: str = ""
    parts: list[Call] = field(default_factory=list)
    """Simpler steps that do the same one after another; none if it is as simple as can be."""


@dataclass
class ApiSequence:
    """The steps of a run so far."""

    steps: list[Step] = field(default_factory=list)

    def sentences(self) -> list[str]:
        return [step.sentence or str(step.call) for step in self.steps]

    def code(self, owner: type, on: str = "api") -> list[str]:
        """The calls as lines of Python."""
        return [step.call.code(on, owner) for step in self.steps]


class BrokenInvariant(AssertionError):
    """An invariant does not hold. The text is the story of how it came about."""

    name = ""
    """Of the invariant, e.g. ``retired_share_never_signs``."""
    statement = ""
    """What should have held, in one sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        """What was found instead."""
        self.failure: Failure | None = None
        """The story, with everything needed to see it again."""

    def __str__(self) -> str:
        return self.problem if self.failure is None else str(self.failure)


def is_broken_invariant(caught: Any) -> bool:
    """For ``__tracebackhide__``: pytest leaves the kit's lines out of a traceback that has a story.

    Args:
        caught: pytest's ``ExceptionInfo``.
    """
    return isinstance(getattr(caught, "value", None), BrokenInvariant)


__tracebackhide__ = is_broken_invariant


WIDE: Final = 100
"""What went wrong has a line of its own if the step's would be longer."""


@dataclass
class Failure:
    """A broken invariant, and everything needed to see it again."""

    broken: BrokenInvariant
    steps: list[str]
    """Sentences; the last one is where it broke."""
    snippet: str
    """Python that reproduces it without Hypothesis."""
    calls: list[Call] = field(default_factory=list)
    """The same as data."""
    seed: int | None = None
    budget: str = ""
    """What the seed goes with."""
    notes: list[str] = field(default_factory=list)
    parts: list[tuple[Call, ...]] = field(default_factory=list)
    """Of each call the simpler ones it is made of, if any."""
    masked: Callable[[str], str] = field(default=str, repr=False)
    """A text without the secrets of the run."""

    @property
    def headline(self) -> str:
        """What broke and where, in one line."""
        where = f"{self.steps[-1]}: " if self.steps and self.steps[-1] else ""
        return f"{self.broken.name}: {where}{self.broken.problem}".splitlines()[0]

    def __str__(self) -> str:
        *before, last = self.steps or [""]
        lines = [self.broken.statement, f"[{self.broken.name}]", ""]
        told = [*before, f"{last}: {self.broken.problem}" if last else self.broken.problem]
        if last and len(told[-1]) > WIDE:
            told[-1] = f"{last}:\n     {self.broken.problem}"
        lines += [f"  {number}. {sentence}" for number, sentence in enumerate(told, 1)]
        if self.seed is not None:
            lines += ["", f"seed {self.seed}" + (f" ({self.budget})" if self.budget else "")]
        lines += self.notes
        if self.snippet:
            lines += ["", "To see it again:", "", *_indented(self.snippet)]
        return "\n".join(lines)


def _indented(text: str) -> Iterable[str]:
    return (f"    {line}".rstrip() for line in text.splitlines())
