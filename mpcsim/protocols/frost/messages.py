"""Messages of FROST signing."""

from __future__ import annotations

from typing import Annotated

from mpcsim.crypto.encoding import BYTES32, POINT, SCALAR, Message, wire
from mpcsim.crypto.groups.group import Point, Scalar


@wire
class Commitments(Message):
    """Round 1, broadcast: commitments to the sender's nonces."""

    context: Annotated[bytes, BYTES32]
    """Digest of what the sender takes the session to be about."""
    hiding: Annotated[Point, POINT]
    """D_i = d_i * G."""
    binding: Annotated[Point, POINT]
    """E_i = e_i * G."""


@wire
class SignatureShare(Message):
    """Round 2, broadcast: the sender's part of the signature."""

    seen: Annotated[bytes, BYTES32]
    """Digest of the key, the message and the commitment list that the sender signed over."""
    share: Annotated[Scalar, SCALAR]
    """z_i."""
