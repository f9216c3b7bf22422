"""A multiplication scheme from outside the package: products in the clear.

NO SECRECY: each party tells the other what it multiplies with, so both know the whole key after one
signature. What it is good for: as a template of ``Mta``, and as a baseline, since what a signature
costs beyond this one is what its multiplications cost.

The receiver sends chi, the sender answers with d_i = a_i * chi - c_i for random c_i. There is no
set-up, but its three messages have to exist, and here they are empty.
"""

from typing import Annotated

from mpcsim.crypto import SCALAR, Message, Rng, wire
from mpcsim.crypto.groups import SECP256K1, Scalar
from mpcsim.crypto.mta import Mta


@wire
class Nothing(Message):
    """There is no set-up."""


@wire
class Chi(Message):
    """What the receiver multiplies with."""

    chi: Annotated[Scalar, SCALAR]


@wire
class Shares(Message):
    """The receiver's shares of both products."""

    d_1: Annotated[Scalar, SCALAR]
    d_2: Annotated[Scalar, SCALAR]


class OpenMta(Mta):
    """Products in the clear."""

    identifier = "open"
    SetupOffer = SetupReply = PairSetup = Nothing
    Offer, Reply = Chi, Shares

    def setup_start(self, sid: bytes, me: int, peer: int, rng: Rng) -> tuple[None, Message]:
        return None, Nothing()

    def setup_answer(
        self, sid: bytes, me: int, peer: int, offer: Message, rng: Rng
    ) -> tuple[None, Message]:
        return None, Nothing()

    def setup_finish(
        self, sid: bytes, me: int, peer: int, started: None, answered: None, reply: Message
    ) -> Message:
        return Nothing()

    def receiver_start(self, setup: Message, sid: bytes, rng: Rng) -> tuple[None, Scalar, Message]:
        chi = SECP256K1.random_scalar(rng)
        return None, chi, Chi(chi)

    def sender(
        self, setup: Message, sid: bytes, offer: Chi, inputs: tuple[Scalar, ...], rng: Rng
    ) -> tuple[tuple[Scalar, ...], Message]:
        c = tuple(SECP256K1.random_scalar(rng) for _ in inputs)
        return c, Shares(*(a * offer.chi - c_i for a, c_i in zip(inputs, c, strict=True)))

    def receiver_finish(self, kept: None, reply: Shares) -> tuple[Scalar, ...]:
        return reply.d_1, reply.d_2
