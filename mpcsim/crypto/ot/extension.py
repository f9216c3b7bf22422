"""Random OT extension: SoftSpoken (Roy, eprint 2022/192) with a linear-hash consistency check of
full rank.

Ideal functionality: from all-but-one OTs (``ot_all_but_one``), used again in every session, ``xi``
fresh OTs on random strings. The sender gets two pads v0_j, v1_j for each j; the receiver, who
chooses bits beta_j, gets v_{beta_j, j}.

The roles swap between set-up and extension: the extension's *sender* chose the bits Delta, k of
them a tree, and holds all leaves of a tree but the one at Delta_i; the extension's *receiver* holds
them all. For each tree one row of ``xi`` bits is sent, whatever k is, so that k divides the
traffic; each leaf that a side holds is stretched to a row. With k = 1 this is IKNP, with 256 rows
for the receiver and 128 for the sender; with k = 2 they are 256 and 192, with k = 4 512 and 480.

Why this variant: KOS (CRYPTO 2015) with its original check has a flawed proof. Here the check
applies one public random linear map R to every row and compares all ``LAMBDA_C`` of them, and
``MASK_BITS`` extra OTs hide what the receiver opens of beta.

A corrupt receiver can still gamble: each guessed bit of Delta halves its chance to pass, and it
guesses all k bits of a tree or none. Passing or failing tells it about *long-lived* bits, so a
failure must end the use of this set-up for good (``Consequence.BAN_AND_DISCARD_OT``), in sessions
that are already open as well.

Assumptions: all-but-one OT; AES-256, keyed afresh for every session, as an
ideal cipher (Guo et al., eprint 2019/074);
the challenge by Fiat-Shamir in the random-oracle model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from mpcsim.crypto.encoding import BYTES32, Fixed, Message, Sized, WireContext, wire
from mpcsim.crypto.hashing import Tag, tagged_hash, tagged_xof
from mpcsim.crypto.kernels import Kernel
from mpcsim.crypto.ot.all_but_one import BLOCK_BYTES, place, trees
from mpcsim.crypto.ot.base import bit
from mpcsim.crypto.params import LAMBDA_C, OtParameters
from mpcsim.errors import Reason, check

ROWS_BYTES = LAMBDA_C * BLOCK_BYTES
"""Length of the opened hashes of all rows."""
MASK_BITS = LAMBDA_C
"""Extra OTs that hide beta in the check; also the number of bits of the check."""


def row_bytes(xi: int) -> int:
    """Length of a row: xi choice bits and the mask."""
    return (xi + MASK_BITS) // 8


def _rows(context: WireContext) -> int:
    parameters: OtParameters = context.mta.parameters
    return trees(parameters.k) * row_bytes(parameters.xi)


@wire
class ExtensionMessage(Message):
    """Message of the receiver: the correction u and the opened check (x~, t~)."""

    u: Annotated[bytes, Sized(_rows)]
    """Correction u, a row a tree."""
    x: Annotated[bytes, Fixed(MASK_BITS // 8)]
    t: Annotated[bytes, BYTES32]
    """Hash of t~."""


@dataclass(frozen=True)
class SenderSetup:
    """Long-lived state of the extension's sender."""

    k: int
    """Bits of Delta a tree."""
    delta: bytes = field(repr=False)
    """Delta: its choice bits in the base OT."""
    punctured: bytes = field(repr=False)
    """Leaves of each tree at Delta_i ^ y, for y = 1 to 2^k - 1."""

    @classmethod
    def of(cls, delta: bytes, leaves: Sequence[bytes]) -> SenderSetup:
        """Make it from the all-but-one OTs: the leaves of each tree, with any value at Delta_i."""
        k = LAMBDA_C // len(leaves)
        digits = [place([bit(delta, i * k + d) for d in range(k)]) for i in range(len(leaves))]
        punctured = (
            of_tree[BLOCK_BYTES * (digit ^ y) :][:BLOCK_BYTES]
            for digit, of_tree in zip(digits, leaves, strict=True)
            for y in range(1, 1 << k)
        )
        return cls(k, delta, b"".join(punctured))


