"""Transcript hash, which the cryptography of a session binds to.

It does not bind to the ``session_id``, the caller's name for the session, which may come twice.
"""

from __future__ import annotations

from typing import Any

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.protocols.engine.contract import Inbox, View


def transcript_hash(view: View[Any], inbox: Inbox, kind: type[Message]) -> bytes:
    """Return H(session id, first broadcast of every party).

    The broadcasts hold a nonce of each party, so the hash is fresh as soon as one of them is
    honest, whatever name the session was given; and they hold every party's commitment, so
    whatever binds the hash binds everything that was committed to.
    """
    parts: list[bytes] = []
    for j, message in inbox.encoded(kind, view.wire).items():
        parts += (u32(j), message)
    return tagged_hash(Tag.SESSION, view.session_id, view.wire.group.name.encode(), *parts)
