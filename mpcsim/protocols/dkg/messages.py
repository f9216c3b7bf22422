"""Messages of key generation and resharing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from mpcsim.crypto.encoding import BYTES32, POINT, SCALAR, Message, Nested, Optional, Seq, wire
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.schnorr import Proof
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.echo import ECHO


@wire
class Commit(Message):
    """Round 1, broadcast: bind to everything that round 2 reveals."""

    context: Annotated[bytes, BYTES32]
    """Digest of what the sender takes the session to be about."""
    nonce: Annotated[bytes, BYTES32]
    """The sender's part in making the transcript fresh."""
    commitment: Annotated[bytes, BYTES32]
    """V_i = H(session, i, u_i, nonce, c_i, C_i, E_i)."""


@wire
class Reveal(Message):
    """Round 2, broadcast: open the commitment."""

    echo: Annotated[Mapping[PartyId, bytes], ECHO]
    """Digests of the Commit broadcasts."""
    coefficients: Annotated[tuple[Point, ...], Seq(POINT)]
    """C_{i,k} = a_{i,k} * G, constant term first; empty if the sender deals nothing."""
    proof: Annotated[Proof | None, Optional(Nested(Proof))]
    """Knowledge of a_{i,0}."""
    chain_code: Annotated[bytes | None, Optional(BYTES32)]
    """c_i: the sender's part in the key's chain code; None if none is made."""
    channel_key: Annotated[bytes, BYTES32]
    """E_i: X25519 public key."""
    blinding: Annotated[bytes, BYTES32]
    """u_i."""


@wire
class MultiplicationOffer(Message):
    """Round 2, direct: first message of the multiplication set-up."""

    offer: Annotated[Message, Nested(lambda context: context.mta.SetupOffer)]


@wire
class Deal(Message):
    """Round 3, direct and sealed: the receiver's share, and the second set-up message."""

    share: Annotated[Scalar | None, Optional(SCALAR)]
    """f_i(j); None if the sender deals nothing."""
    offer_seen: Annotated[bytes | None, Optional(BYTES32)]
    """Digest of the receiver's multiplication offer as it arrived."""
    reply: Annotated[Message | None, Optional(Nested(lambda context: context.mta.SetupReply))]


@wire
class Confirm(Message):
    """Round 4 of a resharing, broadcast: the sender holds a new share of this key record."""

    digest: Annotated[bytes, BYTES32]
