"""Operations: the graph of messages of a call, and the key locks that it needs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from mpcsim.sim.replay import MessageGraph

REQUEST: Final = "the call"
"""Message with which a caller begins."""
RESPONSE: Final = "its answer"
PRESIGNATURES: Final = 16
"""Number of presignatures that a call for them asks for."""


@dataclass(frozen=True)
class KeyLock:
    """Exclusive lock of a user's key at one place, held during a part of a call."""

    name: str
    """Name of the lock: the same in every operation that needs it."""
    acquired_by: str
    """Message whose handling acquires it; of several that do now and then, the most frequent."""
    released_by: str
    """Message whose handling releases it."""
    refused_request: str
    """Request that is refused if another call holds it."""
    queue_capacity: int
    """Calls that may wait for one key; others are refused. 0: all are."""
    timeout_s: float
    """Longest wait."""


@dataclass(frozen=True)
class Operation:
    """Operation of the service that callers may ask for."""

    name: str
    graph: MessageGraph
    """Messages of the whole call and what each waits for, recorded from the real service."""
    request_bytes: int
    response_bytes: int
    locks: tuple[KeyLock, ...]
    """Locks in the order of acquisition; one may occur again."""

    @property
    def digest(self) -> str:
        """Digest of the names and sizes of its messages: it changes with the service."""
        said = [[packet.kind, packet.size] for packet in self.graph.messages]
        text = json.dumps([self.request_bytes, self.response_bytes, said], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
