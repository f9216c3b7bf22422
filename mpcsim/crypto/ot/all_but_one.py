"""All-but-one oblivious transfer from base OT, by punctured GGM trees (Roy, eprint 2022/192,
Figures 13 and 14; Boyle et al., CCS 2019).

Ideal functionality: for each of n = ``LAMBDA_C`` / k trees the sender gets 2^k random blocks, the
leaves; the receiver, who holds a k-bit number, gets all of them but that one. An honest sender
learns nothing of the number; a corrupt one may name a set of numbers for each tree, and the set-up
fails if the receiver's is not in it. As with base OT, a corrupt party may choose its own outputs.

Each tree uses k base OTs, one a level. Below its first two nodes, which are keys of base OT, every
node is expanded to two. Of each level the receiver learns one sum: that of all nodes that are the
same kind of child (first or second) as the sibling of the node on its path. It knows all of them
but the sibling, so it gets the sibling, and with it everything below.

A corrupt sender can make a sum false, and the receiver's leaves then depend on its number. So the
sender commits to all leaves (the digests), and opens their sum, from which the receiver gets the
one it lacks. A guess can still pass, with the probability that it is right; the set-up that fails
is over, and nothing was done with the numbers yet.

With k = 1 there is nothing to do: the leaves are the keys of base OT.

Assumptions: base OT; the expansion of nodes and leaves in the random-oracle model, with session,
tree and place in every query, so that work spent on one hidden leaf is of no use for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import xor
from typing import Annotated

from mpcsim.crypto.encoding import Message, Sized, WireContext, wire
from mpcsim.crypto.hashing import Tag, tagged_hash, tagged_xof, u32
from mpcsim.crypto.ot.base import bit
from mpcsim.crypto.params import LAMBDA_C
from mpcsim.errors import Reason, check

BLOCK_BYTES = LAMBDA_C // 8
CHECK_BYTES = 2 * BLOCK_BYTES
"""s~ of a leaf, and the hash of those of a tree: nobody finds two leaves with one s~."""

Level = list[bytes]
"""Nodes of one tree at one depth, a block each."""


def trees(k: int) -> int:
    """n: number of trees."""
    return LAMBDA_C // k


def _sums_bytes(context: WireContext) -> int:
    k: int = context.mta.parameters.k
    return trees(k) * (k - 1) * 2 * BLOCK_BYTES


def _proof_bytes(context: WireContext) -> int:
    """Return the length of ``totals`` and ``digests``: none where there is nothing to prove."""
    k: int = context.mta.parameters.k
    return trees(k) * CHECK_BYTES if k > 1 else 0


@wire
class AllButOneMessage(Message):
    """Message of the sender; empty with k = 1."""

    sums: Annotated[bytes, Sized(_sums_bytes)]
    """t: for each tree, for each level but the first: the sum of the first children, and of the
    second ones, each masked with a key of base OT."""
    totals: Annotated[bytes, Sized(_proof_bytes)]
    """t~: of each tree, the sum of s~ of the leaves."""
    digests: Annotated[bytes, Sized(_proof_bytes)]
    """s~: of each tree, the hash of s~ of the leaves."""


def sender(sid: bytes, keys: tuple[bytes, bytes], k: int) -> tuple[list[bytes], AllButOneMessage]:
    """Run the sender's only step.

    Args:
        keys: both keys of every base OT.

    Returns:
        The leaves of every tree (each 2^k blocks), and the message to the receiver.

    Spec: Roy22 | Figure 13 | sender: s, t; Figure 14 | sender: s~, t~
    Differs: the node for branch b is masked with (and on the first level is) the key of branch
        1 - b, so that a base OT's choice bits are the path to the leaf that stays unknown.
    """
    zero, one = map(_blocks, keys)
    leaves, sums, totals, digests = [], [], [], []
    for i in range(trees(k)):
        nodes = [one[i * k], zero[i * k]]
        for depth in range(1, k):
            nodes = _children(sid, i, depth, nodes)
            at = i * k + depth
            sums += [_sum([*nodes[0::2], one[at]]), _sum([*nodes[1::2], zero[at]])]
        if k > 1:
            nodes, proofs = _leaves(sid, i, nodes)
            totals.append(_sum(proofs))
            digests.append(_digest(sid, i, proofs))
        leaves.append(b"".join(nodes))
    return leaves, AllButOneMessage(b"".join(sums), b"".join(totals), b"".join(digests))


def receiver(
    sid: bytes, choices: bytes, chosen: bytes, message: AllButOneMessage, k: int
) -> list[bytes]:
    """Run the receiver's only step; a second one with the same choices would leak more of them.

    Args:
        choices: its choice bits in the base OTs; k of them, first to last, are the path to the
            leaf of a tree that it will not know.
        chosen: the keys it got.

    Returns:
        The leaves of every tree (each 2^k blocks); zeros in place of the unknown one.

    Raises:
        CheckFailed: the sums do not lead to the leaves committed to (ALL_BUT_ONE_OT_CHECK).

    Spec: Roy22 | Figure 13 | receiver; Figure 14 | receiver: check of s~
    """
    got, sums = _blocks(chosen), _blocks(message.sums)
    totals = _blocks(message.totals, CHECK_BYTES)
    unknown = bytes(BLOCK_BYTES)
    leaves, digests = [], []
    for i in range(trees(k)):
        path = [bit(choices, i * k + depth) for depth in range(k)]
        nodes = [unknown, got[i * k]] if path[0] == 0 else [got[i * k], unknown]
        for depth in range(1, k):
            nodes = _children(sid, i, depth, nodes)
            missing = place(path[: depth + 1])
            nodes[missing] = nodes[missing ^ 1] = unknown  # children of what is not known
            b = 1 - path[depth]
            masked = sums[2 * (i * (k - 1) + depth - 1) + b]
            nodes[missing ^ 1] = _sum([*nodes[b::2], masked, got[i * k + depth]])
        if k > 1:
            missing = place(path)
            nodes, proofs = _leaves(sid, i, nodes)
            nodes[missing] = unknown
            proofs[missing] = _sum([totals[i], *proofs[:missing], *proofs[missing + 1 :]])
            digests.append(_digest(sid, i, proofs))
        leaves.append(b"".join(nodes))
    # All trees at once: which of them fails would tell more than that one does.
    check(b"".join(digests) == message.digests, Reason.ALL_BUT_ONE_OT_CHECK)
    return leaves


def place(path: Sequence[int]) -> int:
    """Return the number of the node at the end of a path, the first bit being the highest."""
    return reduce(lambda above, b: 2 * above + b, path, 0)


def _children(sid: bytes, i: int, depth: int, nodes: Level) -> Level:
    """Return the next level of tree i: each node expanded to two."""
    wide = (
        tagged_xof(Tag.OT_TREE, 2 * BLOCK_BYTES, sid, u32(i), u32(depth), u32(y), node)
        for y, node in enumerate(nodes)
    )
    return _blocks(b"".join(wide))


def _leaves(sid: bytes, i: int, nodes: Level) -> tuple[Level, list[bytes]]:
    """(s_y, s~_y) of tree i: what the nodes of its last level are expanded to."""
    wide = [
        tagged_xof(Tag.OT_LEAF, BLOCK_BYTES + CHECK_BYTES, sid, u32(i), u32(y), node)
        for y, node in enumerate(nodes)
    ]
    return [row[:BLOCK_BYTES] for row in wide], [row[BLOCK_BYTES:] for row in wide]


def _digest(sid: bytes, i: int, proofs: Sequence[bytes]) -> bytes:
    return tagged_hash(Tag.OT_LEAVES, sid, u32(i), *proofs)


def _sum(blocks: Sequence[bytes]) -> bytes:
    total = reduce(xor, (int.from_bytes(block, "big") for block in blocks))
    return total.to_bytes(len(blocks[0]), "big")


def _blocks(data: bytes, size: int = BLOCK_BYTES) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
