"""Base of all steps: the sequence of calls, the model, and requests whose answers are checked."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from mpcsim.testing.api_sequence import (
    ApiSequence,
    BrokenInvariant,
    Call,
    Failure,
    Step,
    is_broken_invariant,
)
from mpcsim.testing.backend import service_checks as checks
from mpcsim.testing.backend.known_deviations import KnownDeviations
from mpcsim.testing.backend.service import Answer, Request
from mpcsim.testing.backend.target import Recipe, ShowsLogs, Target
from mpcsim.testing.invariants import Invariant, check_invariants
from mpcsim.testing.model import IssuedShare, Key, Model, User

__tracebackhide__ = is_broken_invariant

P = ParamSpec("P")
W = TypeVar("W", bound="BaseRun")

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
"""No known deviations."""

PASSWORD: Final = "correct horse battery staple"
HASH: Final = "ab530a13e45914982b79f9b7e3fba994cfd1f3fb22f71cea1afbf02b460c6d1d"
"""Message that is signed by default."""

DURING_OUTAGES: Final = frozenset({409, 500, 502, 504})
"""Statuses that any request may get while parts of the system are down or messages get lost. (409:
a request that failed before may still be in progress.)"""

UNKNOWN: Final = frozenset({502, 504})
"""Statuses after which a request may have made or recovered the key all the same."""


class Skipped(Exception):
    """The step makes no sense now.

    Raise it before anything is asked of the target: a run without its skipped steps is the same
    run.
    """


def step(
    method: Callable[Concatenate[W, P], None],
) -> Callable[Concatenate[W, P], None]:
    """Make a method a step: it is recorded in the sequence, and reported if it fails."""
    signature = inspect.signature(method)

    @wraps(method)
    def noted(self: W, /, *args: P.args, **kwargs: P.kwargs) -> None:
        arguments = dict(signature.bind(self, *args, **kwargs).arguments)
        del arguments["self"]
        if self.known_deviations.skips(method.__name__):
            return
        self.sequence.steps.append(Step(Call(method.__name__, arguments)))
        with self.known_deviations.excuse_during(method.__name__) as waived:
            try:
                method(self, *args, **kwargs)
                self._check_logs()
                for made in self.invariants:
                    made(self)
            except Skipped:
                self.sequence.steps.pop()
            except BrokenInvariant as broken:
                # What is read in a CI's log stays there: no secret of the run goes into it.
                broken.problem = self._secrets.masked(broken.problem)
                broken.args = (broken.problem,)
                broken.failure = self.failure(broken)
                raise
            except (AttributeError, LookupError, TypeError, ValueError):
                # The step goes on with a member that a waived answer lacks.
                if not waived:
                    raise

    return noted


class BaseRun:
    """State of a run through the API, and the requests that its steps are made of."""

    def __init__(
        self,
        target: Target,
        invariants: Iterable[Invariant[...]] = (),
        known_deviations: KnownDeviations | Mapping[str, str] = NOTHING,
    ) -> None:
        """
        Args:
            invariants: your own, beside the kit's (``invariant`` has an example); each is given the
                run after every step.
            known_deviations: deliberate deviations of the service, with reasons
                (``mpcsim.testing.backend.known_deviations``).

        Raises:
            UsageError: one of the invariants is none, or a deviation names nothing.
        """
        self.target = target
        self.invariants = check_invariants(invariants)
        self.known_deviations = self.to_known_deviations(known_deviations)
        self.model = Model()
        self.sequence = ApiSequence()
        self.exchanged: list[tuple[Request, Answer]] = []
        """Every request so far with its answer, the oldest first."""
        self.races = 0
        """Number of times that several were sent at once."""
        self._id = uuid.uuid4().hex[:12]
        self._secrets = checks.Secrets()
        self._outages: dict[str, None] = {}
        """Present outages: stopped parts, and ``messages`` while they are lost."""
        self._unsettled = False
        """Whether a request failed because of an outage."""
        self._in_doubt: dict[tuple[str, str], None] = {}
        """User and curve of keys that may have been made or recovered without an answer."""

    @classmethod
    def steps(cls) -> tuple[str, ...]:
        """Return the names of the methods that are steps."""
        return tuple(name for name in dir(cls) if hasattr(getattr(cls, name), "__wrapped__"))

    @classmethod
    def to_known_deviations(cls, reasons: KnownDeviations | Mapping[str, str]) -> KnownDeviations:
        """Return the known deviations that these reasons give, checked against the steps there are.

        Raises:
            UsageError: one names nothing, or has no reason.
        """
        if isinstance(reasons, KnownDeviations):
            return reasons
        return KnownDeviations(reasons, cls.steps())

    def play(self, calls: Sequence[Call]) -> None:
        """Take the steps of a drawn sequence, one after another.

        Raises:
            BrokenInvariant: as the steps do.
        """
        for call in calls:
            call.perform(self)

    @property
    def calls(self) -> int:
        """Number of requests answered so far."""
        return len(self.exchanged)

    def has_key(self, user: str, curve: str) -> bool:
        """Return whether the model has the user's key."""
        found = self.model.users.get(user)
        return found is not None and curve in found.keys

    def has_old_share(self, user: str, curve: str) -> bool:
        """Return whether the user's key has been recovered at least once."""
        return self.has_key(user, curve) and len(self.model.users[user].keys[curve].shares) > 1

    def failure(self, broken: BrokenInvariant) -> Failure:
        """Return the failure at the present step, with a snippet that repeats the run."""
        recipe = self.target.recipe if isinstance(self.target, Recipe) else ""
        names = ", ".join(made.name for made in self.invariants)
        given = ["target"] + [f"[{names}]"] * bool(names)
        given += [f"known_deviations={self.known_deviations.reasons}"] * bool(
            self.known_deviations.reasons
        )
        code = [
            "from mpcsim.testing import ApiRun",
            *(made.recipe for made in self.invariants),
            recipe or "target = ...  # as in your test",
            "",
            f"api = ApiRun({', '.join(given)})",
            *self.sequence.code(type(self)),
        ]
        steps = self.sequence.steps
        return Failure(
            broken,
            self.sequence.sentences(),
            "\n".join(code),
            [step.call for step in steps],
            parts=[tuple(step.parts) for step in steps],
            masked=self._secrets.masked,
        )

    # ------------------------------------------------------------------ one request

    def _user(self, name: str) -> User:
        user = self.model.users.get(name)
        if user is None:
            login = f"{name}-{self._id}"
            user = self.model.users[name] = User(name, login, self.target.token(login))
            self._add_secret(user.token, f"{name}'s token")
        return user

    def _share(self, user: str, curve: str, share: int) -> tuple[User, Key, IssuedShare]:
        self._skip_if_in_doubt(user, curve)
        if not self.has_key(user, curve):
            raise Skipped
        who = self._user(user)
        key = who.keys[curve]
        return who, key, key.shares[share if share < 0 else share % len(key.shares)]

    def _post(self, who: User, operation: str, body: dict[str, Any]) -> Answer:
        return self._posts(who, [(operation, body)])[0]

    def _posts(self, who: User, bodies: Sequence[tuple[str, dict[str, Any]]]) -> list[Answer]:
        return self._ask(
            [Request("POST", f"/v3/wallet/{name}", body, who.token) for name, body in bodies]
        )

    def _get(self, who: User, operation: str) -> Answer:
        path = f"/v3/wallet/{operation}".rstrip("/")
        return self._ask([Request("GET", path, None, who.token)])[0]

    def _ask(self, requests: Sequence[Request]) -> list[Answer]:
        self.races += len(requests) > 1
        masked = self._secrets.masked
        answers = [replace(answer, masked=masked) for answer in self.target.ask(requests)]
        self.exchanged += zip(requests, answers, strict=True)
        for answer in answers:
            checks.service_answers(answer)
            checks.error_is_as_specified(answer)
            checks.no_secret_in_errors(self._secrets, answer)
        return answers

    def _expect(self, answer: Answer, expected: Sequence[int], why: str = "") -> bool:
        """Check the answer's status; return False if it is unexpected but explained by an
        outage."""
        if self._outages and answer.status in DURING_OUTAGES and answer.status not in expected:
            self._unsettled = True
            return False
        checks.answer_is_as_specified(answer, expected, why)
        return True

    def _skip_if_in_doubt(self, user: str, curve: str) -> None:
        """Skip the step if it is unknown which key there is."""
        if (user, curve) in self._in_doubt:
            raise Skipped

    def _note_doubt(self, answer: Answer, user: str, curve: str) -> None:
        """Note a request to make or recover a key if its outcome is unknown."""
        if answer.status in UNKNOWN:
            self._in_doubt[user, curve] = None

    def _check_logs(self) -> None:
        if isinstance(self.target, ShowsLogs):
            checks.no_secret_in_logs(self._secrets, self.target.logs())

    def _add_secret(self, secret: str, what: str) -> None:
        if len(secret) >= 8:  # a shorter one may be anywhere by chance
            self._secrets.add(secret, what)

    def _describe_step(self, sentence: str) -> None:
        self.sequence.steps[-1].sentence = sentence

    def _set_parts(self, *parts: Call) -> None:
        """Set the simpler steps with the same effect, which the shrinker tries."""
        self.sequence.steps[-1].parts = list(parts)

    def _is_about(self, user: str, curve: str) -> bool:
        """Return whether the step before was about the same key."""
        if len(self.sequence.steps) < 2:
            return False
        before = self.sequence.steps[-2].call.arguments
        return (before.get("user"), before.get("curve")) == (user, curve)


def share_name(key: Key, share: IssuedShare) -> str:
    """Return the name of a share in a description."""
    if not share.retired:
        return f"the {key.curve} share" if len(key.shares) == 1 else f"the new {key.curve} share"
    if len(key.shares) == 2:
        return f"the old {key.curve} share"
    return f"the retired {key.curve} share number {1 + key.shares.index(share)}"
