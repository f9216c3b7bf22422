"""What a party returns to whoever drives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mpcsim.errors import Aborted, InRound
from mpcsim.ids import PartyId

R = TypeVar("R")


@dataclass(frozen=True)
class Send:
    """Deliver ``data`` to ``to``. Delivery may fail, repeat or reorder: parties cope."""

    to: PartyId
    data: bytes = field(repr=False)
    kind: str
    round: int


@dataclass(frozen=True)
class Prepared(Generic[R]):
    """Phase one of two is over.

    Store ``result`` durably *beside* the old state before delivering what follows in the same
    batch. Only ``Done`` allows the old state to be dropped; an ``Aborted`` with ``prepared`` set
    allows neither to be dropped.
    """

    result: R = field(repr=False)


@dataclass(frozen=True)
class Done(Generic[R]):
    """The protocol finished."""

    result: R


@dataclass(frozen=True)
class Waiting:
    """Still running: for whom, in which round, for what."""

    round: int
    name: str
    missing: Mapping[str, frozenset[PartyId]]
    """Message kind to the parties it has not come from."""
    unopened: frozenset[PartyId] = frozenset()
    """Parties in whose name messages came that do not open: forged on the way, or sealed with the
    secrets of another epoch of the key."""
    gave_up: Mapping[PartyId, str] = field(default_factory=dict)
    """Parties that reported an abort after this one was prepared, with the reason they gave."""

    @property
    def where(self) -> InRound:
        """The round that it cannot run yet."""
        return InRound(self.round, self.name)

    @property
    def parties(self) -> frozenset[PartyId]:
        """Everyone waited for."""
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
