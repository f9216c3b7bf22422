"""What must hold of strings that anybody could have sealed: the MPC nodes' seal keys are public."""

from __future__ import annotations

import pytest

from mpcsim import keyshare
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.keyshare import KeyShare
from mpcsim.protocols import dkg
from mpcsim.runner import results
from mpcsim.runner import run as run_parties
from mpcsim.vault import INTERACTIVE, Argon2Cost, SecretStore
from node.checks import check_cost
from node.errors import BadRequest

HALVES = {OPERATOR: bytes(144), INSTITUTION: bytes(144)}


def test_a_share_of_another_shape_is_refused_before_it_is_computed_with(monkeypatch):
    """Seal keys are public: a share may name 256 holders, and checking that takes seconds."""

    def not_reached(*arguments):
        raise AssertionError("the record was checked")

    agreed = dkg.setup("ed25519", 3, tuple(range(1, 6)))
    made = results(run_parties(dkg.party(agreed, i, session_id=bytes(32)) for i in range(1, 6)))
    data = made[1].to_bytes()
    monkeypatch.setattr(keyshare, "_consistent", not_reached)
    with pytest.raises(InvalidEncoding, match="holders"):
        KeyShare.from_bytes(data, shape=(2, (1, 2, 3)))


def test_a_store_that_asks_for_more_computation_than_ours_is_refused():
    store = SecretStore.from_text(
        SecretStore(
            "ab" * 32, "ed25519", bytes(16), Argon2Cost(4, 1 << 18), bytes(32), HALVES
        ).to_text()
    )
    with pytest.raises(BadRequest, match="computation"):
        check_cost(store, INTERACTIVE)
    check_cost(store, Argon2Cost(4, 1 << 18))