@dataclass(frozen=True)
class ReceiverSetup:
    """Long-lived state of the extension's receiver."""

    k: int
    rest: bytes = field(repr=False)
    """Leaves 1 to 2^k - 1 of each tree."""
    zeroth: bytes = field(repr=False)
    """Leaf 0 of each tree."""

    @classmethod
    def of(cls, leaves: Sequence[bytes]) -> ReceiverSetup:
        """Make it from the all-but-one OTs: the leaves of each tree."""
        rest = b"".join(of_tree[BLOCK_BYTES:] for of_tree in leaves)
        zeroth = b"".join(of_tree[:BLOCK_BYTES] for of_tree in leaves)
        return cls(LAMBDA_C // len(leaves), rest, zeroth)


def _stretched(kernel: Kernel, sid: bytes, leaves: bytes, k: int, xi: int) -> bytes:
    """PRG(leaf): a row a leaf. All leaves of a tree have the same tweaks: a party that could profit
    from that lacks only one of them."""
    per_tree = len(leaves) // (trees(k) * BLOCK_BYTES)
    return kernel.expand(tagged_hash(Tag.OT_EXT_PRG, sid), leaves, row_bytes(xi), per_tree)


def _hashed_rows(kernel: Kernel, sid: bytes, u: bytes, rows: bytes, xi: int) -> bytes:
    """R(row) = M * row[:xi] ^ row[xi:] for every row, with M = H(sid, u) a random binary matrix.

    M is uniform, so two different rows collide with probability 2^-MASK_BITS at most; the last
    MASK_BITS bits of the receiver's choice row are uniform, so R of it reveals nothing.
    """
    M = tagged_xof(Tag.OT_EXT_CHALLENGE, MASK_BITS * xi // 8, sid, u)
    inputs, masks = kernel.split_columns(rows, row_bytes(xi), xi // 8)
    return kernel.xor(kernel.binary_matvec(M, MASK_BITS, inputs, xi), masks)


def _opening(sid: bytes, t: bytes) -> bytes:
    """H(t~): the other side can compute t~, so its hash is as good, and shorter.

    It binds whoever sends it to one t~ before anything is compared, as t~ itself would.
    """
    return tagged_hash(Tag.OT_EXT_OPENING, sid, t)


def _columns(kernel: Kernel, rows: bytes, xi: int) -> bytes:
    """Return the xi columns of a matrix of rows (the mask columns are dropped), a block each."""
    inputs, _ = kernel.split_columns(rows, row_bytes(xi), xi // 8)
    return kernel.transpose(inputs, LAMBDA_C, xi)


def _pads(kernel: Kernel, sid: bytes, columns: bytes, width: int) -> bytes:
    """H(j, column_j): breaks the correlation; ``width`` blocks of pad an OT."""
    return kernel.crhash(tagged_hash(Tag.OT_EXT_OUTPUT, sid), columns, width)


def receiver(
    kernel: Kernel, setup: ReceiverSetup, sid: bytes, choices: bytes, mask: bytes, width: int
) -> tuple[bytes, ExtensionMessage]:
    """Run the receiver's only step.

    Args:
        choices: beta, xi bits.
        mask: MASK_BITS random bits.
        width: pad blocks wanted an OT.

    Returns:
        The chosen pads (xi rows of ``width`` blocks) and the message to the sender.

    Spec: Roy22 | Figure 8 | receiver: t, u, challenge, opening
    Differs: a hash of t~ is sent in its place.
    """
    k, xi = setup.k, len(choices) * 8
    x = choices + mask
    size = row_bytes(xi)
    # With r_w = PRG(leaf w): t = sum_w w r_w, bit by bit; u = sum_w r_w ^ x
    rest = _stretched(kernel, sid, setup.rest, k, xi)
    zeroth = _stretched(kernel, sid, setup.zeroth, k, xi)
    t = kernel.fold_by_bit(rest, size, k)
    total = kernel.xor(kernel.fold(rest, size, (1 << k) - 1), zeroth)
    u = kernel.xor(total, kernel.repeat_row(x, trees(k)))
    opened = _hashed_rows(kernel, sid, u, t + x, xi)  # x is one more row
    message = ExtensionMessage(u, x=opened[ROWS_BYTES:], t=_opening(sid, opened[:ROWS_BYTES]))
    return _pads(kernel, sid, _columns(kernel, t, xi), width), message


def sender(
    kernel: Kernel, setup: SenderSetup, sid: bytes, message: ExtensionMessage, xi: int, width: int
) -> tuple[bytes, bytes]:
    """Run the sender's only step.

    Returns:
        Both pads of every OT (each xi rows of ``width`` blocks).

    Raises:
        CheckFailed: the receiver's rows are inconsistent (OT_EXTENSION_CHECK).

    Spec: Roy22 | Figure 8 | sender: q, consistency check, output
    """
    k, delta, size = setup.k, setup.delta, row_bytes(xi)
    # q = sum_y y r_{Delta ^ y} ^ Delta u  ( = t ^ Delta x ), a row a bit of Delta
    q = kernel.xor(
        kernel.fold_by_bit(_stretched(kernel, sid, setup.punctured, k, xi), size, k),
        kernel.select_rows(delta, message.u, size, k),
    )
    # R(q_i) = t~_i ^ Delta_i * x~ for every row i
    opened = kernel.xor(
        _hashed_rows(kernel, sid, message.u, q, xi),
        kernel.select_rows(delta, message.x, BLOCK_BYTES, LAMBDA_C),
    )
    check(_opening(sid, opened) == message.t, Reason.OT_EXTENSION_CHECK)
    # v0_j = H(j, q_j), v1_j = H(j, q_j ^ Delta)
    columns = _columns(kernel, q, xi)
    flipped = kernel.xor(columns, kernel.repeat_row(delta, xi))
    return _pads(kernel, sid, columns, width), _pads(kernel, sid, flipped, width)
