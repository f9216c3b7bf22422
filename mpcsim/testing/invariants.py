"""Invariants: checks with a name, a statement and a reason when they fail.

Every check is a function that returns what is wrong, or None; ``invariant`` makes it raise. Each
has an exception class of its own, so that the search for the smallest failure (Hypothesis) never
slides from one bug to another, and a test can say which one it expects::

    with pytest.raises(retired_share_never_signs.Broken): ...

The kit checks its own by itself, and others where they are given::

    check_wallet_service(target, invariants=[no_nonce_twice])
    run_protocol(scenario, order=order, invariants=[all_or_none])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final, Generic, ParamSpec

from mpcsim.errors import UsageError, with_article
from mpcsim.testing.api_sequence import BrokenInvariant, is_broken_invariant

P = ParamSpec("P")


__tracebackhide__ = is_broken_invariant

EXCUSED: Final[ContextVar[Callable[[str], bool]]] = ContextVar("EXCUSED")
"""Function that returns whether an invariant, by name, may be broken just now
(``known_deviations``)."""


class Invariant(Generic[P]):
    """Check that raises when it fails; call it with the objects to check."""

    def __init__(self, check: Callable[P, str | None]) -> None:
        self._check = check
        self.__doc__ = check.__doc__
        self.name: str = check.__name__
        statement = check.__doc__ or f"{self.name.replace('_', ' ')}."
        self.statement = " ".join(statement.split("\n\n")[0].split())
        self.Broken: type[BrokenInvariant] = type(
            "".join(word.capitalize() for word in self.name.split("_")),
            (BrokenInvariant,),
            {
                "name": self.name,
                "statement": self.statement,
                "source": (check.__module__, check.__qualname__),
                "__doc__": self.statement,
            },
        )
        """Exception class of this invariant."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Check it, unless it is waived just now (``mpcsim.testing.backend.known_deviations``).

        Raises:
            BrokenInvariant: it does not hold (``Broken`` of this invariant), or the check raised,
                because an object was not as it expected.
            UsageError: the check returned something else than a text or None.
        """
        try:
            problem: object = self._check(*args, **kwargs)
        except BrokenInvariant:
            raise
        except Exception as error:
            if self._excused():
                return
            raise self.Broken(f"the check raised {type(error).__name__}: {error}") from error
        if problem is not None and not isinstance(problem, str):
            raise UsageError(
                f"the invariant {self.name} returned {with_article(type(problem).__name__)}; "
                "expected a text that says what is wrong, or None"
            )
        if problem and not self._excused():
            raise self.Broken(problem)

    def _excused(self) -> bool:
        excused = EXCUSED.get(None)
        return excused is not None and excused(self.name)

    @property
    def recipe(self) -> str:
        """Python statement that imports it, for the snippets of failures."""
        if "<locals>" in self._check.__qualname__:
            return f"{self.name} = ...  # as in your test"
        return f"from {self._check.__module__} import {self.name}"

    def __repr__(self) -> str:
        return f"<Invariant {self.name}: {self.statement}>"


def invariant(check: Callable[P, str | None]) -> Invariant[P]:
    """Make a check an invariant. Its docstring's first paragraph is the statement.

    One of your own, for a service, takes the ``ApiRun``, and is asked after each of its steps.
    ``api.exchanged`` has every request so far with its answer, ``api.model`` what the
    specification expects to be there::

        @invariant
        def no_nonce_twice(api: ApiRun) -> str | None:
            "No two messages are signed with the same nonce."
            signed = {}
            for request, answer in api.exchanged:
                if request.path == "/v3/wallet/sign" and answer.status == 200:
                    message, nonce = request.body["message"], answer.document["signature"][:64]
                    if signed.setdefault(nonce, message) != message:
                        return "another message had been signed with the same nonce"
            return None

        check_wallet_service(target, invariants=[no_nonce_twice])

    One for a protocol takes the ``ProtocolRun``, and is asked at its end::

        @invariant
        def all_or_none(run: ProtocolRun) -> str | None:
            "Either every honest party has its result, or none has."
            finished = {i for i, outcome in run.outcomes.items() if isinstance(outcome, Done)}
            late = run.outcomes.keys() - finished
            return f"party {min(late)} has no result" if finished and late else None

        run_protocol(scenario, order=order, faults=faults, invariants=[all_or_none])

    Their failures are reported and shrunk like all others.
    """
    return Invariant(check)


def check_invariants(invariants: Iterable[object]) -> tuple[Invariant[...], ...]:
    """Check that the given objects are invariants, and return them.

    Raises:
        UsageError: one is not.
    """
    found: list[Invariant[...]] = []
    for given in invariants:
        if not isinstance(given, Invariant):
            name = getattr(given, "__name__", type(given).__name__)
            raise UsageError(f"invariants: {name} is none; put @invariant before it")
        found.append(given)
    return tuple(found)
