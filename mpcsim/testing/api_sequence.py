"""Sequence of API calls of a run: one sentence a step, and the code that repeats it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final


@dataclass(frozen=True)
class Call:
    """Method call of a run as data: it can be drawn, kept, printed and repeated."""

    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def perform(self, on: object) -> None:
        """Make the call."""
        getattr(on, self.method)(**self.arguments)

    def code(self, on: str, owner: type) -> str:
        """Return it as a line of Python, without arguments that have their default value.

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
    """Step of a run: a call, and its description."""

    call: Call
    sentence: str = ""
    parts: list[Call] = field(default_factory=list)
    """Simpler steps with the same effect, one after another; none if there are no simpler ones."""


@dataclass
class ApiSequence:
    """Steps of a run so far."""

    steps: list[Step] = field(default_factory=list)

    def sentences(self) -> list[str]:
        return [step.sentence or str(step.call) for step in self.steps]

    def code(self, owner: type, on: str = "api") -> list[str]:
        """Return the calls as lines of Python."""
        return [step.call.code(on, owner) for step in self.steps]


class BrokenInvariant(AssertionError):
    """An invariant does not hold. The text has the steps that led to it."""

    name = ""
    """Name of the invariant, e.g. ``retired_share_never_signs``."""
    statement = ""
    """Statement that should have held, one sentence."""
    source = ("", "")
    """Module of its invariant, and its name there: pickles refer to the class by it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        """Problem that was found."""
        self.failure: Failure | None = None
        """Steps of the run, with everything needed to repeat it."""

    def __str__(self) -> str:
        return self.problem if self.failure is None else str(self.failure)

    def __reduce__(self) -> tuple[object, ...]:
        state = vars(self) | {"name": self.name, "statement": self.statement}
        return _restore_broken, (*self.source, self.problem), state


def _restore_broken(module: str, name: str, problem: str) -> BrokenInvariant:
    """Return an exception of the invariant's own class, if the invariant has a name in a module."""
    found: Any = import_module(module) if module else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return getattr(found, "Broken", BrokenInvariant)(problem)


def is_broken_invariant(caught: Any) -> bool:
    """Return whether an exception is a broken invariant, for pytest's ``__tracebackhide__``.

    Args:
        caught: pytest's ``ExceptionInfo``.
    """
    return isinstance(getattr(caught, "value", None), BrokenInvariant)


__tracebackhide__ = is_broken_invariant


WIDE: Final = 100
"""Longest line of a step with its problem; a longer problem gets a line of its own."""


@dataclass
class Failure:
    """A broken invariant, and everything needed to repeat it."""

    broken: BrokenInvariant
    steps: list[str]
    """Descriptions of the steps; it broke at the last one."""
    snippet: str
    """Python code that reproduces it without Hypothesis."""
    calls: list[Call] = field(default_factory=list)
    """Calls of the steps, as data."""
    seed: int | None = None
    budget: str = ""
    """Budget that the seed belongs to."""
    notes: list[str] = field(default_factory=list)
    parts: list[tuple[Call, ...]] = field(default_factory=list)
    """Simpler calls that each call is made of, if any."""
    masked: Callable[[str], str] = field(default=str, repr=False)
    """Function that masks the secrets of the run in a text."""

    @property
    def headline(self) -> str:
        """Invariant, step and problem, in one line."""
        where = f"{self.steps[-1]}: " if self.steps and self.steps[-1] else ""
        return f"{self.broken.name}: {where}{self.broken.problem}".splitlines()[0]

    def __str__(self) -> str:
        *before, last = self.steps or [""]
        lines = [self.broken.statement, f"[{self.broken.name}]", ""]
        shown = [*before, f"{last}: {self.broken.problem}" if last else self.broken.problem]
        if last and len(shown[-1]) > WIDE:
            shown[-1] = f"{last}:\n     {self.broken.problem}"
        lines += [f"  {number}. {sentence}" for number, sentence in enumerate(shown, 1)]
        if self.seed is not None:
            lines += ["", f"seed {self.seed}" + (f" ({self.budget})" if self.budget else "")]
        lines += self.notes
        if self.snippet:
            lines += ["", "To see it again:", "", *_indented(self.snippet)]
        return "\n".join(lines)


def _indented(text: str) -> Iterable[str]:
    return (f"    {line}".rstrip() for line in text.splitlines())
