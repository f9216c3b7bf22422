"""Invariants: checks with a name, a statement and a reason when they fail.

Every check is a function that says what is wrong, or nothing; ``invariant`` makes it raise. Each
has an exception class of its own, so that whoever looks for the smallest failure (Hypothesis) never
slides from one bug to another, and a test can say which one it expects::

    with pytest.raises(retired_share_never_signs.Broken): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec

if TYPE_CHECKING:
    from mpcsim.testing.story import Failure

P = ParamSpec("P")


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


def is_told(caught: Any) -> bool:
    """For ``__tracebackhide__``: pytest leaves the kit's lines out of a traceback that has a story.

    Args:
        caught: pytest's ``ExceptionInfo``.
    """
    return isinstance(getattr(caught, "value", None), BrokenInvariant)


__tracebackhide__ = is_told


class Invariant(Generic[P]):
    """A check that raises; call it with what it is to look at."""

    def __init__(self, check: Callable[P, str | None]) -> None:
        self._check = check
        self.__doc__ = check.__doc__
        self.name: str = check.__name__
        self.statement = " ".join((check.__doc__ or "").split("\n\n")[0].split())
        self.Broken: type[BrokenInvariant] = type(
            "".join(word.capitalize() for word in self.name.split("_")),
            (BrokenInvariant,),
            {"name": self.name, "statement": self.statement, "__doc__": self.statement},
        )
        """What is raised."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Look.

        Raises:
            BrokenInvariant: it does not hold (``Broken`` of this invariant).
        """
        if problem := self._check(*args, **kwargs):
            raise self.Broken(problem)

    def __repr__(self) -> str:
        return f"<Invariant {self.name}: {self.statement}>"


INVARIANTS: Final[dict[str, Invariant[...]]] = {}
"""Every invariant of this package, by name."""


def invariant(check: Callable[P, str | None]) -> Invariant[P]:
    """Make a check an invariant. Its docstring's first paragraph is the statement."""
    made = Invariant(check)
    INVARIANTS[made.name] = made
    return made


def describe() -> str:
    """All invariants, one a line."""
    return "\n".join(f"{name}: {made.statement}" for name, made in sorted(INVARIANTS.items()))
