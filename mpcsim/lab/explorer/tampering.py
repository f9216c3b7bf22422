"""Everything that one party can alter about what it sends another, and what comes of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from mpcsim.ids import PartyId
from mpcsim.lab.explorer.explorer import Explorer
from mpcsim.lab.explorer.model.fields import REPLACE, Field

WHOLE: Final = "(whole)"
"""In the place of a field: the message itself."""


@dataclass(frozen=True)
class AlterationChoice:
    """One alteration of one message."""

    message: str
    """Its kind."""
    field: str
    """Path of the field; empty: the whole message."""
    operation: str


@dataclass(frozen=True)
class Tampered:
    """What the receiver made of it."""

    message: str
    field: str
    alteration: str
    caught_by: str
    """Name of the reason for its abort, or how the run ended without one."""
    where: str
    """In which round it noticed; ``on arrival``: before any round looks at the message."""
    blames: str
    """Numbers of parties, or ``nobody``."""
    then: str
    """What to do about it."""


def alterations(
    explorer: Explorer, sender: PartyId, receiver: PartyId
) -> Iterator[AlterationChoice]:
    """Every alteration that the explorer offers of what one party sends another."""
    for key, detail in dict(explorer.details).items():
        flow, kind = key.split(" ")
        if flow == f"{sender}>{receiver}":
            yield from (AlterationChoice(kind, "", operation) for operation in detail.operations)
            for field in _all_fields(detail.fields):
                yield from (
                    AlterationChoice(kind, field.path, operation) for operation in field.operations
                )


def tampering(explorer: Explorer, cheater: PartyId, victim: PartyId) -> list[Tampered]:
    """Try all of them, one at a time; what is replaced becomes 32 zero bytes.

    >>> found = tampering(Explorer.live(simulation, signers=(1, 3)), cheater=3, victim=1)

    Raises:
        UsageError: no such party.
    """
    return [
        _result_of(explorer, cheater, victim, choice)
        for choice in alterations(explorer, cheater, victim)
    ]


def _all_fields(fields: Iterable[Field]) -> Iterator[Field]:
    for field in fields:
        yield field
        yield from _all_fields(field.fields)


def _result_of(
    explorer: Explorer, cheater: PartyId, victim: PartyId, choice: AlterationChoice
) -> Tampered:
    zeros = bytes(32) if choice.operation == REPLACE else b""
    view = explorer.edit(
        cheater, victim, choice.message, choice.field, choice.operation, zeros
    ).view
    explorer.undo()
    said = "32 zero bytes" if choice.operation == REPLACE else choice.operation
    what = choice.message, choice.field or WHOLE, said
    abort = next((abort for abort in view.aborts if abort.party == victim), None)
    if abort is None:
        return Tampered(*what, view.verdict, "", "", "")
    arrival = f"while receiving from party {cheater}"
    where = abort.where.replace(arrival, "on arrival").removeprefix("in ")
    blamed = ", ".join(map(str, abort.culprits)) or "nobody"
    return Tampered(*what, abort.reason, where, blamed, abort.consequence)
