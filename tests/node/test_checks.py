"""What must hold of strings that anybody could have sealed: the MPC nodes' seal keys are public."""

from __future__ import annotations

import pytest

from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.keyshare import KeyShare
from mpcsim.vault import INTERACTIVE, Argon2Cost, EncryptedShare, SecretStore, VaultKey
from node import checks
from node.checks import SealedShare, check_cost, opened_share
from node.errors import BadRequest

HALVES = {OPERATOR: bytes(144), INSTITUTION: bytes(144)}
KEYS = {OPERATOR: bytes(32), INSTITUTION: bytes(32)}


@pytest.mark.parametrize("cost", [Argon2Cost(3, 65536), Argon2Cost(2, 65537)])
def test_a_store_that_asks_for_more_computation_than_ours_is_refused(cost):
    store = SecretStore("ab" * 32, "ed25519", bytes(16), cost, bytes(32), HALVES, KEYS, KEYS)
    with pytest.raises(BadRequest, match="computation"):
        check_cost(store, INTERACTIVE)
    check_cost(store, cost)


def test_a_share_that_is_too_long_is_not_decoded(monkeypatch):
    store = SecretStore("ab" * 32, "ed25519", bytes(16), INTERACTIVE, bytes(32), HALVES, KEYS, KEYS)
    share = EncryptedShare(b"", b"")
    monkeypatch.setattr(checks, "open_share", lambda *arguments: bytes(2000))
    decoded = []
    monkeypatch.setattr(KeyShare, "from_bytes", lambda *a, **k: decoded.append(a))
    with pytest.raises(BadRequest, match="encrypted_share"):
        sealed = SealedShare("ab" * 32, share, store, "ed25519")
        opened_share(sealed, VaultKey(bytearray(64)), "alice")
    assert not decoded
