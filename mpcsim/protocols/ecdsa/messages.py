"""Messages of threshold ECDSA signing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from mpcsim.crypto.encoding import BYTES32, POINT, SCALAR, Message, Nested, wire
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.echo import ECHO


@wire
class Commit(Message):
    """Round 1, broadcast: bind to the nonce share."""

    context: Annotated[bytes, BYTES32]
    """Digest of what the sender takes the session to be about."""
    nonce: Annotated[bytes, BYTES32]
    """The sender's part in making the transcript fresh."""
    commitment: Annotated[bytes, BYTES32]
    """Commitment to R_i."""


@wire
class Offer(Message):
    """Round 2, direct: as multiplication receiver, offer a random chi_{i,j}."""

    echo: Annotated[Mapping[PartyId, bytes], ECHO]
    """Digests of the Commit broadcasts."""
    public_key: Annotated[Point, POINT]
    """Public key to sign with, which the sender has derived for itself."""
    offer: Annotated[Message, Nested(lambda context: context.mta.Offer)]


@wire
class Respond(Message):
    """Round 3, direct: as multiplication sender, answer; open the nonce share."""

    reply: Annotated[Message, Nested(lambda context: context.mta.Reply)]
    R_i: Annotated[Point, POINT]
    """Nonce share r_i * G."""
    blinding: Annotated[bytes, BYTES32]
    """Opens the commitment to R_i."""
    pk_i: Annotated[Point, POINT]
    """Key share of this session, sk_i * G."""
    Gamma_u: Annotated[Point, POINT]
    """c^u_{i,j} * G: ties r_i to what was multiplied."""
    Gamma_v: Annotated[Point, POINT]
    """c^v_{i,j} * G: ties sk_i to what was multiplied."""
    psi: Annotated[Scalar, SCALAR]
    """psi_{i,j} = phi_i - chi_{i,j}."""


@wire
class SignatureShare(Message):
    """Round 4, broadcast: numerator and denominator of s."""

    w_i: Annotated[Scalar, SCALAR]
    u_i: Annotated[Scalar, SCALAR]
