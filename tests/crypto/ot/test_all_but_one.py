"""All-but-one OT: what each side gets, and what a sender cannot make it get."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.crypto.ot import all_but_one as ot_all_but_one
from mpcsim.crypto.ot.all_but_one import AllButOneMessage, place
from mpcsim.crypto.ot.base import bit
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import CheckFailed, Reason
from tests.helpers.tiers import examples

SID = bytes(range(32))
BLOCK = 16


def base_ots(seed):
    """(choices, both keys, the chosen ones) of 128 base OTs, as their functionality gives them."""
    rng = SeededRng(seed)
    choices, keys = rng.bytes(16), (rng.bytes(2048), rng.bytes(2048))
    chosen = b"".join(keys[bit(choices, j)][BLOCK * j :][:BLOCK] for j in range(128))
    return choices, keys, chosen


def paths(choices, k):
    """The number of each tree's leaf that stays unknown: k choice bits, the first the highest."""
    return [place([bit(choices, i * k + d) for d in range(k)]) for i in range(128 // k)]


def split(leaves):
    return [leaves[at : at + BLOCK] for at in range(0, len(leaves), BLOCK)]


@examples(7)
@given(st.sampled_from([1, 2, 4]), st.integers())
def test_the_receiver_gets_all_leaves_but_one(k, seed):
    choices, keys, chosen = base_ots(seed)
    all_leaves, message = ot_all_but_one.sender(SID, keys, k)
    known = ot_all_but_one.receiver(SID, choices, chosen, message, k)
    assert len(all_leaves) == len(known) == 128 // k
    for theirs, mine, missing in zip(all_leaves, known, paths(choices, k), strict=True):
        expected = split(theirs)
        assert len(set(expected)) == 1 << k
        expected[missing] = bytes(BLOCK)
        assert split(mine) == expected


@pytest.mark.parametrize("k", [2, 4])
def test_the_unknown_leaf_cannot_be_computed_from_what_was_sent(k):
    """Nothing that the receiver has, or that was sent, is the leaf or any node above it."""
    choices, keys, chosen = base_ots(1)
    leaves, message = ot_all_but_one.sender(SID, keys, k)
    seen = {*split(message.sums), *split(message.totals), *split(message.digests), *split(chosen)}
    for of_tree, missing in zip(leaves, paths(choices, k), strict=True):
        assert split(of_tree)[missing] not in seen


def test_with_one_bit_a_tree_nothing_is_sent():
    _, keys, _ = base_ots(2)
    leaves, message = ot_all_but_one.sender(SID, keys, 1)
    assert message == AllButOneMessage(b"", b"", b"")
    # The base OT's choice is the leaf that stays unknown, so its key is the other one.
    assert split(leaves[3]) == [keys[1][48:64], keys[0][48:64]]


def refused(choices, chosen, message, k):
    try:
        ot_all_but_one.receiver(SID, choices, chosen, message, k)
    except CheckFailed as failed:
        return failed.reason is Reason.ALL_BUT_ONE_OT_CHECK
    return False


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("branch", [0, 1])
@pytest.mark.parametrize("tree", [0, 5])
def test_a_false_sum_is_caught_where_the_receiver_uses_it(k, branch, tree):
    """O9: it passes with probability 1/2, and that is what it tells of the choice."""
    for seed in range(4):
        choices, keys, chosen = base_ots(seed)
        _, message = ot_all_but_one.sender(SID, keys, k)
        for depth in range(1, k):
            at = (2 * (tree * (k - 1) + depth - 1) + branch) * BLOCK
            sums = bytearray(message.sums)
            sums[at] ^= 1
            used = bit(choices, tree * k + depth) != branch
            assert refused(choices, chosen, replace(message, sums=bytes(sums)), k) == used


@pytest.mark.parametrize("field", ["totals", "digests"])
@pytest.mark.parametrize("at", [0, 31, -1])
def test_false_proofs_are_caught(field, at):
    choices, keys, chosen = base_ots(3)
    _, message = ot_all_but_one.sender(SID, keys, 4)
    value = bytearray(getattr(message, field))
    value[at] ^= 0x80
    assert refused(choices, chosen, replace(message, **{field: bytes(value)}), 4)
