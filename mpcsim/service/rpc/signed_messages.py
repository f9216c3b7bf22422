"""Messages of MPC nodes that travel before sender and receiver share a secret: signed instead.

They are the first rounds of a key generation, and of a resharing toward whoever has no old share.
The signature follows the envelope, whose header names session, sender and receiver. Sealed
messages authenticate themselves; a client has no identity, and signs with the key of the session
(``session_keys``), which is its id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.service.rpc.statements import is_authentic
from mpcsim.service.rpc.wire import SIGNATURE_BYTES


def sign_unsealed(data: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return an envelope, with a signature behind it if it is not sealed.

    Args:
        sign: signs a digest.
    """
    return data if Envelope.decode(data).sealed else data + sign(_digest(data))


def _digest(data: bytes) -> bytes:
    return tagged_hash(Tag.MAIL, data)


def authenticate(data: bytes, identities: Mapping[PartyId, bytes]) -> tuple[PartyId, bytes] | None:
    """Return the sender of an envelope, and the envelope without its signature.

    None if it should have a signature and has none that is genuine: it is noise, from anybody.

    Args:
        identities: of the senders that sign what they do not seal; of the client, the session's id.

    Raises:
        InvalidEncoding: it is no envelope.
    """
    envelope = Envelope.decode(data)
    identity = identities.get(envelope.sender)
    if envelope.sealed or identity is None:
        return envelope.sender, data
    message, signature = data[:-SIGNATURE_BYTES], data[-SIGNATURE_BYTES:]
    if not is_authentic(identity, _digest(message), signature):
        return None
    return envelope.sender, message
