"""Who learned what in a run: the tables of ``knowledge`` filled with what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Any

from mpcsim.ids import PartyId
from mpcsim.lab.explorer.model.knowledge import (
    BEFORE,
    KNOWLEDGE,
    NETWORK_FORBIDDEN,
    NETWORK_SEES,
    OWN,
    ForbiddenKnowledge,
    Item,
    find,
    secrets_in,
    text,
)
from mpcsim.sim.run.message_recording import Recording


@dataclass(frozen=True)
class LearnedItem:
    """Something a party learned in a step."""

    name: str
    meaning: str
    kind: str
    """``own secret``, ``public`` or ``received``."""
    value: str | None
    hidden: bool
    """There is a value, and it is not shown."""


@dataclass(frozen=True)
class UndisclosedItem:
    """Something a party must never learn."""

    name: str
    meaning: str
    found: bool | None
    """Whether it was in a message to that party; None if there is nothing to search for."""


class KnowledgeTrace:
    """What the parties of one session learn."""

    def __init__(self, protocol: str, recording: Recording | None, *, reveal: bool) -> None:
        self._known = KNOWLEDGE.get(protocol)
        self._recording = recording
        self._reveal = reveal

    def before(self, party: PartyId) -> list[LearnedItem]:
        """What a party brings along."""
        return self.from_round(party, BEFORE)

    def from_round(self, party: PartyId, round_: int) -> list[LearnedItem]:
        """What a round gives the party that runs it."""
        items = self._known.by_round.get(round_, ()) if self._known else ()
        return [
            self._item_of_party(item, party, round_)
            for item in items
            if self._has_item(item, party, round_)
        ]

    def from_message(self, kind: str, sender: PartyId) -> list[LearnedItem]:
        """What a message gives its receiver."""
        items = self._known.by_message.get(kind, ()) if self._known else ()
        return [
            LearnedItem(
                item.name.format(j=sender), item.meaning.format(j=sender), item.kind, None, False
            )
            for item in items
        ]

    def never(self, party: PartyId, parties: Iterable[PartyId]) -> tuple[UndisclosedItem, ...]:
        """What a party must never learn, and whether any message gave it away.

        The secrets of the others are searched for, byte by byte, in everything sent to the party.
        """
        if self._known is None:
            return ()
        payloads = self._recording.payloads_to(party) if self._recording else []
        rows: list[UndisclosedItem] = []
        for never in self._known.never:
            if "{j}" in never.name:
                rows += [self._undisclosed(never, j, payloads) for j in parties if j != party]
            else:
                rows.append(UndisclosedItem(never.name, never.meaning, None))
        return tuple(rows)

    def _undisclosed(
        self, never: ForbiddenKnowledge, other: PartyId, payloads: list[bytes]
    ) -> UndisclosedItem:
        wanted = list(secrets_in(self._stored_value(other, never.round, never.path)))
        seen = any(secret in payload for secret in wanted for payload in payloads)
        name, meaning = never.name.format(j=other), never.meaning.format(j=other)
        return UndisclosedItem(name, meaning, seen if wanted else None)

    def _item_of_party(self, item: Item, party: PartyId, round_: int) -> LearnedItem:
        value = text(self._stored_value(party, round_, item.path))
        hidden = item.kind == OWN and not self._reveal and value is not None
        return LearnedItem(item.name, item.meaning, item.kind, None if hidden else value, hidden)

    def _has_item(self, item: Item, party: PartyId, round_: int) -> bool:
        """Whether a party has something at all (who deals nothing has no polynomial)."""
        if self._recording is None or not item.path:
            return True
        if (party, round_) not in self._recording.kept and round_ != BEFORE:
            return True  # it went on at once: what it kept in between was not seen
        value = self._stored_value(party, round_, item.path)
        return value is not None and not (isinstance(value, Sized) and not value)

    def _stored_value(self, party: PartyId, round_: int, path: str) -> Any:
        if self._recording is None or not path:
            return None
        if round_ == BEFORE:
            return find(self._recording.parties[party].setup, path)
        return find(self._recording.kept.get((party, round_)), path)


def network_sees() -> tuple[LearnedItem, ...]:
    """What whoever carries the messages knows."""
    return tuple(LearnedItem(i.name, i.meaning, i.kind, None, False) for i in NETWORK_SEES)


def network_forbidden() -> tuple[UndisclosedItem, ...]:
    """What whoever carries the messages must never learn."""
    return tuple(UndisclosedItem(n.name, n.meaning, None) for n in NETWORK_FORBIDDEN)
