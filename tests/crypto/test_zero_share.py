"""Zero shares add up to zero, differ by session, and depend on every seed."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.rng import SeededRng
from mpcsim.crypto.zero_share import zero_share


@given(st.sets(st.integers(1, 30), min_size=2, max_size=6), st.integers(), st.binary(max_size=40))
def test_zero_shares_add_up_to_zero(parties, seed, sid):
    rng = SeededRng(seed)
    seeds = {pair: rng.bytes(32) for pair in combinations(sorted(parties), 2)}

    def share(i, session):
        mine = {j: seeds[min(i, j), max(i, j)] for j in parties if j != i}
        return zero_share(SECP256K1, i, mine, session)

    shares = [share(i, sid) for i in parties]
    assert not sum(shares, SECP256K1.scalar(0))
    assert all(shares)
    assert shares != [share(i, sid + b"!") for i in parties]
