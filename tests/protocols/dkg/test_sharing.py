"""What key generation leaves behind: a Shamir sharing of one key, and pairwise state that fits."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto import SeededRng
from mpcsim.crypto.groups.curves import curve
from mpcsim.protocols import dkg, keys, results, run, session_id
from tests.helpers.sessions import check_key_shares, dkg_session, reassemble
from tests.helpers.tiers import examples


@pytest.mark.parametrize(
    ("name", "t", "n"),
    [("ed25519", t, n) for n in range(2, 6) for t in range(2, n + 1)]
    + [("secp256k1", 2, 2), ("secp256k1", 2, 3), ("secp256k1", 3, 3)],
)
def test_any_t_shares_make_the_key_and_fewer_do_not(name, t, n):
    held = keys(name, t, n)
    group, record = curve(name), held[1].record
    assert record.threshold == t
    assert record.holders == tuple(range(1, n + 1))
    check_key_shares(held)
    for size in range(1, n + 1):
        for ids in combinations(held, size):
            secret = reassemble({i: held[i] for i in ids})
            assert (group.base(secret) == record.public_key) == (size >= t)


@examples(12)
@given(
    ids=st.sets(st.integers(1, 0xFFFF), min_size=2, max_size=4), shuffled=st.randoms(), t=st.just(2)
)
def test_any_identifiers_in_any_order(ids, shuffled, t):
    order = list(ids)
    shuffled.shuffle(order)
    agreed = dkg.setup("ed25519", t, tuple(order))
    assert agreed.parties == tuple(sorted(ids))
    sid = session_id("identifiers")
    shares = results(run(dkg.party(agreed, i, session_id=sid, rng=SeededRng(i)) for i in order))
    check_key_shares(shares)
    group = curve("ed25519")
    for pair in combinations(ids, 2):
        secret = reassemble({i: shares[i] for i in pair})
        assert group.base(secret) == shares[pair[0]].public_key


def test_one_honest_seed_is_enough_for_another_key():
    """Two of three parties repeat everything, session id included; the third does not."""
    session = dkg_session("ed25519", 2, 3)
    first = results(run(session.parties()))
    agreed = session.party(1).setup
    sid = session.party(1).session_id
    fresh = dkg.party(agreed, 3, session_id=sid, rng=SeededRng("fresh"))
    second = results(run([session.party(1), session.party(2), fresh]))
    assert first[1].public_key != second[1].public_key
    assert first[1].record.epoch != second[1].record.epoch
    assert first[1].peers[2].pair_secret != second[1].peers[2].pair_secret
