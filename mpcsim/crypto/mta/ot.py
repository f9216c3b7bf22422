"""Multiplication from oblivious transfer (DKLs23, Protocol 5.2) on secp256k1.

The receiver's chi is the inner product of its OT choice bits beta with a public random gadget
vector g. For each OT j and each input a_i the sender offers a correction that turns the pads into
shares of beta_j * a_i; weighting them by g and adding up gives shares of chi * a_i. A third, random
input a^ is multiplied along and spent on a check that the corrections are consistent over all j.

Security: one bad correction passes the check iff its beta_j is zero, which leaks that one bit of
this session's beta. beta has 2*lambda_s bits more than chi needs, so chi stays uniform.

Parameters: l = 2 inputs, rho = 1 check column, xi = kappa + 2*lambda_s OTs, extended with k bits of
Delta an all-but-one OT (``ot_extension``). One column is enough, as theta is drawn from all of Z_q:
inputs that differ between two OTs look the same with probability 1/q, so that any two do with
xi^2/2 / q = 2^-239 for each query of the oracle that theta comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, cast

from mpcsim.crypto import kernels
from mpcsim.crypto.encoding import (
    BYTES32,
    SCALAR,
    Fixed,
    Message,
    Nested,
    ScalarRows,
    Sized,
    WireContext,
    wire,
)
from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash, tagged_xof
from mpcsim.crypto.kernels import Kernel, ScalarVector
from mpcsim.crypto.mta.base import WIDTH, Mta, direction_sid
from mpcsim.crypto.ot import all_but_one as ot_all_but_one
from mpcsim.crypto.ot import base as ot_base
from mpcsim.crypto.ot import extension as ot_extension
from mpcsim.crypto.ot.all_but_one import BLOCK_BYTES, AllButOneMessage, trees
from mpcsim.crypto.ot.extension import MASK_BITS, ReceiverSetup, SenderSetup
from mpcsim.crypto.params import LAMBDA_C, STANDARD, OtParameters
from mpcsim.crypto.rng import Rng
from mpcsim.errors import Reason, check

COLUMNS = WIDTH + 1
"""l + rho."""
PAD_BLOCKS = COLUMNS * 32 // BLOCK_BYTES


def _all_but_one(context: WireContext) -> int:
    """Bytes of all leaves of all trees, but one of each."""
    k: int = context.mta.parameters.k
    return trees(k) * ((1 << k) - 1) * BLOCK_BYTES


def _one(context: WireContext) -> int:
    """Bytes of one leaf of each tree."""
    k: int = context.mta.parameters.k
    return trees(k) * BLOCK_BYTES


@wire
class OtPairSetup(Message):
    """OT state shared with one peer, both directions; 6160, 7184 or 15888 bytes for k = 1, 2, 4.

    As multiplication sender, the state of the extension's sender, and so with the receiver.
    """

    delta: Annotated[bytes, Fixed(BLOCK_BYTES)]
    punctured: Annotated[bytes, Sized(_all_but_one)]
    rest: Annotated[bytes, Sized(_all_but_one)]
    zeroth: Annotated[bytes, Sized(_one)]

    def __repr__(self) -> str:
        return "OtPairSetup(<redacted>)"


@wire
class OtSetupReply(Message):
    """The second message of the set-up."""

    base: Annotated[ot_base.SenderMessage, Nested(ot_base.SenderMessage)]
    all_but_one: Annotated[AllButOneMessage, Nested(AllButOneMessage)]


@wire
class OtReply(Message):
    """Message of the multiplication sender."""

    a: Annotated[tuple[ScalarVector, ...], ScalarRows(lambda c: c.mta.parameters.xi, COLUMNS)]
    """a~: one column an input and the check column, xi rows."""
    eta: Annotated[Scalar, SCALAR]
    mu: Annotated[bytes, BYTES32]


@dataclass(frozen=True)
class ReceiverKeep:
    """The receiver's secrets between its two steps."""

    sid: bytes
    g: ScalarVector
    beta: bytes = field(repr=False)
    pads: bytes = field(repr=False)


