"""Shares of a shape that is not expected."""

import pytest

from mpcsim.errors import InvalidEncoding
from mpcsim.protocols import dkg
from mpcsim.protocols import key_share as keyshare
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import results, run


def test_a_share_of_another_shape_is_refused_before_it_is_computed_with(monkeypatch):
    """Seal keys are public: a share may name 256 holders, and checking that takes seconds."""

    def not_reached(*arguments):
        raise AssertionError("the record was checked")

    agreed = dkg.setup("ed25519", 3, tuple(range(1, 6)))
    made = results(run(dkg.party(agreed, i, session_id=bytes(32)) for i in range(1, 6)))
    data = made[1].to_bytes()
    monkeypatch.setattr(keyshare, "_consistent", not_reached)
    with pytest.raises(InvalidEncoding, match="holders"):
        KeyShare.from_bytes(data, shape=(2, (1, 2, 3)))
