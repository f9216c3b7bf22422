"""What MPC nodes sign, and what is taken for their signature."""

from dataclasses import replace

import pytest

from mpcsim.crypto.rng import SeededRng
from mpcsim.ids import INSTITUTION, MPC_NODES, OPERATOR
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.rpc import statements, suspension_notices
from mpcsim.service.rpc.wire import AbortedSession

IDENTITIES = {party: Identity(bytes([party]) * 32) for party in MPC_NODES}
PUBLIC = {party: identity.public for party, identity in IDENTITIES.items()}
HEAD = statements.LogHead(3, bytes(32))
RECORD = statements.KeyRecord(
    "alice", "ed25519", b"public key", b"E" * 32, None, 0, statements.shares_hash(b"record"), PUBLIC
)


def signed(record=RECORD, parties=MPC_NODES):
    votes = {party: IDENTITIES[party].sign(statements.Vote(record, HEAD, 0)) for party in parties}
    return statements.SignedRecord(
        record, dict.fromkeys(parties, HEAD), votes, dict.fromkeys(parties, 0)
    )


def test_a_signature_is_of_one_identity_and_one_statement():
    abort = statements.Abort("alice", "ed25519", b"E" * 32)
    signature = IDENTITIES[OPERATOR].sign(abort)
    assert statements.is_signed_by(PUBLIC[OPERATOR], abort, signature)
    assert not statements.is_signed_by(PUBLIC[INSTITUTION], abort, signature)
    assert not statements.is_signed_by(PUBLIC[OPERATOR], replace(abort, epoch=b"F" * 32), signature)
    for none in (b"", b"no identity", PUBLIC[OPERATOR] + b"\0"):
        assert not statements.is_signed_by(none, abort, signature)


@pytest.mark.parametrize("cut", [0, 63, 65])
def test_no_byte_moves_from_a_signature_to_what_is_signed(cut):
    digest = statements.Abort("alice", "ed25519", b"E" * 32).digest()
    whole = IDENTITIES[OPERATOR].sign(statements.Abort("alice", "ed25519", b"E" * 32)) + digest
    assert statements.is_authentic(PUBLIC[OPERATOR], whole[64:], whole[:64])
    assert not statements.is_authentic(PUBLIC[OPERATOR], whole[cut:], whole[:cut])


def test_a_record_says_which_public_shares_are_meant():
    assert RECORD.matches_shares(b"record")
    assert not RECORD.matches_shares(b"another record")


def test_what_a_record_says_of_a_chain_code_is_signed():
    keyed = replace(RECORD, chain_code=b"c" * 32)
    assert statements.KeyRecord.from_bytes(keyed.to_bytes()) == keyed
    assert signed(keyed).check(PUBLIC) == keyed
    for other in (RECORD, replace(keyed, chain_code=bytes(32))):
        with pytest.raises(statements.RecordError, match="the operator has not signed this record"):
            replace(signed(keyed), record=other).check(PUBLIC)


def test_a_record_with_both_votes_is_proof():
    assert signed().check(PUBLIC) == RECORD


@pytest.mark.parametrize("missing", MPC_NODES)
def test_a_record_with_one_vote_is_none(missing):
    (voter,) = set(MPC_NODES) - {missing}
    one, both = signed(parties=(voter,)), signed()
    for record in (
        one,
        replace(both, heads=one.heads),
        replace(both, signatures=one.signatures),
        replace(both, seal_numbers=one.seal_numbers),
        replace(both, signatures=dict.fromkeys(MPC_NODES, both.signatures[voter])),
        replace(both, heads={**both.heads, missing: statements.LogHead(4, bytes(32))}),
    ):
        with pytest.raises(statements.RecordError, match="has not signed this record"):
            record.check(PUBLIC)


def test_a_record_is_of_the_identities_that_it_names(party):
    """Both have signed it, but at another MPC node's side."""
    for identities in ({**PUBLIC, party: bytes(32)}, {}):
        with pytest.raises(statements.RecordError, match="than the one known"):
            signed(replace(RECORD, identities=identities)).check(PUBLIC)


# ---------------------------------------------------------------------- notices


def test_a_notice_opens_for_what_it_was_sealed_for():
    at, secret = AbortedSession("alice", b"E" * 32, b"S" * 32), bytes(32)
    notice = suspension_notices.seal_notice(secret, at, OPERATOR, INSTITUTION, SeededRng("notice"))
    assert suspension_notices.open_notice(secret, at, OPERATOR, notice) == INSTITUTION
    for wrong in (
        (bytes(31) + b"1", at, OPERATOR, notice),
        (secret, replace(at, user_id="bob"), OPERATOR, notice),
        (secret, replace(at, key_id=b"F" * 32), OPERATOR, notice),
        (secret, replace(at, session_id=b"T" * 32), OPERATOR, notice),
        (secret, at, INSTITUTION, notice),
        (secret, at, OPERATOR, notice[:-1]),
        (secret, at, OPERATOR, b""),
    ):
        assert suspension_notices.open_notice(*wrong) is None
