"""What an entry of the catalogue is, and what a run of it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mpcsim.attacks.research import PRODUCT, Build
from mpcsim.errors import Aborted, Consequence, Reason, UsageError, Where
from mpcsim.protocols.engine import Done, Waiting


class Verdict(Enum):
    """How a run under attack ended, as the honest side sees it."""

    ABORTED = "aborted"
    REFUSED = "refused before anything was sent"
    WAITING = "waits, and says for whom"
    HARMLESS = "completed, valid; the attack gained nothing"
    BROKEN = "the attack succeeded"
    ERROR = "the entry itself failed"


class Effect(Enum):
    """What a successful attack achieves."""

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
    """What was found; ``shown`` is for readers, all else is compared."""

    verdict: Verdict
    reason: Reason | None = None
    where: Where | None = None
    culprits: frozenset[int] = frozenset()
    suspects: frozenset[int] = frozenset()
    consequence: Consequence | None = None
    waiting_for: frozenset[int] = frozenset()
    effect: Effect | None = None
    shown: str = field(default="", compare=False)

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


# ------------------------------------------------------------------ what entries expect, and say


def aborted(
    reason: Reason,
    where: Where,
    culprits: Iterable[int] = (),
    suspects: Iterable[int] = (),
    consequence: Consequence | None = None,
) -> Finding:
    """The honest party aborts; with the consequence of the reason, unless said otherwise."""
    return Finding(
        Verdict.ABORTED,
        reason,
        where,
        frozenset(culprits),
        frozenset(suspects),
        consequence or reason.consequence,
    )


def waiting(parties: Iterable[int], shown: str = "") -> Finding:
    """The honest party neither ends nor blames: it waits for these."""
    return Finding(Verdict.WAITING, waiting_for=frozenset(parties), shown=shown)


def refused(shown: str = "") -> Finding:
    """The API refuses before anything is sent."""
    return Finding(Verdict.REFUSED, shown=shown)


def harmless(shown: str = "") -> Finding:
    """The run completed as if there were no attacker."""
    return Finding(Verdict.HARMLESS, shown=shown)


def broken(effect: Effect, shown: str = "") -> Finding:
    """The attack works."""
    return Finding(Verdict.BROKEN, effect=effect, shown=shown)


def proven(condition: bool, effect: Effect, shown: str) -> Finding:
    """Broken if the proof holds; otherwise the attacker has nothing."""
    return broken(effect, shown) if condition else harmless()


def ending(outcome: Done[Any] | Aborted | Waiting | None) -> Finding:
    """How an honest party stands after a run."""
    if isinstance(outcome, Aborted):
        return Finding(
            Verdict.ABORTED,
            outcome.reason,
            outcome.where,
            outcome.culprits,
            outcome.suspects,
            outcome.consequence,
            shown=outcome.detail,
        )
    if isinstance(outcome, Waiting):
        return waiting(outcome.parties, str(outcome))
    return harmless()


# ---------------------------------------------------------------------- entries


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One entry: what it is, and the code that runs it in either mode.

    One of your own needs ``id``, ``name``, ``play`` and ``expected_on``; with ``research`` and
    ``expected_off`` it is shown, too, that it would work were the check not there
    (``mpcsim.attacks.stage`` has what most of them need)::

        mpcsim attacks --from my_attacks.py
    """

    id: str
    """Its row in the table of attacks, with a letter if the row has several entries; of your own,
    any short name."""
    name: str
    reference: str = ""
    """CVE, paper, advisory."""
    step: str = ""
    """Protocol, step and message it strikes at."""
    check: str = ""
    """What defeats it."""
    injection: str = ""
    """How it is done: M mutate, F other round function, E equivocate, U rush, R replay,
    N network, S state, X input; several may combine."""
    play: Callable[[Build], Finding] = field(repr=False)
    """Runs the attack against the product or against a research build: the same attack."""
    research: Callable[[], Build] | None = field(default=None, repr=False)
    """The build in which the check is off."""
    expected_on: Finding
    expected_off: Finding | None = None
    also: tuple[str, ...] = ()
    """Other rows it covers."""

    def __post_init__(self) -> None:
        if (self.research is None) != (self.expected_off is None):
            raise UsageError(
                f"attack {self.id}: research and expected_off belong together: give both, or none"
            )

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of the table that it covers."""
        return (self.id.rstrip("abcdefgh"), *self.also)

    @property
    def modes(self) -> tuple[bool, ...]:
        """Check on; and off, if there is a build for that."""
        return (True,) if self.research is None else (True, False)


@dataclass(frozen=True)
class Cell:
    """One entry in one mode: what must come out, and what did."""

    attack: Attack
    check_on: bool
    observed: Finding

    @property
    def expected(self) -> Finding | None:
        """What must come out in this mode; None where there is no such mode."""
        return self.attack.expected_on if self.check_on else self.attack.expected_off

    @property
    def as_expected(self) -> bool:
        """Whether it did."""
        return self.observed == self.expected


def observe(attack: Attack, check_on: bool) -> Cell:
    """Run one entry in one mode. An entry that raises is an unexpected cell, not an exception."""
    try:
        if check_on or attack.research is None:
            found = attack.play(PRODUCT)
        else:
            found = attack.play(attack.research())
    except Exception as error:
        found = Finding(Verdict.ERROR, shown=f"{type(error).__name__}: {error}")
    return Cell(attack, check_on, found)
