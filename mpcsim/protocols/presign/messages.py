"""Messages of presigning: those of signing (``ecdsa``), with one item for each presignature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from mpcsim.crypto.encoding import BYTES32, POINT, Message, Nested, Seq, wire
from mpcsim.crypto.groups.group import Point
from mpcsim.ids import PartyId
from mpcsim.protocols.ecdsa import messages as ecdsa
from mpcsim.protocols.engine.echo import ECHO

MAX_COUNT = 64
"""Limit of presignatures in one session."""


@wire
class Commit(Message):
    """Round 1, broadcast: bind to the nonce shares, and to the values that re-randomise them
    later."""

    context: Annotated[bytes, BYTES32]
    """Digest of what the sender takes the session to be about."""
    nonce: Annotated[bytes, BYTES32]
    """The sender's part in making the transcript fresh."""
    commitments: Annotated[tuple[bytes, ...], Seq(BYTES32, MAX_COUNT)]
    """Commitments to R_i."""
    later: Annotated[tuple[bytes, ...], Seq(BYTES32, MAX_COUNT)]
    """Commitments to rho_i."""


@wire
class Offer(Message):
    """Round 2, direct: as multiplication receiver, offer a random chi_{i,j} for each."""

    echo: Annotated[Mapping[PartyId, bytes], ECHO]
    """Digests of the Commit broadcasts."""
    public_key: Annotated[Point, POINT]
    """Public key that the sender takes the presignatures to be for."""
    offers: Annotated[
        tuple[Message, ...], Seq(Nested(lambda context: context.mta.Offer), MAX_COUNT)
    ]


@wire
class Respond(Message):
    """Round 3, direct: as multiplication sender, answer; open the nonce shares."""

    responses: Annotated[tuple[ecdsa.Respond, ...], Seq(Nested(ecdsa.Respond), MAX_COUNT)]
