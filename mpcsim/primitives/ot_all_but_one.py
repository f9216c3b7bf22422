"""All-but-one oblivious transfer from base OT, by punctured GGM trees (Roy, eprint 2022/192,
Figures 13 and 14; Boyle et al., CCS 2019).

Ideal functionality: for each of n = ``LAMBDA_C`` / k trees the sender gets 2^k random blocks, the
leaves; the receiver, who holds a k-bit number, gets all of them but that one. The sender learns
nothing of the number.

Each tree uses k base OTs, one a level. Below its first two nodes, which are keys of base OT, every
node is expanded to two. Of each level the receiver learns one sum: that of all nodes that are the
same kind of child (first or second) as the sibling of the node on its path. It knows all of them
but the sibling, so it gets the sibling, and with it everything below.

A corrupt sender can make a sum false, and the receiver's leaves then depend on its number. So the
sender commits to all leaves (the digests), and opens their sum, from which the receiver gets the
one it lacks. A guess can still pass, with the probability that it is right; the set-up that fails
is over, and nothing was done with the numbers yet.

With k = 1 there is nothing to do: the leaves are the keys of base OT.

Assumptions: base OT; AES-256, keyed afresh for every session and level, as an ideal cipher, and the
hash of the leaves in the random-oracle model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import xor
from typing import Annotated

from mpcsim.encoding import Fixed, Message, WireContext, wire
from mpcsim.errors import Reason, check
from mpcsim.hashing import Tag, tagged_hash, u32
from mpcsim.kernels import Kernel
from mpcsim.params import LAMBDA_C
from mpcsim.primitives.ot_base import bit

BLOCK_BYTES = LAMBDA_C // 8
CHECK_BLOCKS = 2
"""s~: of 2 * LAMBDA_C bits a leaf, so that no two leaves have the same."""
CHECK_BYTES = CHECK_BLOCKS * BLOCK_BYTES
"""As many as a digest has."""

Tree = list[int]
"""The blocks of one level of one tree, as integers."""


def trees(k: int) -> int:
    """n: how many trees there are."""
    return LAMBDA_C // k


def _sums_bytes(context: WireContext) -> int:
    k: int = context.mta.parameters.k
    return trees(k) * (k - 1) * 2 * BLOCK_BYTES


def _proof_bytes(context: WireContext) -> int:
    """A digest of 32 bytes a tree; none where there is nothing to prove."""
    k: int = context.mta.parameters.k
    return trees(k) * CHECK_BYTES if k > 1 else 0


@wire
class AllButOneMessage(Message):
    """What the sender sends; empty with k = 1."""

    sums: Annotated[bytes, Fixed(_sums_bytes)]
    """t: for each tree, for each level but the first: the sum of the first children, and of the
    second ones, each masked with a key of base OT."""
    totals: Annotated[bytes, Fixed(_proof_bytes)]
    """t~: of each tree, the sum of s~ of the leaves."""
    digests: Annotated[bytes, Fixed(_proof_bytes)]
    """s~: of each tree, the hash of s~ of the leaves."""


def sender(
    kernel: Kernel, sid: bytes, keys: tuple[bytes, bytes], k: int
) -> tuple[list[bytes], AllButOneMessage]:
    """The sender's only step.

    Args:
        keys: both keys of every base OT.

    Returns:
        The leaves of every tree (each 2^k blocks), and the message to the receiver.

    Spec: Roy22 | Figure 13 | sender: s, t; Figure 14 | sender: s~, t~
    Differs: the node for branch b is masked with (and on the first level is) the key of branch
        1 - b, so that a base OT's choice bits are the path to the leaf that stays unknown.
    """
    pairs = [_blocks(branch) for branch in keys]
    levels = [[pairs[1][i * k], pairs[0][i * k]] for i in range(trees(k))]
    sums: list[list[int]] = [[] for _ in levels]
    for depth in range(1, k):
        levels = _children(kernel, sid, depth, levels)
        for i, nodes in enumerate(levels):
            at = i * k + depth
            sums[i] += [_sum(nodes[b::2]) ^ pairs[1 - b][at] for b in (0, 1)]
    if k == 1:
        return [_joined(nodes) for nodes in levels], AllButOneMessage(b"", b"", b"")
    leaves, proofs = _leaves(kernel, sid, levels)
    totals = [_sum([int.from_bytes(s, "big") for s in of_tree]) for of_tree in proofs]
    return leaves, AllButOneMessage(
        b"".join(map(_joined, sums)),
        b"".join(total.to_bytes(CHECK_BYTES, "big") for total in totals),
        b"".join(_digest(sid, i, of_tree) for i, of_tree in enumerate(proofs)),
    )


def receiver(
    kernel: Kernel,
    sid: bytes,
    choices: bytes,
    chosen: bytes,
    message: AllButOneMessage,
    k: int,
) -> list[bytes]:
    """The receiver's only step.

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
    paths = [[bit(choices, i * k + depth) for depth in range(k)] for i in range(trees(k))]
    levels = [[got[i * k] if b != path[0] else 0 for b in (0, 1)] for i, path in enumerate(paths)]
    for depth in range(1, k):
        levels = _children(kernel, sid, depth, levels)
        for i, (nodes, path) in enumerate(zip(levels, paths, strict=True)):
            on_path = place(path[: depth + 1])
            nodes[on_path] = nodes[on_path ^ 1] = 0  # children of what is not known
            b = 1 - path[depth]
            masked = sums[2 * (i * (k - 1) + depth - 1) + b]
            nodes[on_path ^ 1] = masked ^ got[i * k + depth] ^ _sum(nodes[b::2])
    if k == 1:
        return [_joined(nodes) for nodes in levels]
    leaves, proofs = _leaves(kernel, sid, levels)
    found = []
    for i, (of_tree, path) in enumerate(zip(proofs, paths, strict=True)):
        missing = place(path)
        total = int.from_bytes(message.totals[i * CHECK_BYTES :][:CHECK_BYTES], "big")
        others = [int.from_bytes(s, "big") for y, s in enumerate(of_tree) if y != missing]
        of_tree[missing] = (total ^ _sum(others)).to_bytes(CHECK_BYTES, "big")
        found.append(_digest(sid, i, of_tree))
        leaves[i] = _without(leaves[i], missing)
    # All trees at once: which of them fails would tell more than that one does.
    check(b"".join(found) == message.digests, Reason.ALL_BUT_ONE_OT_CHECK)
    return leaves


