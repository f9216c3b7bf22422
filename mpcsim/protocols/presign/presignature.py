"""Presignature: a signer's part of a signature whose message is still to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, cast
from weakref import WeakValueDictionary

from mpcsim.crypto.encoding import (
    BYTES32,
    POINT,
    SCALAR,
    STORED_VERSION,
    U16,
    Message,
    PerParty,
    Seq,
    WireContext,
    wire,
)
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.secp256k1 import SECP256K1, Secp256k1Point
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.frozen_dict import freeze_fields
from mpcsim.ids import PartyId

REMEMBERED = 1 << 16
"""Limit of used presignatures that a process remembers; the oldest goes first; 400 bytes each."""

_WIRE = WireContext(SECP256K1)


class Use:
    """Mark of a presignature: whether it has been used.

    Presignatures that come from storage or from presigning have one of these for each id and holder
    in this process (``of``), however often they are loaded. It is meant for one thread.
    """

    _known: ClassVar[WeakValueDictionary[tuple[bytes, int], Use]] = WeakValueDictionary()
    _spent: ClassVar[dict[tuple[bytes, int], Use]] = {}
    """Marks of the last presignatures used, which outlive these."""

    def __init__(self, name: tuple[bytes, int] | None = None) -> None:
        """
        Args:
            name: id and holder; None: of a presignature that nobody will load again.
        """
        self.spent = False
        self._name = name

    @classmethod
    def of(cls, identifier: bytes, holder: int) -> Use:
        """Return the mark of the holder's part of the presignature with that id."""
        name = identifier, holder
        found = cls._known.get(name)
        if found is None:
            found = cls._known[name] = cls(name)
        return found

    def spend(self) -> None:
        """Mark it as used, whatever becomes of the signature."""
        self.spent = True
        if self._name is not None:
            self._spent[self._name] = self
            if len(self._spent) > REMEMBERED:
                del self._spent[next(iter(self._spent))]


@wire
class _Body(Message):
    id: Annotated[bytes, BYTES32]
    holder: Annotated[int, U16]
    epoch: Annotated[bytes, BYTES32]
    signers: Annotated[tuple[PartyId, ...], Seq(U16)]
    name: Annotated[bytes, BYTES32]
    R: Annotated[Point, POINT]
    phi_i: Annotated[Scalar, SCALAR]
    u_i: Annotated[Scalar, SCALAR]
    v_i: Annotated[Scalar, SCALAR]
    rho_i: Annotated[bytes, BYTES32]
    blinding: Annotated[bytes, BYTES32]
    commitments: Annotated[Mapping[PartyId, bytes], PerParty(BYTES32)]


@dataclass(frozen=True)
class Presignature:
    """A signer's part of a presignature. The repr shows public data only.

    Good for one signature: with two, on any messages, the other signer has the key. Its store must
    see to it that what was used, or may have been, is not there any more when the
    process, its machine or its backup comes back (``mpcsim.protocols.presigned``).
    """

    id: bytes
    """32 bytes; the same for all its signers, and of no other presignature."""
    holder: PartyId
    epoch: bytes
    """Epoch of the shares that it was made with."""
    signers: tuple[PartyId, ...]
    """Signers; all of them are needed."""
    name: bytes
    """Name that rho_i is committed to under; 32 bytes, the same for all signers."""
    R: Secp256k1Point
    """Nonce point before re-randomisation."""
    phi_i: Scalar = field(repr=False)
    u_i: Scalar = field(repr=False)
    v_i: Scalar = field(repr=False)
    rho_i: bytes = field(repr=False)
    """This signer's part in re-randomising R; 32 bytes, opened in its answer."""
    blinding: bytes = field(repr=False)
    """Opening of the commitment to rho_i."""
    commitments: Mapping[PartyId, bytes] = field(repr=False)
    """Commitments to the other signers' rho_j."""
    use: Use = field(default_factory=Use, repr=False, compare=False)

    def __post_init__(self) -> None:
        freeze_fields(self, "commitments")

    def to_bytes(self) -> bytes:
        """Encode it, self-contained. Secret: encrypt it before it leaves the process."""
        values = {name: getattr(self, name) for name, _ in _Body.CODECS}
        return bytes([STORED_VERSION]) + _Body(**values).encode(_WIRE)

    @classmethod
    def from_bytes(cls, data: bytes) -> Presignature:
        """Decode it, strictly.

        Raises:
            InvalidEncoding: damaged, another version, or inconsistent in itself.
        """
        if data[:1] != bytes([STORED_VERSION]):
            raise InvalidEncoding("not a presignature of this version")
        body = _Body.decode(data[1:], _WIRE)
        signers = body.signers
        if list(signers) != sorted({*body.commitments, PartyId(body.holder)}):
            raise InvalidEncoding("signers, holder and commitments do not fit")
        return cls(
            id=body.id,
            holder=PartyId(body.holder),
            epoch=body.epoch,
            signers=signers,
            name=body.name,
            R=cast(Secp256k1Point, body.R),
            phi_i=body.phi_i,
            u_i=body.u_i,
            v_i=body.v_i,
            rho_i=body.rho_i,
            blinding=body.blinding,
            commitments=body.commitments,
            use=Use.of(body.id, body.holder),
        )

    def check_unused(self) -> None:
        """
        Raises:
            UsageError: it has been used.
        """
        if self.use.spent:
            raise UsageError(
                "this presignature has been used: a second signature with it gives the key away"
            )
