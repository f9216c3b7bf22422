"""What all steps have in common: the story, the model, and requests whose answers are checked."""

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
from mpcsim.testing.invariants import Invariant, own
from mpcsim.testing.model import IssuedShare, Key, Model, User

__tracebackhide__ = is_broken_invariant

P = ParamSpec("P")
W = TypeVar("W", bound="BaseRun")

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
"""No waivers."""

PASSWORD: Final = "correct horse battery staple"
HASH: Final = "ab530a13e45914982b79f9b7e3fba994cfd1f3fb22f71cea1afbf02b460c6d1d"
"""What is signed unless said otherwise."""

DURING_OUTAGES: Final = frozenset({409, 500, 502, 504})
"""What any request may be answered while parts of the system are down or messages get lost. (409:
what has failed before may still be in progress.)"""

UNKNOWN: Final = frozenset({502, 504})
"""After these, what makes a key may have made it all the same."""


class Skipped(Exception):
    """The step makes no sense now.

    To be raised before anything is asked of the target: a run without its skipped steps is the
    same run.
    """


def step(
    method: Callable[Concatenate[W, P], None],
) -> Callable[Concatenate[W, P], None]:
    """Make a method a step: noted in the story, and told if it fails."""
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
                # Of an answer that was let pass, something is missing that the step goes on with.
                if not waived:
                    raise

    return noted


class BaseRun:
    """What the steps have led to, and what they are made of."""

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
            waivers: what the service does otherwise on purpose, and why
                (``mpcsim.testing.backend.known_deviations``).

        Raises:
            UsageError: something among them is none.
        """
        self.target = target
        self.invariants = own(invariants)
        self.known_deviations = self.to_known_deviations(known_deviations)
        self.model = Model()
        self.sequence = ApiSequence()
        self.exchanged: list[tuple[Request, Answer]] = []
        """Every request so far with its answer, the oldest first."""
        self.races = 0
        """How often several of them were sent at the same time."""
        self._id = uuid.uuid4().hex[:12]
        self._secrets = checks.Secrets()
        self._outages: dict[str, None] = {}
        """What is out of order just now."""
        self._unsettled = False
        """A request failed because of it."""
        self._in_doubt: dict[tuple[str, str], None] = {}
        """User and curve of keys that may have been made or recovered without an answer."""

    @classmethod
    def steps(cls) -> tuple[str, ...]:
        """The methods that are steps."""
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
        """Requests answered so far."""
        return len(self.exchanged)

    def has_key(self, user: str, curve: str) -> bool:
        """Whether the model has it."""
        found = self.model.users.get(user)
        return found is not None and curve in found.keys

    def has_old_share(self, user: str, curve: str) -> bool:
        """Whether it has been recovered at least once."""
        return self.has_key(user, curve) and len(self.model.users[user].keys[curve].shares) > 1

    def failure(self, broken: BrokenInvariant) -> Failure:
        """The story up to here, with a snippet that runs the same way again."""
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
            self._secret(user.token, f"{name}'s token")
        return user

    def _share(self, user: str, curve: str, share: int) -> tuple[User, Key, IssuedShare]:
        self._sure(user, curve)
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
        """Whether the answer is as expected; False if the present outage explains that not."""
        if self._outages and answer.status in DURING_OUTAGES and answer.status not in expected:
            self._unsettled = True
            return False
        checks.answer_is_as_specified(answer, expected, why)
        return True

    def _sure(self, user: str, curve: str) -> None:
        """Skip the step if nobody knows which key there is."""
        if (user, curve) in self._in_doubt:
            raise Skipped

    def _doubt(self, answer: Answer, user: str, curve: str) -> None:
        """Note a request to make or recover a key if nobody knows what has come of it."""
        if answer.status in UNKNOWN:
            self._in_doubt[user, curve] = None

    def _check_logs(self) -> None:
        if isinstance(self.target, ShowsLogs):
            checks.no_secret_in_logs(self._secrets, self.target.logs())

    def _secret(self, secret: str, what: str) -> None:
        if len(secret) >= 8:  # a shorter one may be anywhere by chance
            self._secrets.add(secret, what)

    def _tell(self, sentence: str) -> None:
        self.sequence.steps[-1].sentence = sentence

    def _made_of(self, *parts: Call) -> None:
        """Simpler steps that do the same one after another; whoever shrinks the run tries them."""
        self.sequence.steps[-1].parts = list(parts)

    def _is_about(self, user: str, curve: str) -> bool:
        """Whether the step before was about the same key."""
        if len(self.sequence.steps) < 2:
            return False
        before = self.sequence.steps[-2].call.arguments
        return (before.get("user"), before.get("curve")) == (user, curve)


def share_name(key: Key, share: IssuedShare) -> str:
    """A share, in a story."""
    if not share.retired:
        return f"the {key.curve} share" if len(key.shares) == 1 else f"the new {key.curve} share"
    if len(key.shares) == 2:
        return f"the old {key.curve} share"
    return f"the retired {key.curve} share number {1 + key.shares.index(share)}"


def article(curve: str) -> str:
    return f"an {curve}" if curve.startswith("e") else f"a {curve}"
