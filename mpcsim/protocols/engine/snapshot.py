"""Stored form of a party: set-up, seed and accepted messages, to be replayed."""

from __future__ import annotations

from dataclasses import dataclass, field

from mpcsim.crypto.encoding import STORED_VERSION, Reader
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.rng import SEED_BYTES
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import SESSION_ID_BYTES, PartyId


@dataclass(frozen=True)
class Snapshot:
    """Stored party, with which it goes on later, elsewhere. SECRET."""

    protocol: int
    """Protocol number of its definition."""
    started: bool
    refused: bool
    """Whether the guard of its share, which is outside the session, ended it."""
    me: int
    session_id: bytes
    seed: bytes = field(repr=False)
    setup: bytes = field(repr=False)
    log: list[tuple[PartyId, bytes]] = field(repr=False)
    """Sender and envelope of each accepted message, in order."""

    def to_bytes(self) -> bytes:
        """Encode it, with a checksum at the end."""
        parts = [
            bytes([STORED_VERSION, self.protocol, self.started, self.refused]),
            self.me.to_bytes(2, "big"),
            self.session_id,
            self.seed,
            len(self.setup).to_bytes(4, "big"),
            self.setup,
            len(self.log).to_bytes(4, "big"),
        ]
        for sender, data in self.log:
            parts += [sender.to_bytes(2, "big"), len(data).to_bytes(4, "big"), data]
        content = b"".join(parts)
        return content + tagged_hash(Tag.STORED, content)

    @classmethod
    def from_bytes(cls, data: bytes, protocol: int) -> Snapshot:
        """Decode a snapshot of a protocol.

        Raises:
            InvalidEncoding: it is damaged, or of something else.
        """
        content, checksum = data[:-32], data[-32:]
        if tagged_hash(Tag.STORED, content) != checksum:
            raise InvalidEncoding("checksum differs: the snapshot is damaged")
        reader = Reader(content)
        version, number, started, refused = reader.take(4)
        if version != STORED_VERSION or number != protocol or max(started, refused) > 1:
            raise InvalidEncoding("not a snapshot of this protocol and version")
        me = reader.number(2)
        session_id = reader.take(SESSION_ID_BYTES)
        seed = reader.take(SEED_BYTES)
        setup = reader.take(reader.number(4))
        log = [
            (PartyId(reader.number(2)), reader.take(reader.number(4)))
            for _ in range(reader.number(4))
        ]
        reader.finish()
        return cls(protocol, bool(started), bool(refused), me, session_id, seed, setup, log)
