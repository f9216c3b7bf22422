"""The chain code: the same for all, nobody's choice, and of the key, whoever holds its shares."""

from dataclasses import replace

import pytest

from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.protocols import LocalRun, keys, results
from mpcsim.protocols.dkg import steps
from mpcsim.protocols.key_share import PublicKeyRecord
from tests.helpers.sessions import dkg_session


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
