"""Envelopes that are none."""

import pytest

from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import InvalidEncoding
from mpcsim.protocols.engine.channel import seal, unseal
from mpcsim.protocols.engine.envelope import HEADER_BYTES, MAX_ENVELOPE_BYTES, Envelope


def test_every_byte_of_the_header_has_its_place():
    """Version, protocol, kind, flag, sender, receiver, session: what AES-GCM authenticates."""
    session_id = bytes(range(32))
    made = Envelope(2, 3, True, 0x104, 0x105, session_id, b"body")
    assert made.header() == b"\1\2\3\1\1\4\1\5" + session_id
    assert made.encode() == made.header() + b"body"
    assert Envelope.decode(made.encode()) == made
    for version in (0, 2, 255):
        with pytest.raises(InvalidEncoding, match=f"version {version}, expected 1"):
            Envelope.decode(bytes([version]) + made.encode()[1:])
    with pytest.raises(InvalidEncoding, match="flag 2"):
        Envelope.decode(made.encode()[:3] + b"\2" + made.encode()[4:])


def test_every_byte_of_the_header_is_sealed():
    """Of another version as well: its byte is authenticated with the rest."""
    sealed = seal(bytes(32), Envelope(2, 3, True, 1, 2, bytes(32), b""), b"said", SeededRng(1))
    assert unseal(bytes(32), sealed) == b"said"
    header = sealed.header()
    for at in range(HEADER_BYTES):
        changed = header[:at] + bytes([header[at] ^ 1]) + header[at + 1 :]

        class Relabelled(Envelope):
            def header(self) -> bytes:
                return changed  # noqa: B023 - used within this turn of the loop

        assert unseal(bytes(32), Relabelled(**vars(sealed))) is None, at


@pytest.mark.parametrize("size", [0, HEADER_BYTES - 1, MAX_ENVELOPE_BYTES + 1])
def test_too_short_and_too_long(size):
    good = Envelope(2, 1, True, 1, 2, bytes(32), bytes(MAX_ENVELOPE_BYTES)).encode()
    with pytest.raises(InvalidEncoding, match=f"envelope of {size} bytes"):
        Envelope.decode(good[:size])
    assert Envelope.decode(good[:MAX_ENVELOPE_BYTES]).sender == 1
