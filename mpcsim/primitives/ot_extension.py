"""Random OT extension: SoftSpoken with k = 1 (Roy, eprint 2022/192), that is IKNP with a
linear-hash consistency check of full rank.

Ideal functionality: from ``LAMBDA_C`` base OTs, used again in every session, ``xi`` fresh OTs on
random strings. The sender gets two pads v0_j, v1_j for each j; the receiver, who chooses bits
beta_j, gets v_{beta_j, j}.

The roles swap between base and extension: the extension's *sender* chose the bits Delta in the
base OT and holds one seed of each pair; the extension's *receiver* holds both.

Why this variant: KOS (CRYPTO 2015) with its original check has a flawed proof. Here the check
applies one public random linear map R to every row and compares all ``LAMBDA_C`` of them, and
``MASK_BITS`` extra OTs hide what the receiver opens of beta. k = 1 keeps the arithmetic to XOR; a
larger k would trade 2^k / k times the hashing for 1/k of the traffic.

A corrupt receiver can still gamble: each guessed bit of Delta halves its chance to pass. Passing
or failing tells it about *long-lived* bits, so a failure must end the use of this set-up for good
(``Consequence.BAN_AND_DISCARD_OT``), in sessions that are already open as well.

Assumptions: base OT as above; AES-256, keyed afresh for every session, as an
ideal cipher (Guo et al., eprint 2019/074);
the challenge by Fiat-Shamir in the random-oracle model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from mpcsim.encoding import Fixed, Message, WireContext, wire
from mpcsim.errors import Reason, check
from mpcsim.hashing import Tag, tagged_hash, tagged_xof
from mpcsim.kernels import Kernel
from mpcsim.params import LAMBDA_C

BLOCK_BYTES = LAMBDA_C // 8
SEEDS_BYTES = LAMBDA_C * BLOCK_BYTES
MASK_BITS = LAMBDA_C
"""Extra OTs that hide beta in the check; also the number of bits of the check."""


def row_bytes(xi: int) -> int:
    """Length of a row: xi choice bits and the mask."""
    return (xi + MASK_BITS) // 8


def _rows(context: WireContext) -> int:
    return LAMBDA_C * row_bytes(context.mta.parameters.xi)


@wire
class ExtensionMessage(Message):
    """What the receiver sends: the correction u and the opened check (x~, t~)."""

    u: Annotated[bytes, Fixed(_rows)]
    x: Annotated[bytes, Fixed(MASK_BITS // 8)]
    t: Annotated[bytes, Fixed(SEEDS_BYTES)]


@dataclass(frozen=True)
class SenderSetup:
    """Long-lived state of the extension's sender."""

    delta: bytes = field(repr=False)
    """Delta: its choice bits in the base OT."""
    seeds: bytes = field(repr=False)
    """k_{i, Delta_i}, LAMBDA_C blocks."""


@dataclass(frozen=True)
class ReceiverSetup:
    """Long-lived state of the extension's receiver."""

    seeds0: bytes = field(repr=False)
    """k_{i,0}, LAMBDA_C blocks."""
    seeds1: bytes = field(repr=False)
    """k_{i,1}, LAMBDA_C blocks."""


def _hashed_rows(kernel: Kernel, sid: bytes, u: bytes, rows: bytes, xi: int) -> bytes:
    """R(row) = M * row[:xi] ^ row[xi:] for every row, with M = H(sid, u) a random binary matrix.

    M is uniform, so two different rows collide with probability 2^-MASK_BITS; the last
    MASK_BITS bits of the receiver's choice row are uniform, so R of it reveals nothing.
    """
    M = tagged_xof(Tag.OT_EXT_CHALLENGE, MASK_BITS * xi // 8, sid, u)
    inputs, masks = kernel.split_columns(rows, row_bytes(xi), xi // 8)
    return kernel.xor(kernel.binary_matvec(M, MASK_BITS, inputs, xi), masks)


def _columns(kernel: Kernel, rows: bytes, xi: int) -> bytes:
    """The xi columns of a matrix of rows (the mask columns are dropped), a block each."""
    inputs, _ = kernel.split_columns(rows, row_bytes(xi), xi // 8)
    return kernel.transpose(inputs, LAMBDA_C, xi)


def _pads(kernel: Kernel, sid: bytes, columns: bytes, width: int) -> bytes:
    """H(j, column_j): breaks the correlation; ``width`` blocks of pad an OT."""
    return kernel.crhash(tagged_hash(Tag.OT_EXT_OUTPUT, sid), columns, width)


def receiver(
    kernel: Kernel, setup: ReceiverSetup, sid: bytes, choices: bytes, mask: bytes, width: int
) -> tuple[bytes, ExtensionMessage]:
    """The receiver's only step.

    Args:
        choices: beta, xi bits.
        mask: MASK_BITS random bits.
        width: pad blocks wanted an OT.

    Returns:
        The chosen pads (xi rows of ``width`` blocks) and the message to the sender.

    Spec: Roy22 | Figure 8 (k = 1) | receiver: t, u, challenge, opening
    """
    xi = len(choices) * 8
    x = choices + mask
    key = tagged_hash(Tag.OT_EXT_PRG, sid)
    # t_i = PRG(k_{i,0}); u_i = t_i ^ PRG(k_{i,1}) ^ x
    t = kernel.expand(key, setup.seeds0, row_bytes(xi))
    other = kernel.expand(key, setup.seeds1, row_bytes(xi))
    u = kernel.xor(kernel.xor(t, other), kernel.repeat_row(x, LAMBDA_C))
    opened = _hashed_rows(kernel, sid, u, t + x, xi)  # x is one more row
    message = ExtensionMessage(u, x=opened[SEEDS_BYTES:], t=opened[:SEEDS_BYTES])
    return _pads(kernel, sid, _columns(kernel, t, xi), width), message


def sender(
    kernel: Kernel, setup: SenderSetup, sid: bytes, message: ExtensionMessage, xi: int, width: int
) -> tuple[bytes, bytes]:
    """The sender's only step.

    Returns:
        Both pads of every OT (each xi rows of ``width`` blocks).

    Raises:
        CheckFailed: the receiver's rows are inconsistent (OT_EXTENSION_CHECK).

    Spec: Roy22 | Figure 8 (k = 1) | sender: q, consistency check, output
    """
    # q_i = PRG(k_{i,Delta_i}) ^ Delta_i * u_i  ( = t_i ^ Delta_i * x )
    key = tagged_hash(Tag.OT_EXT_PRG, sid)
    q = kernel.xor(
        kernel.expand(key, setup.seeds, row_bytes(xi)),
        kernel.select_rows(setup.delta, message.u, row_bytes(xi)),
    )
    # R(q_i) = t~_i ^ Delta_i * x~ for every row i
    x_rows = kernel.repeat_row(message.x, LAMBDA_C)
    expected = kernel.xor(message.t, kernel.select_rows(setup.delta, x_rows, BLOCK_BYTES))
    check(_hashed_rows(kernel, sid, message.u, q, xi) == expected, Reason.OT_EXTENSION_CHECK)
    # v0_j = H(j, q_j), v1_j = H(j, q_j ^ Delta)
    columns = _columns(kernel, q, xi)
    flipped = kernel.xor(columns, kernel.repeat_row(setup.delta, xi))
    return _pads(kernel, sid, columns, width), _pads(kernel, sid, flipped, width)
