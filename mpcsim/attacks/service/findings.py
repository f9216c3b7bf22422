"""What came of an attack: it is refused in so many words, or proven to have succeeded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mpcsim.errors import MpcError


class Refusal(MpcError):
    """An attack ends here: a check refuses it, and this is what it says."""


class Verdict(Enum):
    """What came of an entry."""

    REFUSED = "refused"
    POSSIBLE = "possible"
    ERROR = "the entry itself failed"


@dataclass(frozen=True)
class Finding:
    """What came of one run."""

    verdict: Verdict
    shown: str
    """The refusal's own words; or what proves that the attack succeeded."""

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.shown}"


def proven(condition: bool, shown: str, otherwise: str) -> Finding:
    """The attack has succeeded if the proof holds.

    Args:
        otherwise: what the refusal says if it does not.

    Raises:
        Refusal: it does not.
    """
    if not condition:
        raise Refusal(otherwise)
    return Finding(Verdict.POSSIBLE, shown)
