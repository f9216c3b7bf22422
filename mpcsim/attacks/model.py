"""Data model of the gallery: an attack, the finding of one run, and a cell of the matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mpcsim.attacks.research import PRODUCT, Build
from mpcsim.errors import Aborted, AbortReason, Consequence, Reason, UsageError, Where
from mpcsim.protocols.engine import Done, Waiting


class Verdict(Enum):
    """End of a run under attack, as the honest side sees it."""

    ABORTED = "aborted"
    REFUSED = "refused before anything was sent"
    WAITING = "waits, and says for whom"
    HARMLESS = "completed, valid; the attack gained nothing"
    BROKEN = "the attack succeeded"
    ERROR = "the entry itself failed"


class Effect(Enum):
    """Gain of a successful attack."""

    KEY = "the whole private key is recovered, and matches the public key"
    FORGERY = "a signature verifies that the honest signer did not agree to"
    LEAK = "secrets of the honest party are recovered"
    CHOSEN_KEY = "the attacker alone knows the generated key"
    BIAS = "the attacker steers a value that must be random"
    UNUSABLE = "the holders' shares no longer combine to the key"
    SPLIT = "two honest parties, or verifiers, end with different results"
    BAD_OUTPUT = "an invalid signature is released"
    MALLEABLE = "a second encoding of the same signature is accepted"
    AMBIGUOUS = "one commitment opens to two different values"
    NO_KNOWLEDGE = "a proof of knowledge is accepted from somebody who does not know"
    HONEST_BLAMED = "an honest party is named as the culprit"
    NOBODY_NAMED = "the cheater stops the run and cannot be named"
    CRASH = "an exception escapes from the party"


@dataclass(frozen=True)
class Finding:
    """Outcome of a run under attack, seen from the honest side; compared but for ``shown``."""

    verdict: Verdict
    reason: AbortReason | None = None
    where: Where | None = None
    culprits: frozenset[int] = frozenset()
    suspects: frozenset[int] = frozenset()
    consequence: Consequence | None = None
    waiting_for: frozenset[int] = frozenset()
    effect: Effect | None = None
    shown: str = field(default="", compare=False)
    """Details for readers."""

    @classmethod
    def aborted(
        cls,
        reason: Reason,
        where: Where,
        culprits: Iterable[int] = (),
        suspects: Iterable[int] = (),
        consequence: Consequence | None = None,
    ) -> Finding:
        """Return that the honest party aborts; by default with its reason's consequence."""
        named = frozenset(culprits), frozenset(suspects)
        return cls(Verdict.ABORTED, reason, where, *named, consequence or reason.consequence)

    @classmethod
    def waiting(cls, parties: Iterable[int], shown: str = "") -> Finding:
        """Return that the honest party neither ends nor blames: it waits for these parties."""
        return cls(Verdict.WAITING, waiting_for=frozenset(parties), shown=shown)

    @classmethod
    def refused(cls, shown: str = "") -> Finding:
        """Return that the API refuses before anything is sent."""
        return cls(Verdict.REFUSED, shown=shown)

    @classmethod
    def harmless(cls, shown: str = "") -> Finding:
        """Return that the run completed as if there were no attacker."""
        return cls(Verdict.HARMLESS, shown=shown)

    @classmethod
    def broken(cls, effect: Effect, shown: str = "") -> Finding:
        """Return that the attack succeeded."""
        return cls(Verdict.BROKEN, effect=effect, shown=shown)

    @classmethod
    def broken_if(cls, condition: bool, effect: Effect, shown: str) -> Finding:
        """Return that the attack succeeded if the condition proves it, else that it is harmless."""
        return cls.broken(effect, shown) if condition else cls.harmless()

    @classmethod
    def of_outcome(cls, outcome: Done[Any] | Aborted | Waiting | None) -> Finding:
        """Return the finding that an honest party's outcome amounts to."""
        if isinstance(outcome, Aborted):
            return cls(
                Verdict.ABORTED,
                outcome.reason,
                outcome.where,
                outcome.culprits,
                outcome.suspects,
                outcome.consequence,
                shown=outcome.detail,
            )
        if isinstance(outcome, Waiting):
            return cls.waiting(outcome.parties, str(outcome))
        return cls.harmless()

    def __str__(self) -> str:
        if self.verdict is Verdict.ABORTED and self.reason and self.consequence:
            named = f"culprit {_list(self.culprits)}" if self.culprits else "no culprit"
            if self.suspects - self.culprits:
                named += f", suspects {_list(self.suspects)}"
            return f"aborted {self.where}: {self.reason.name}; {named}; {self.consequence.label}"
        if self.verdict is Verdict.WAITING:
            return f"{self.verdict.value}: party {_list(self.waiting_for)}"
        if self.effect:
            return f"{self.verdict.value}: {self.effect.value}"
        text: str = self.verdict.value
        return text


def _list(parties: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(parties)))


# ---------------------------------------------------------------------- entries


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Entry of the gallery: an attack, its source, the check that stops it, and its code.

    One of your own needs ``id``, ``name``, ``run`` and ``expected_on``; with ``research`` and
    ``expected_off`` it is shown, too, that it would work were the check not there
    (``mpcsim.attacks.harness`` has what most of them need)::

        mpcsim attacks --from my_attacks.py
    """

    id: str
    """Row of the table of attacks, with a letter if the row has several entries; for one of your
    own, any short name."""
    name: str
    reference: str = ""
    """Source: CVE, paper or advisory."""
    step: str = ""
    """Protocol, step and message it strikes at."""
    check: str = ""
    """Check that stops it."""
    injection: str = ""
    """Powers of the attacker: M mutate messages, F run another round function, E equivocate,
    U rush (speak last), R replay, N control the network, S restore state, X choose inputs."""
    run: Callable[[Build], Finding] = field(repr=False)
    """Attack code, the same against the product and against a research build."""
    research: Callable[[], Build] | None = field(default=None, repr=False)
    """Build in which the check is off."""
    expected_on: Finding
    expected_off: Finding | None = None
    also: tuple[str, ...] = ()
    """Further rows of the table that it covers."""

    def __post_init__(self) -> None:
        if (self.research is None) != (self.expected_off is None):
            raise UsageError(
                f"attack {self.id}: research and expected_off belong together: give both, or none"
            )

    @property
    def rows(self) -> tuple[str, ...]:
        """Rows of the table that it covers."""
        return (self.id.rstrip("abcdefgh"), *self.also)

    @property
    def modes(self) -> tuple[bool, ...]:
        """Modes it runs in: check on, and off if there is a build for that."""
        return (True,) if self.research is None else (True, False)


@dataclass(frozen=True)
class Cell:
    """Entry in one mode: the expected and the observed finding."""

    attack: Attack
    check_on: bool
    observed: Finding

    @property
    def expected(self) -> Finding | None:
        """Expected finding in this mode; None where there is no such mode."""
        return self.attack.expected_on if self.check_on else self.attack.expected_off

    @property
    def as_expected(self) -> bool:
        """Whether the observed finding is the expected one."""
        return self.observed == self.expected


def run_cell(attack: Attack, check_on: bool) -> Cell:
    """Run one entry in one mode; an exception in it makes an unexpected cell."""
    try:
        if check_on or attack.research is None:
            found = attack.run(PRODUCT)
        else:
            found = attack.run(attack.research())
    except Exception as error:
        found = Finding(Verdict.ERROR, shown=f"{type(error).__name__}: {error}")
    return Cell(attack, check_on, found)