def place(path: Sequence[int]) -> int:
    """The number of the node at the end of a path, the first bit being the highest."""
    return reduce(lambda above, b: 2 * above + b, path, 0)


def _children(kernel: Kernel, sid: bytes, depth: int, levels: list[Tree]) -> list[Tree]:
    """The level below, of every tree: each node expanded to two."""
    key = tagged_hash(Tag.OT_TREE, sid, u32(depth))
    wide = _blocks(kernel.crhash(key, b"".join(map(_joined, levels)), 2))
    return _split(wide, 2 * len(levels[0]))


def _leaves(
    kernel: Kernel, sid: bytes, levels: list[Tree]
) -> tuple[list[bytes], list[list[bytes]]]:
    """(s_y, s~_y) of every tree: what the last level is expanded to."""
    key = tagged_hash(Tag.OT_LEAF, sid)
    wide = kernel.crhash(key, b"".join(map(_joined, levels)), 1 + CHECK_BLOCKS)
    step = BLOCK_BYTES + CHECK_BYTES
    rows = [wide[at : at + step] for at in range(0, len(wide), step)]
    q = len(levels[0])
    by_tree = [rows[at : at + q] for at in range(0, len(rows), q)]
    return (
        [b"".join(row[:BLOCK_BYTES] for row in of_tree) for of_tree in by_tree],
        [[row[BLOCK_BYTES:] for row in of_tree] for of_tree in by_tree],
    )


def _digest(sid: bytes, i: int, of_tree: Sequence[bytes]) -> bytes:
    return tagged_hash(Tag.OT_LEAVES, sid, u32(i), *of_tree)


def _without(leaves: bytes, missing: int) -> bytes:
    at = missing * BLOCK_BYTES
    return leaves[:at] + bytes(BLOCK_BYTES) + leaves[at + BLOCK_BYTES :]


def _sum(nodes: Sequence[int]) -> int:
    return reduce(xor, nodes, 0)


def _split(blocks: Tree, size: int) -> list[Tree]:
    return [blocks[at : at + size] for at in range(0, len(blocks), size)]


def _blocks(data: bytes) -> Tree:
    return [
        int.from_bytes(data[at : at + BLOCK_BYTES], "big")
        for at in range(0, len(data), BLOCK_BYTES)
    ]


def _joined(nodes: Sequence[int]) -> bytes:
    return b"".join(node.to_bytes(BLOCK_BYTES, "big") for node in nodes)
