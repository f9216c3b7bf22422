"""Phases of a party, and the outputs that it returns to its driver."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from mpcsim.errors import Aborted, CheckFailed, Evidence, InRound, Where
from mpcsim.ids import PartyId

R = TypeVar("R")


class Phase(Enum):
    """Progress of a party, which decides what becomes of a message that is for it:

    ===========  ==============  ================  ===============  ==================
    phase        first of its    one that does     other than was   notice of an abort
                 kind            not open          taken before
    ===========  ==============  ================  ===============  ==================
    NOT_STARTED  kept            kept              kept             kept
    AGREEING     taken           kept or ignored   ends the run     ends the run
    SEALED       taken           ignored           ends the run     ends the run
    PREPARED     taken           ignored           ignored          noted
    OVER         ignored         ignored           ignored          ignored
    ===========  ==============  ================  ===============  ==================

    Early messages are taken, too; up to ``MAX_UNOPENED`` of a kind are kept. Ignored in every
    phase: a message that was taken before, and another than that if its round is long over.
    """

    NOT_STARTED = "not started"
    AGREEING = "the parties are still to agree on the secrets they seal with"
    SEALED = "they have them, from the start or since"
    PREPARED = "phase one of two is over: others may finish, whatever becomes of this party"
    OVER = "done, aborted, or ended by an exception"


@dataclass(frozen=True)
class Send:
    """Message to deliver to ``to``. Delivery may fail, repeat or reorder: parties cope."""

    to: PartyId
    data: bytes = field(repr=False)
    kind: str
    round: int


@dataclass(frozen=True)
class Prepared(Generic[R]):
    """End of phase one of two, with its result.

    Store ``result`` durably *beside* the old state before delivering what follows in the same
    batch. Only ``Done`` allows the old state to be dropped; an ``Aborted`` with ``prepared`` set
    allows neither to be dropped.
    """

    result: R = field(repr=False)


@dataclass(frozen=True)
class Done(Generic[R]):
    """Successful end of the protocol, with its result."""

    result: R


@dataclass(frozen=True)
class Waiting:
    """State of a party that is still running: the round it waits to run, and what is missing."""

    round: int
    name: str
    missing: Mapping[str, frozenset[PartyId]]
    """Parties that a message has not come from, by its kind."""
    unopened: frozenset[PartyId] = frozenset()
    """Parties in whose name messages came that do not open: forged on the way, or sealed with the
    secrets of another epoch of the key."""
    gave_up: Mapping[PartyId, str] = field(default_factory=dict)
    """Parties that reported an abort after this one was prepared, with the reason they gave."""

    @property
    def where(self) -> InRound:
        """Round that cannot run yet."""
        return InRound(self.round, self.name)

    @property
    def parties(self) -> frozenset[PartyId]:
        """All parties that are waited for."""
        return frozenset().union(*self.missing.values())

    def __str__(self) -> str:
        what = "; ".join(
            f"{kind} from {', '.join(map(str, sorted(who)))}" for kind, who in self.missing.items()
        )
        hint = ""
        if self.unopened:
            who = ", ".join(map(str, sorted(self.unopened)))
            hint = f" (messages in the name of {who} do not open: forged, or of another key epoch)"
        for j, reason in self.gave_up.items():
            hint += f" (party {j} reports {reason})"
        return f"waiting {self.where} for {what}{hint}"


Output = Send | Prepared[R] | Done[R] | Aborted


def judge(
    failed: CheckFailed,
    where: Where,
    me: PartyId,
    received: Iterable[Evidence],
    *,
    unproven: Collection[PartyId],
    authenticated: Collection[PartyId],
    prepared: bool,
) -> Aborted:
    """Return the abort that a failed check ends in: the parties it names, and the evidence.

    Args:
        received: all messages that the party has accepted.
        unproven: peers that no check names: a message that opened early may be from others who
            have that secret, and no share.
        authenticated: peers that seal everything, and have proved who they are.
        prepared: phase one of two is over.
    """
    culprits, suspects = failed.culprits - set(unproven), failed.suspects - set(unproven)
    about = failed.about | ((failed.culprits | failed.suspects) & set(unproven))
    named = culprits | suspects
    return Aborted(
        failed.reason,
        where,
        culprits,
        suspects - {me},
        about - {me},
        failed.detail,
        tuple(each for each in (*received, *failed.evidence) if each.sender in named),
        unsealed=not culprits <= set(authenticated),
        prepared=prepared,
        reported_by=failed.reported_by,
    )
