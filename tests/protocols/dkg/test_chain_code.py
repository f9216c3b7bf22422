"""The chain code: the same for all, nobody's choice, and of the key, whoever holds its shares."""

from dataclasses import replace

import pytest

from mpcsim.crypto import SeededRng
from mpcsim.errors import Aborted, InvalidEncoding, Reason, UsageError
from mpcsim.protocols import LocalRun, keys, reshare, results, run, session_id
from mpcsim.protocols.dkg import Reveal, steps
from mpcsim.protocols.key_share import PublicKeyRecord
from tests.helpers.adversary import Adversary, Tampered, alter_kind
from tests.helpers.sessions import dkg_session, judge, run_with


def test_all_have_one_and_it_is_a_hash_of_every_part():
    parties = dkg_session("secp256k1", 2, 3).parties()
    local = LocalRun(parties)
    local.start()
    parts = {party.me: party.keep.chain_code for party in parties}
    made = {share.record.chain_code for share in results(local.finish()).values()}
    assert made == {steps.chain_code(parts)}
    assert len(set(parts.values())) == 3
    for i in parts:
        assert steps.chain_code({**parts, i: bytes(32)}) not in made
    assert keys("secp256k1", name="another")[1].record.chain_code not in made


def test_none_on_ed25519():
    record = keys("ed25519")[1].record
    assert record.chain_code is None
    with pytest.raises(UsageError, match="ed25519 keys have no chain code"):
        record.extended_key()
    with pytest.raises(InvalidEncoding, match="chain code and curve do not fit"):
        PublicKeyRecord.from_bytes(replace(record, chain_code=bytes(32)).to_bytes())


def test_who_reveals_last_does_not_choose_it():
    """It tries parts until the chain code begins with a zero; but it has committed to one."""
    session = dkg_session("secp256k1", 2, 3)
    adversary = Adversary(session.party(2), hold={"Reveal"})

    def steer(reveal: Reveal) -> Tampered:
        others = adversary.party.inbox.received(Reveal)
        parts = {j: other.chain_code for j, other in others.items()}
        assert set(parts) == {1, 3}, "it sees the others' parts first"
        for n in range(1 << 12):
            part = n.to_bytes(32, "big")
            if steps.chain_code({**parts, 2: part})[0] == 0:
                return replace(reveal, chain_code=part)
        raise AssertionError

    adversary.tamper = alter_kind("Reveal", steer)
    for outcome in judge(session, run_with(session, adversary), {2}).values():
        assert isinstance(outcome, Aborted)
        assert outcome.reason is Reason.COMMITMENT_OPENING
        assert outcome.culprits == {2}


def test_who_starts_from_another_chain_code_is_not_gone_along_with():
    """It is part of the record, and with that of what the session is about."""
    held = keys("secp256k1")
    record = held[1].record
    other = replace(record, chain_code=bytes(32))
    outcomes = run(
        reshare.party(
            reshare.setup(mine, (2, 3), share=replace(held[i], record=mine) if i != 1 else None),
            i,
            session_id=session_id("reshare"),
            rng=SeededRng(i),
        )
        for i, mine in {1: record, 2: other, 3: record}.items()
    )
    assert {o.reason for o in outcomes.values()} <= {Reason.SESSION_MISMATCH, Reason.PEER_ABORTED}
