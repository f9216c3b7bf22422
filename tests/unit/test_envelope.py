"""Envelopes that are none."""

import pytest

from mpcsim.errors import InvalidEncoding
from mpcsim.protocol.envelope import HEADER_BYTES, MAX_ENVELOPE_BYTES, Envelope


@pytest.mark.parametrize("size", [0, HEADER_BYTES - 1, MAX_ENVELOPE_BYTES + 1])
def test_too_short_and_too_long(size):
    good = Envelope(2, 1, True, 1, 2, bytes(32), bytes(MAX_ENVELOPE_BYTES)).encode()
    with pytest.raises(InvalidEncoding, match=f"envelope of {size} bytes"):
        Envelope.decode(good[:size])
    assert Envelope.decode(good[:MAX_ENVELOPE_BYTES]).sender == 1
