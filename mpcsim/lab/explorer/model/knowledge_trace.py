"""Knowledge gained in a run: the tables of ``knowledge`` with the recorded values."""

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
    """Value that a party learned in a step."""

    name: str
    meaning: str
    kind: str
    """Kind: ``own secret``, ``public`` or ``received``."""
    value: str | None
    hidden: bool
    """Whether there is a value that is not shown."""


@dataclass(frozen=True)
class UndisclosedItem:
    """Value that a party must never learn, and whether it did."""

    name: str
    meaning: str
    found: bool | None
    """Whether it was in a message to that party; None: there is nothing to search for."""


class KnowledgeTrace:
    """Knowledge that the parties of one session gain."""

    def __init__(self, protocol: str, recording: Recording | None, *, reveal: bool) -> None:
        self._known = KNOWLEDGE.get(protocol)
        self._recording = recording
        self._reveal = reveal

    def before(self, party: PartyId) -> list[LearnedItem]:
        """Return what a party knows before the session."""
        return self.from_round(party, BEFORE)

    def from_round(self, party: PartyId, round_: int) -> list[LearnedItem]:
        """Return what a party learns in a round that it runs."""
        items = self._known.by_round.get(round_, ()) if self._known else ()
        return [
            self._item_of_party(item, party, round_)
            for item in items
            if self._has_item(item, party, round_)
        ]

    def from_message(self, kind: str, sender: PartyId) -> list[LearnedItem]:
        """Return what a receiver learns from a message."""
        items = self._known.by_message.get(kind, ()) if self._known else ()
        return [
            LearnedItem(
                item.name.format(j=sender), item.meaning.format(j=sender), item.kind, None, False
            )
            for item in items
        ]

    def never(self, party: PartyId, parties: Iterable[PartyId]) -> tuple[UndisclosedItem, ...]:
        """Return what a party must never learn, and whether any message disclosed it.

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
        """Return whether a party has an item at all (one that deals nothing has no polynomial)."""
        if self._recording is None or not item.path:
            return True
        if (party, round_) not in self._recording.kept and round_ != BEFORE:
            return True  # the next round followed at once: its state was not recorded
        value = self._stored_value(party, round_, item.path)
        return value is not None and not (isinstance(value, Sized) and not value)

    def _stored_value(self, party: PartyId, round_: int, path: str) -> Any:
        if self._recording is None or not path:
            return None
        if round_ == BEFORE:
            return find(self._recording.parties[party].setup, path)
        return find(self._recording.kept.get((party, round_)), path)


def network_sees() -> tuple[LearnedItem, ...]:
    """Return what the network, which carries the messages, knows."""
    return tuple(LearnedItem(i.name, i.meaning, i.kind, None, False) for i in NETWORK_SEES)


def network_forbidden() -> tuple[UndisclosedItem, ...]:
    """Return what the network, which carries the messages, must never learn."""
    return tuple(UndisclosedItem(n.name, n.meaning, None) for n in NETWORK_FORBIDDEN)
