"""Outcome of an attack on the service: refused, with the check's words, or proven to succeed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from mpcsim.errors import MpcError


class Refusal(MpcError):
    """Refusal of an attack by a check, with the check's words."""


class Verdict(Enum):
    """Kind of outcome."""

    REFUSED = "refused"
    POSSIBLE = "possible"
    ERROR = "the entry itself failed"


@dataclass(frozen=True)
class Finding:
    """Outcome of one run."""

    verdict: Verdict
    shown: str
    """Words of the refusal, or the proof that the attack succeeded."""

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.shown}"


def refusal_of(act: Callable[[], object]) -> str:
    """Return the words with which an act is refused; empty if it is not."""
    try:
        act()
    except Refusal as refusal:
        return str(refusal)
    return ""


def succeed_if(condition: bool, shown: str, otherwise: str) -> Finding:
    """Return that the attack succeeded, if the condition proves it.

    Args:
        otherwise: words of the refusal if it does not.

    Raises:
        Refusal: the condition does not hold.
    """
    if not condition:
        raise Refusal(otherwise)
    return Finding(Verdict.POSSIBLE, shown)
