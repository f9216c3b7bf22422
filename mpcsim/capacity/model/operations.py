"""What a call consists of: who sends what to whom after having what, and the turns it needs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from mpcsim.sim.replay import MessageGraph

ASKED: Final = "the call"
"""The message with which a caller begins."""
ANSWERED: Final = "its answer"
PRESIGNATURES: Final = 16
"""That a call for them asks for."""


@dataclass(frozen=True)
class Turn:
    """While a call has something of its key to itself."""

    of: str
    """What: the same name is the same turn in every operation."""
    takes: str
    """The message whose handling takes it; where the last of several does, which it mostly is."""
    gives: str
    """The message whose handling gives it up."""
    refuses: str
    """The request that is refused if somebody else has it."""
    waiting: int
    """So many may wait for one key; the others are refused. 0: all are."""
    patience_s: float
    """How long they wait at most."""


@dataclass(frozen=True)
class Operation:
    """One of those that callers may ask for."""

    name: str
    graph: MessageGraph
    """Of the whole call, recorded from the real service."""
    asked_bytes: int
    answered_bytes: int
    turns: tuple[Turn, ...]
    """In the order in which they are taken; one may come again."""

    @property
    def digest(self) -> str:
        """Of its messages' names and sizes: another one if the service does otherwise."""
        said = [[packet.kind, packet.size] for packet in self.graph.messages]
        text = json.dumps([self.asked_bytes, self.answered_bytes, said], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
