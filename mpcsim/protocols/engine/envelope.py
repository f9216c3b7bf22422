"""The envelope around every message, and the one message that all protocols have: of an abort.

version(1) protocol(1) kind(1) sealed(1) sender(2) receiver(2) session(32) body. The header is
authenticated together with the body wherever the body is sealed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated

from mpcsim.crypto.encoding import WIRE_VERSION, Message, Text, wire
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import SESSION_ID_BYTES, PartyId

_HEADER = struct.Struct(f">BBBBHH{SESSION_ID_BYTES}s")
HEADER_BYTES = _HEADER.size
MAX_ENVELOPE_BYTES = 5 << 20
"""Largest envelope that any protocol accepts; the biggest honest one (64 presignatures at xi = 768)
is below 4.8 MB."""
USUAL_ENVELOPE_BYTES = 1 << 17
"""Largest envelope that a protocol accepts if it does not say otherwise; the biggest honest one (a
multiplication message at xi = 768) is below 75 kB. A session keeps one opened message of each kind
from each sender, and a few sealed ones that came before the pair had secrets
(``party.MAX_UNOPENED``)."""

ABORT_KIND = 255
"""Kind number of the notice a party sends to the others when it aborts."""

GIVEN_UP = "GIVEN_UP"
"""Reason in the notice of a driver that ends a session though no check has failed: an answer did
not come, or the client that asked for it is gone."""

UNKNOWN = "an unknown reason"
"""Text in place of a reason that this version does not know."""


@dataclass(frozen=True)
class Envelope:
    """A parsed envelope; the body may still be sealed."""

    protocol: int
    kind: int
    sealed: bool
    sender: PartyId
    receiver: PartyId
    session_id: bytes
    body: bytes

    def header(self) -> bytes:
        return _HEADER.pack(
            WIRE_VERSION,
            self.protocol,
            self.kind,
            self.sealed,
            self.sender,
            self.receiver,
            self.session_id,
        )

    def encode(self) -> bytes:
        return self.header() + self.body

    @classmethod
    def decode(cls, data: bytes) -> Envelope:
        """Decode an envelope, strictly.

        Raises:
            InvalidEncoding: wrong size, version or flag.
        """
        if not HEADER_BYTES <= len(data) <= MAX_ENVELOPE_BYTES:
            raise InvalidEncoding(f"envelope of {len(data)} bytes")
        version, protocol, kind, sealed, sender, receiver, session_id = _HEADER.unpack_from(data)
        if version != WIRE_VERSION:
            raise InvalidEncoding(f"envelope version {version}, expected {WIRE_VERSION}")
        if sealed > 1:
            raise InvalidEncoding(f"envelope flag {sealed}")
        return cls(
            protocol,
            kind,
            bool(sealed),
            PartyId(sender),
            PartyId(receiver),
            session_id,
            data[HEADER_BYTES:],
        )


@wire
class AbortNotice(Message):
    """Notice to the others that the sender gave up; nothing in it is taken for proven."""

    reason: Annotated[str, Text(64)]
