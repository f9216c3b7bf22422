"""Endemic oblivious transfer from Diffie-Hellman (Masny-Rindal, eprint 2019/706, Figure 8).

Ideal functionality: for each of ``LAMBDA_C`` instances the sender gets two 16-byte keys and the
receiver, who holds a choice bit c, gets key number c. The receiver learns nothing of the other
key and the sender nothing of c. A corrupt party may choose its own outputs ("endemic"), which OT
extension tolerates.

Assumption: computational Diffie-Hellman on secp256k1, in the random-oracle model. The hash into
the group must have unknown discrete logarithms: with H(x) = h(x)*G the receiver would get both
keys. Session, direction, instance and branch are inside every oracle.

Two messages: receiver to sender (two points an instance), sender to receiver (one point).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from mpcsim.crypto.encoding import POINT, Message, Seq, wire
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.params import LAMBDA_C
from mpcsim.crypto.rng import Rng
from mpcsim.errors import Reason, check

KEY_BYTES = LAMBDA_C // 8


@wire
class ReceiverMessage(Message):
    """(r_0, r_1) of every instance."""

    r0: Annotated[tuple[Point, ...], Seq(POINT, LAMBDA_C)]
    r1: Annotated[tuple[Point, ...], Seq(POINT, LAMBDA_C)]


@wire
class SenderMessage(Message):
    """m_A of every instance."""

    A: Annotated[tuple[Point, ...], Seq(POINT, LAMBDA_C)]


@dataclass(frozen=True)
class ReceiverKeep:
    """The receiver's secrets between its two steps."""

    choices: bytes = field(repr=False)
    exponents: tuple[Scalar, ...] = field(repr=False)
    sent: ReceiverMessage = field(repr=False)


def _hash_point(sid: bytes, k: int, branch: int, r: Point) -> Point:
    """H_branch: the oracle into the group."""
    return SECP256K1.hash_to_point(Tag.OT_BASE_POINT, sid, u32(k), u32(branch), r.encode())


def _key(sid: bytes, k: int, branch: int, A: Point, shared: Point) -> bytes:
    digest = tagged_hash(Tag.OT_BASE_KEY, sid, u32(k), u32(branch), A.encode(), shared.encode())
    return digest[:KEY_BYTES]


def bit(bits: bytes, k: int) -> int:
    """Bit k of a little-endian bit string."""
    return bits[k >> 3] >> (k & 7) & 1


def receiver_start(sid: bytes, choices: bytes, rng: Rng) -> tuple[ReceiverKeep, ReceiverMessage]:
    """Receiver, step 1: r_{1-c} random, r_c = b*G - H_c(r_{1-c}).

    Spec: MR19 | Figure 8 | receiver, first message
    """
    exponents = []
    pairs: tuple[list[Point], list[Point]] = ([], [])
    for k in range(LAMBDA_C):
        c = bit(choices, k)
        other = SECP256K1.base(SECP256K1.random_scalar(rng))
        b = SECP256K1.random_scalar(rng)
        chosen = SECP256K1.base(b) - _hash_point(sid, k, c, other)
        # What the sender hashes, no more and no less: how many tries it takes tells no choice.
        _hash_point(sid, k, 1 - c, chosen)
        exponents.append(b)
        pairs[c].append(chosen)
        pairs[1 - c].append(other)
    message = ReceiverMessage(tuple(pairs[0]), tuple(pairs[1]))
    return ReceiverKeep(choices, tuple(exponents), message), message


def sender_answer(
    sid: bytes, message: ReceiverMessage, rng: Rng
) -> tuple[tuple[bytes, bytes], SenderMessage]:
    """Sender: A = a*G; key_b = KDF(a * (r_b + H_b(r_{1-b}))) for both branches.

    Returns:
        The 2 x LAMBDA_C keys, one buffer a branch, and the message to the receiver.

    Raises:
        CheckFailed: wrong number of instances, or a combined point is the identity.

    Spec: MR19 | Figure 8 | sender
    """
    check(
        len(message.r0) == len(message.r1) == LAMBDA_C,
        Reason.MALFORMED_MESSAGE,
        detail="number of base OTs",
    )
    keys: tuple[list[bytes], list[bytes]] = ([], [])
    A = []
    for k, (r0, r1) in enumerate(zip(message.r0, message.r1, strict=True)):
        a = SECP256K1.random_scalar(rng)
        A_k = SECP256K1.base(a)
        A.append(A_k)
        for branch, mine, other in ((0, r0, r1), (1, r1, r0)):
            P = mine + _hash_point(sid, k, branch, other)
            check(not P.is_identity, Reason.BASE_OT_DEGENERATE, detail=f"instance {k}")
            keys[branch].append(_key(sid, k, branch, A_k, a * P))
    return (b"".join(keys[0]), b"".join(keys[1])), SenderMessage(tuple(A))


def receiver_finish(sid: bytes, keep: ReceiverKeep, message: SenderMessage) -> bytes:
    """Receiver, step 2: key_c = KDF(b*A); one buffer of LAMBDA_C keys.

    Raises:
        CheckFailed: wrong number of instances.

    Spec: MR19 | Figure 8 | receiver, output
    """
    check(len(message.A) == LAMBDA_C, Reason.MALFORMED_MESSAGE, detail="number of base OTs")
    return b"".join(
        _key(sid, k, bit(keep.choices, k), A_k, b * A_k)
        for k, (b, A_k) in enumerate(zip(keep.exponents, message.A, strict=True))
    )
