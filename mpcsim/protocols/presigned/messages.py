"""Messages of signing with a presignature."""

from __future__ import annotations

from typing import Annotated

from mpcsim.crypto.encoding import BYTES32, SCALAR, Message, wire
from mpcsim.crypto.groups.group import Scalar


@wire
class Open(Message):
    """Round 1, between the signers that answer (with two signers there is one, and no message)."""

    context: Annotated[bytes, BYTES32]
    """Digest of what the sender takes the session to be about."""
    rho_i: Annotated[bytes, BYTES32]
    """The sender's part in re-randomising the nonce."""
    blinding: Annotated[bytes, BYTES32]
    """Opens the commitment to rho_i."""


@wire
class Answer(Message):
    """Round 2, to the signer that finishes: numerator and denominator of s."""

    context: Annotated[bytes, BYTES32]
    """Digest of what the sender takes the session to be about."""
    w_i: Annotated[Scalar, SCALAR]
    u_i: Annotated[Scalar, SCALAR]
    rho_i: Annotated[bytes, BYTES32]
    """The sender's part in re-randomising the nonce."""
    blinding: Annotated[bytes, BYTES32]
    """Opens the commitment to rho_i."""
