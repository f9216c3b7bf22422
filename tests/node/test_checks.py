"""What must hold of strings that anybody could have sealed: the MPC nodes' seal keys are public."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from mpcsim.crypto.mta import schemes
from mpcsim.crypto.mta.schemes import register_scheme
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.ids import CLIENT, INSTITUTION, MPC_NODES, OPERATOR, ROLES
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


@pytest.mark.parametrize("key_id", [OTHER, "cd" * 32])
@pytest.mark.parametrize("curve", ["ed25519", "secp256k1"])
def test_a_store_is_of_one_key_on_one_curve(key_id, curve):
    """Or nothing is begun with it."""
    sealed = SealedShare(key_id, vault.EncryptedShare(b"", b""), store_of(OTHER), curve)
    assert sealed.matches_store == ((key_id, curve) == (OTHER, "ed25519"))


@pytest.mark.parametrize("cost", [vault.Argon2Cost(3, 65536), vault.Argon2Cost(2, 65537)])
def test_a_store_that_asks_for_more_computation_than_ours_is_refused(cost):
    store = store_of(OTHER, cost=cost)
    with pytest.raises(BadRequest, match="computation"):
        check_cost(store, vault.INTERACTIVE)
    check_cost(store, cost)


@pytest.mark.parametrize("why", [vault.WrongKey, vault.VaultError, InvalidEncoding, UsageError])
def test_a_share_that_does_not_open_is_malformed(why, monkeypatch):
    monkeypatch.setattr(checks, "open_share", Mock(side_effect=why("no")))
    sealed = SealedShare(OTHER, vault.EncryptedShare(b"", b""), store_of(OTHER), "ed25519")
    with pytest.raises(BadRequest, match=r"^Invalid encrypted_share"):
        open_sealed_share(sealed, vault.VaultKey(bytearray(64)), "alice")


@pytest.mark.parametrize("curve", checks.MAX_SHARE_BYTES)
def test_a_share_that_is_too_long_is_not_decoded(curve, monkeypatch):
    """The bounds are twice what a share takes, and not much more."""
    most, decoded = checks.MAX_SHARE_BYTES[curve], []
    assert 2 * len(keys(curve)[CLIENT].to_bytes()) < most <= 4 * len(keys(curve)[CLIENT].to_bytes())
    monkeypatch.setattr(KeyShare, "from_bytes", lambda data, **_: decoded.append(len(data)))
    for size in (most, most + 1):
        monkeypatch.setattr(checks, "open_share", lambda *_, size=size: bytes(size))
        sealed = SealedShare(OTHER, vault.EncryptedShare(b"", b""), store_of(OTHER, curve), curve)
        with pytest.raises((BadRequest, AttributeError)):  # what is decoded is none
            open_sealed_share(sealed, vault.VaultKey(bytearray(64)), "alice")
    assert decoded == [most]


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


def recovered(t, n, curve, records=lambda data: dict.fromkeys(MPC_NODES, data)):
    """The key that both MPC nodes have signed a record of, from what they show of it."""
    record = keys("ed25519", t, n)[CLIENT].record
    signed = said_to_be_signed("user", record.epoch.hex(), curve, record.public_key.encode())
    named = replace(signed.record, shares=shares_hash(record.to_bytes()))
    return agreed_record(records(record.to_bytes()), named)


@pytest.mark.parametrize(
    ("t", "n", "curve"), [(2, 4, "ed25519"), (3, 3, "ed25519"), (2, 3, "secp256k1")]
)
def test_a_key_that_is_no_wallets_key_is_not_recovered(t, n, curve):
    """Both MPC nodes and the registry agree, but on another number of holders or signers, or the
    registry's record names another curve."""
    assert len(recovered(2, 3, "ed25519").holders) == 3
    with pytest.raises(ApiError, match="a key of another kind"):
        recovered(t, n, curve)


THEIRS = keys("ed25519", name="theirs")[CLIENT].record.to_bytes()
DISAGREE = "The MPC nodes do not agree on the key to recover"
SHOWN = [
    (lambda own: {OPERATOR: own}, DISAGREE),
    (lambda own: {OPERATOR: own, INSTITUTION: THEIRS}, DISAGREE),
    (lambda own: dict.fromkeys(MPC_NODES, THEIRS), "signed a record of other shares than these"),
    (lambda own: dict.fromkeys(MPC_NODES, b"?"), "The MPC nodes' record of the key is damaged"),
]


@pytest.mark.parametrize(("records", "said"), SHOWN)
def test_both_mpc_nodes_show_the_same_record_and_the_one_they_signed(records, said):
    with pytest.raises(ApiError, match=said):
        recovered(2, 3, "ed25519", records)


@pytest.mark.parametrize("signer", MPC_NODES)
def test_an_answer_is_to_this_request_alone(signer):
    """Every part of what it answers is in its tag (``test_bindings``)."""
    share = keys("ed25519")[CLIENT]
    about = signer, b"s" * 32, b"m" * 32
    right = vault.answer_tag(share.peers[signer].pair_secret, *about)
    other = vault.answer_tag(share.peers[5 - signer].pair_secret, *about)
    check_answer(share, *about, SignReply(bytes(32), (), right))
    said = f"^The {ROLES[signer]} has answered another request than this one; try again$"
    for wrong in (other, right[:-1], b"", None):
        with pytest.raises(ApiError, match=said):
            check_answer(share, *about, SignReply(bytes(32), (), wrong))
