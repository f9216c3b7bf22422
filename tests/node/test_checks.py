"""What must hold of strings that anybody could have sealed: the MPC nodes' seal keys are public."""

from dataclasses import replace

import pytest

from mpcsim.crypto.mta import schemes
from mpcsim.crypto.mta.schemes import register_scheme
from mpcsim.crypto.rng import SeededRng
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.sample_keys import keys
from mpcsim.service import vault
from mpcsim.service.rpc.statements import shares_hash
from mpcsim.service.rpc.wire import SignReply
from node import checks
from node.checks import SealedShare, agreed_record, check_answer, check_cost, open_sealed_share
from node.errors import ApiError, BadRequest
from tests.examples.open_multiplication import OpenMta
from tests.helpers.key_records import said_to_be_signed
from tests.helpers.schemes import with_scheme
from tests.node.wallets import CHEAP

OTHER = "ab" * 32
HALVES = {OPERATOR: bytes(144), INSTITUTION: bytes(144)}
KEYS = {OPERATOR: bytes(32), INSTITUTION: bytes(32)}


def store_of(key_id, curve="ed25519", cost=vault.INTERACTIVE):
    return vault.SecretStore(key_id, curve, bytes(16), cost, bytes(32), HALVES, KEYS, KEYS)


@pytest.mark.parametrize("cost", [vault.Argon2Cost(3, 65536), vault.Argon2Cost(2, 65537)])
def test_a_store_that_asks_for_more_computation_than_ours_is_refused(cost):
    store = store_of(OTHER, cost=cost)
    with pytest.raises(BadRequest, match="computation"):
        check_cost(store, vault.INTERACTIVE)
    check_cost(store, cost)


def test_a_share_that_is_too_long_is_not_decoded(monkeypatch):
    monkeypatch.setattr(checks, "open_share", lambda *arguments: bytes(2000))
    decoded = []
    monkeypatch.setattr(KeyShare, "from_bytes", lambda *a, **k: decoded.append(a))
    with pytest.raises(BadRequest, match="encrypted_share"):
        sealed = SealedShare(OTHER, vault.EncryptedShare(b"", b""), store_of(OTHER), "ed25519")
        open_sealed_share(sealed, vault.VaultKey(bytearray(64)), "alice")
    assert not decoded


def test_a_share_of_a_multiplication_scheme_of_ones_own_is_refused(monkeypatch):
    """Whether or not this process knows the scheme, as that of a notebook may."""
    own = keys("secp256k1")[CLIENT]
    foreign = with_scheme(own, OpenMta())
    monkeypatch.setattr(schemes, "_REGISTERED", {})
    register_scheme(foreign.mta)
    assert KeyShare.from_bytes(foreign.to_bytes()) == foreign
    key_id = own.record.epoch.hex()
    store = store_of(key_id, "secp256k1")
    sealed = SealedShare(key_id, vault.EncryptedShare(b"", b""), store, "secp256k1")
    monkeypatch.setattr(checks, "open_share", lambda *arguments: own.to_bytes())
    assert open_sealed_share(sealed, vault.VaultKey(bytearray(64)), "alice") == own
    monkeypatch.setattr(checks, "open_share", lambda *arguments: foreign.to_bytes())
    with pytest.raises(BadRequest, match="Invalid encrypted_share"):
        open_sealed_share(sealed, vault.VaultKey(bytearray(64)), "alice")


def opened(share, made_for, asked_for):
    """What a node makes of a vault that anyone has made, for some key, of something."""
    rng = SeededRng("vault")
    secrets = {i: vault.SealKey.generate(rng) for i in MPC_NODES}
    publics = {i: secret.public for i, secret in secrets.items()}
    of = {"key_id": made_for, "user_id": "alice"}
    sealed, text = vault.seal_share(
        share,
        password=vault.DerivedKey(bytes(32), bytes(16), CHEAP),
        curve="ed25519",
        nodes=vault.NodeKeys(publics, KEYS, KEYS),
        rng=rng,
        **of,
    )
    store, reply = vault.SecretStore.from_text(text), vault.ReplyKey(rng)
    halves = {
        i: vault.rewrap_half(
            store.halves[i], secrets[i], me=i, reply_key=reply.public, rng=rng, **of
        )
        for i in MPC_NODES
    }
    with reply.combine(halves, publics) as key:
        encrypted = vault.EncryptedShare.from_text(sealed)
        return open_sealed_share(SealedShare(asked_for, encrypted, store, "ed25519"), key, "alice")


def test_vaults_of_anyones_making():
    """Seal keys are public: whoever can write to the caller's database can make a vault."""
    mine, theirs, of_two = keys("ed25519")[1], keys("ed25519")[2], keys("ed25519", 2, 2)[1]
    key_id = mine.record.epoch.hex()
    assert opened(mine.to_bytes(), key_id, key_id) == mine
    for share, made_for, asked_for, said in (
        (mine.to_bytes(), key_id, OTHER, "it is of another key"),
        (mine.to_bytes(), OTHER, key_id, "it is of another key"),
        (mine.to_bytes(), OTHER, OTHER, "Invalid encrypted_share"),
        (theirs.to_bytes(), key_id, key_id, "Invalid encrypted_share"),
        (of_two.to_bytes(), key_id, key_id, "Invalid encrypted_share"),
        (b"no share", key_id, key_id, "Invalid encrypted_share"),
    ):
        with pytest.raises(BadRequest, match=said):
            opened(share, made_for, asked_for)


def test_a_key_that_is_no_wallets_key_is_not_recovered():
    """Both MPC nodes and the registry agree, but on a key with a fourth holder."""

    def recovered(n):
        record = keys("ed25519", 2, n)[CLIENT].record
        signed = said_to_be_signed(
            "user", record.epoch.hex(), "ed25519", record.public_key.encode()
        ).record
        named = replace(signed, shares=shares_hash(record.to_bytes()))
        return agreed_record(dict.fromkeys(MPC_NODES, record.to_bytes()), named)

    assert len(recovered(3).holders) == 3
    with pytest.raises(ApiError, match="a key of another kind"):
        recovered(4)


def test_an_answer_is_to_this_request_alone():
    """Every part of what it answers is in its tag (``test_bindings``)."""
    share = keys("ed25519")[CLIENT]
    about = OPERATOR, b"s" * 32, b"m" * 32
    right = vault.answer_tag(share.peers[OPERATOR].pair_secret, *about)
    other = vault.answer_tag(share.peers[INSTITUTION].pair_secret, *about)
    check_answer(share, *about, SignReply(bytes(32), (), right))
    said = "^The operator has answered another request than this one; try again$"
    for wrong in (other, right[:-1], b"", None):
        with pytest.raises(ApiError, match=said):
            check_answer(share, *about, SignReply(bytes(32), (), wrong))
