"""Sweep over all alterations of the messages from one party to another, with the result of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from mpcsim.ids import PartyId
from mpcsim.lab.explorer.explorer import Explorer
from mpcsim.lab.explorer.model.fields import REPLACE, Field

WHOLE: Final = "(whole)"
"""Name of the message itself, in place of a field."""


@dataclass(frozen=True)
class AlterationChoice:
    """Alteration of a message that the explorer offers."""

    message: str
    """Kind of the message."""
    field: str
    """Path of the field; empty: the whole message."""
    operation: str


@dataclass(frozen=True)
class Tampered:
    """Result of an alteration at the receiver."""

    message: str
    field: str
    alteration: str
    caught_by: str
    """Name of the reason for its abort, or how the run ended without one."""
    where: str
    """Round in which it noticed; ``on arrival``: before any round looks at the message."""
    blames: str
    """Numbers of parties, or ``nobody``."""
    then: str
    """Consequence: what to do about it."""


def alterations(
    explorer: Explorer, sender: PartyId, receiver: PartyId
) -> Iterator[AlterationChoice]:
    """Yield all alterations that the explorer offers of messages from one party to another."""
    for key, detail in dict(explorer.details).items():
        flow, kind = key.split(" ")
        if flow == f"{sender}>{receiver}":
            yield from (AlterationChoice(kind, "", operation) for operation in detail.operations)
            for field in _all_fields(detail.fields):
                yield from (
                    AlterationChoice(kind, field.path, operation) for operation in field.operations
                )


def tampering(explorer: Explorer, cheater: PartyId, victim: PartyId) -> list[Tampered]:
    """Try all alterations, one at a time; replaced values become 32 zero bytes.

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
