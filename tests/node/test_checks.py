"""What must hold of strings that anybody could have sealed: the MPC nodes' seal keys are public."""

from __future__ import annotations

import pytest

from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
from mpcsim.keyshare import KeyShare
from mpcsim.mta import schemes
from mpcsim.mta.schemes import register_scheme
from mpcsim.rpc.wire import Signing
from mpcsim.sample_keys import keys
from mpcsim.vault import INTERACTIVE, Argon2Cost, EncryptedShare, SecretStore, VaultKey, answer_tag
from node import checks
from node.checks import SealedShare, check_answer, check_cost, opened_share
from node.errors import ApiError, BadRequest
from tests.examples.open_multiplication import OpenMta
from tests.helpers.schemes import with_scheme

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


def test_a_share_of_a_multiplication_scheme_of_ones_own_is_refused(monkeypatch):
    """Whether or not this process knows the scheme, as that of a notebook may."""
    own = keys("secp256k1")[CLIENT]
    foreign = with_scheme(own, OpenMta())
    monkeypatch.setattr(schemes, "_REGISTERED", {})
    register_scheme(foreign.mta)
    assert KeyShare.from_bytes(foreign.to_bytes()) == foreign
    key_id = own.record.epoch.hex()
    store = SecretStore(key_id, "secp256k1", bytes(16), INTERACTIVE, bytes(32), HALVES, KEYS, KEYS)
    sealed = SealedShare(key_id, EncryptedShare(b"", b""), store, "secp256k1")
    monkeypatch.setattr(checks, "open_share", lambda *arguments: own.to_bytes())
    assert opened_share(sealed, VaultKey(bytearray(64)), "alice") == own
    monkeypatch.setattr(checks, "open_share", lambda *arguments: foreign.to_bytes())
    with pytest.raises(BadRequest, match="Invalid encrypted_share"):
        opened_share(sealed, VaultKey(bytearray(64)), "alice")


def test_an_answer_is_to_this_request_alone() -> None:
    """Every part of what it answers; from either MPC node."""
    share = keys("ed25519")[CLIENT]
    session, mac = b"s" * 32, b"m" * 32
    for signer in MPC_NODES:
        secret = share.peers[signer].pair_secret
        (other,) = set(MPC_NODES) - {signer}

        def answer(tag: bytes | None) -> Signing:
            return Signing(bytes(32), (), tag)

        right = answer_tag(secret, signer, session, mac)
        check_answer(share, signer, session, mac, answer(right))
        for wrong in (
            answer_tag(share.peers[other].pair_secret, signer, session, mac),
            answer_tag(secret, other, session, mac),
            answer_tag(secret, signer, b"t" * 32, mac),
            answer_tag(secret, signer, session, b"n" * 32),
            right[:-1],
            b"",
            None,
        ):
            with pytest.raises(ApiError) as refused:
                check_answer(share, signer, session, mac, answer(wrong))
            assert refused.value.message == (
                f"The {ROLES[signer]} has answered another request than this one; try again"
            )
