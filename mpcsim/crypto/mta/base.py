"""The interface between signing and multiplication.

Ideal functionality (random vector OLE, DKLs23 Functionality 3.5): the receiver gets a random
scalar chi; the sender puts in a vector a; they end with additive shares of the products,
c_i + d_i = a_i * chi. The receiver learns nothing of a, the sender nothing of chi.

A scheme has a pairwise set-up, run once at key generation (an offer from each side, a reply to
each offer), and two messages a multiplication. Signing is written against this interface alone, so
a Paillier-based scheme can take the place of the OT-based one: ``Mta`` says what it must provide,
``mpcsim.crypto.mta.schemes.register_scheme`` makes it known.

What the caller must provide: a session id that is never used twice by an honest party, distinct
for the two directions of a pair; and that a set-up once begun is finished once at most, with one
reply: each further try, after a restart or a failure, would tell the peer more of what was begun.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng

WIDTH = 2
"""Length of the sender's input vector in ECDSA: the nonce share and the key share."""


class Mta(ABC):
    """A multiplication scheme with its parameters.

    A scheme of your own must provide:

    - *A name*, ``identifier``. Shares store it in place of the scheme, and parties compare it
      before they begin: other parameters, another name.
    - *Five classes of messages*, ``@wire`` as all messages are. The wire context that they are
      encoded with holds the scheme (``context.mta``), so that sizes may depend on its parameters.
      ``PairSetup`` is stored with the share: what is in it is all that is left of the set-up, and
      its repr must show none of it.
    - *Six steps*, below. Whatever they remember goes into what they return: one object serves all
      keys, parties and sessions of the process, in any order. All randomness comes from ``rng``: a
      party that resumes from its snapshot takes the same steps again.
    - *Blame*. A bad message from the peer raises ``CheckFailed`` (``mpcsim.errors.check``), with a
      reason whose consequence fits: after a failure that tells the peer something of the set-up,
      the set-up must not be used again (``OT_EXTENSION_CHECK``; signing then discards it, whichever
      of the steps of a multiplication has raised it).
    - *The functionality* of the module's text. Signing checks that the products fit the published
      points, but whoever learns the other's input on the way has half of a key.
    """

    identifier: str
    """Name of scheme and parameters: 1 to 32 printable ASCII characters without spaces."""
    SetupOffer: type[Message]
    SetupReply: type[Message]
    PairSetup: type[Message]
    """Long-lived state for one peer, both directions; secret, part of the key share."""
    Offer: type[Message]
    """Message from the receiver of a multiplication."""
    Reply: type[Message]
    """Message from its sender."""

    @abstractmethod
    def setup_start(self, sid: bytes, me: int, peer: int, rng: Rng) -> tuple[Any, Message]:
        """Begin the set-up with one peer: (state to keep, offer)."""

    @abstractmethod
    def setup_answer(
        self, sid: bytes, me: int, peer: int, offer: Message, rng: Rng
    ) -> tuple[Any, Message]:
        """Answer the peer's offer: (state to keep, reply).

        Raises:
            CheckFailed: the offer is bad.
        """

    @abstractmethod
    def setup_finish(
        self, sid: bytes, me: int, peer: int, started: Any, answered: Any, reply: Message
    ) -> Message:
        """Take the peer's reply to our offer and put the long-lived state together. Once.

        Raises:
            CheckFailed: the reply is bad.
        """

    @abstractmethod
    def receiver_start(self, setup: Message, sid: bytes, rng: Rng) -> tuple[Any, Scalar, Message]:
        """Receiver: (state to keep, chi, offer). chi is random, and the receiver's alone."""

    @abstractmethod
    def sender(
        self, setup: Message, sid: bytes, offer: Message, inputs: tuple[Scalar, ...], rng: Rng
    ) -> tuple[tuple[Scalar, ...], Message]:
        """Sender: (shares c, reply).

        Args:
            inputs: ``WIDTH`` scalars a_1..a_l; as many shares come out, c_i + d_i = a_i * chi.

        Raises:
            CheckFailed: the offer is bad.
        """

    @abstractmethod
    def receiver_finish(self, kept: Any, reply: Message) -> tuple[Scalar, ...]:
        """Receiver: shares d.

        Raises:
            CheckFailed: the reply is bad.
        """


def direction_sid(sid: bytes, sender: int, receiver: int) -> bytes:
    """Return the session id of one direction of one pair."""
    return tagged_hash(Tag.MTA_SESSION, sid, u32(sender), u32(receiver))