def gadget(kernel: Kernel, sid: bytes, xi: int) -> ScalarVector:
    """g: xi public scalars, uniform, fresh for every session.

    The receiver draws beta only after the session's nonces, hence g, are fixed.
    """
    return kernel.uniform(tagged_xof(Tag.MTA_GADGET, 32 * xi, sid), ORDER)


def challenge(sid: bytes, a: bytes) -> list[int]:
    """theta = H(sid, a~): one weight an input, by Fiat-Shamir."""
    digest = tagged_hash(Tag.MTA_CORRECTIONS, sid, a)
    return [
        SECP256K1.hash_to_scalar(Tag.MTA_THETA, sid, digest, bytes([i])).n for i in range(WIDTH)
    ]


def send(
    kernel: Kernel,
    sid: bytes,
    pads: tuple[bytes, bytes],
    inputs: Sequence[Scalar],
    a_hat: Scalar,
) -> tuple[tuple[Scalar, ...], OtReply]:
    """Sender: corrections, check values and its shares.

    Args:
        pads: both OT pads, each xi rows of COLUMNS scalars.
        inputs: a_1..a_l.
        a_hat: the random check input.

    Spec: DKLs23 | Protocol 5.2 | sender: a~, theta, eta, mu, c
    """
    q = ORDER
    alpha0 = kernel.split(pads[0], COLUMNS, q)
    alpha1 = kernel.split(pads[1], COLUMNS, q)
    # a~_{j,i} = alpha0_{j,i} - alpha1_{j,i} + a_i, the last column with a^
    a = tuple(
        kernel.difference_plus(zero, one, a_i.n)
        for zero, one, a_i in zip(alpha0, alpha1, (*inputs, a_hat), strict=True)
    )
    # theta = H(sid, a~);  eta = a^ + sum_i theta_i a_i
    theta = challenge(sid, kernel.join(a))
    eta = sum((SECP256K1.scalar(t) * a_i for t, a_i in zip(theta, inputs, strict=True)), a_hat)
    # mu = H( alpha0_{j,hat} + sum_i theta_i alpha0_{j,i}  over all j )
    checked = kernel.combine((*theta, 1), alpha0)
    mu = tagged_hash(Tag.MTA_MU, sid, checked.encode())
    # c_i = - sum_j g_j alpha0_{j,i}
    g = gadget(kernel, sid, len(pads[0]) // (32 * COLUMNS))
    c = tuple(SECP256K1.scalar(-kernel.dot(g, alpha0[i])) for i in range(WIDTH))
    return c, OtReply(a, eta, mu)


def receive(kernel: Kernel, keep: ReceiverKeep, reply: OtReply) -> tuple[Scalar, ...]:
    """Receiver: check the corrections and compute its shares.

    Raises:
        CheckFailed: the corrections are inconsistent (MULTIPLICATION_CHECK).

    Spec: DKLs23 | Protocol 5.2 | receiver: d., check of mu, d
    """
    gamma = kernel.split(keep.pads, COLUMNS, ORDER)
    # d._{j,i} = gamma_{j,i} + beta_j a~_{j,i}
    d = [
        kernel.masked_add(gamma_i, keep.beta, a_i)
        for gamma_i, a_i in zip(gamma, reply.a, strict=True)
    ]
    # H( d._{j,hat} + sum_i theta_i d._{j,i} - beta_j eta  over all j ) = mu
    theta = challenge(keep.sid, kernel.join(reply.a))
    checked = kernel.combine((*theta, 1), d, minus_masked=(keep.beta, reply.eta.n))
    mu = tagged_hash(Tag.MTA_MU, keep.sid, checked.encode())
    check(mu == reply.mu, Reason.MULTIPLICATION_CHECK)
    # d_i = sum_j g_j d._{j,i}
    return tuple(SECP256K1.scalar(kernel.dot(keep.g, d[i])) for i in range(WIDTH))


class OtMta(Mta):
    """The OT-based scheme."""

    SetupOffer = ot_base.ReceiverMessage
    SetupReply = OtSetupReply
    PairSetup = OtPairSetup
    Offer = ot_extension.ExtensionMessage
    Reply = OtReply

    def __init__(self, parameters: OtParameters = STANDARD, kernel: Kernel | None = None) -> None:
        self.parameters = parameters
        if kernel is not None:
            self.kernel = kernel
        self.identifier = parameters.identifier

    @cached_property
    def kernel(self) -> Kernel:
        """Kernel to compute with: the default one, unless another was given."""
        return kernels.DEFAULT

    def __eq__(self, other: object) -> bool:
        if type(self) is not OtMta or type(other) is not OtMta:
            return self is other
        return (self.parameters, self.kernel) == (other.parameters, other.kernel)

    def __hash__(self) -> int:
        return hash(self.identifier)

    def __getstate__(self) -> dict[str, Any]:
        # Kernels are modules, which do not pickle, and stay one and the same in a deep copy.
        if (kernel := vars(self).get("kernel")) is None:
            return vars(self)
        return vars(self) | {
            "kernel": kernel.__name__ if isinstance(kernel, ModuleType) else kernel
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if isinstance(kernel := state.get("kernel"), str):
            self.kernel = cast(Kernel, import_module(kernel))

    def setup_start(
        self, sid: bytes, me: int, peer: int, rng: Rng
    ) -> tuple[ot_base.ReceiverKeep, Message]:
        delta = rng.bytes(LAMBDA_C // 8)
        return ot_base.receiver_start(direction_sid(sid, me, peer), delta, rng)

    def setup_answer(
        self, sid: bytes, me: int, peer: int, offer: Message, rng: Rng
    ) -> tuple[ReceiverSetup, Message]:
        at = direction_sid(sid, peer, me)
        keys, base = ot_base.sender_answer(at, cast(ot_base.ReceiverMessage, offer), rng)
        leaves, all_but_one = ot_all_but_one.sender(at, keys, self.parameters.k)
        return ReceiverSetup.of(leaves), OtSetupReply(base, all_but_one)

    def setup_finish(
        self,
        sid: bytes,
        me: int,
        peer: int,
        started: ot_base.ReceiverKeep,
        answered: ReceiverSetup,
        reply: Message,
    ) -> OtPairSetup:
        reply, at, delta = cast(OtSetupReply, reply), direction_sid(sid, me, peer), started.choices
        chosen = ot_base.receiver_finish(at, started, reply.base)
        k = self.parameters.k
        leaves = ot_all_but_one.receiver(at, delta, chosen, reply.all_but_one, k)
        sending = SenderSetup.of(delta, leaves)
        return OtPairSetup(delta, sending.punctured, answered.rest, answered.zeroth)

    def receiver_start(
        self, setup: Message, sid: bytes, rng: Rng
    ) -> tuple[ReceiverKeep, Scalar, Message]:
        setup = cast(OtPairSetup, setup)
        beta = rng.bytes(self.parameters.xi // 8)
        pads, message = ot_extension.receiver(
            self.kernel,
            ReceiverSetup(self.parameters.k, setup.rest, setup.zeroth),
            sid,
            beta,
            rng.bytes(MASK_BITS // 8),
            PAD_BLOCKS,
        )
        # chi = sum_j beta_j g_j
        g = gadget(self.kernel, sid, self.parameters.xi)
        chi = SECP256K1.scalar(self.kernel.subset_sum(beta, g))
        return ReceiverKeep(sid, g, beta, pads), chi, message

    def sender(
        self, setup: Message, sid: bytes, offer: Message, inputs: tuple[Scalar, ...], rng: Rng
    ) -> tuple[tuple[Scalar, ...], Message]:
        setup = cast(OtPairSetup, setup)
        pads = ot_extension.sender(
            self.kernel,
            SenderSetup(self.parameters.k, setup.delta, setup.punctured),
            sid,
            cast(ot_extension.ExtensionMessage, offer),
            self.parameters.xi,
            PAD_BLOCKS,
        )
        return send(self.kernel, sid, pads, inputs, SECP256K1.random_scalar(rng))

    def receiver_finish(self, kept: ReceiverKeep, reply: Message) -> tuple[Scalar, ...]:
        return receive(self.kernel, kept, cast(OtReply, reply))
