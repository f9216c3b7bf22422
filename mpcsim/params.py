"""Security parameters, named once, overridable for experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mpcsim.errors import UsageError

KAPPA: Final = 256
"""Bits of the group order of secp256k1."""

LAMBDA_C: Final = 128
"""Computational security in bits: base OTs a direction, width of an OT-extension block."""


OT_EXTENSION_KS: Final = (1, 2, 4)
"""Bits of Delta that an all-but-one OT can be of; ``LAMBDA_C`` is a multiple of each."""


@dataclass(frozen=True)
class OtParameters:
    """Parameters of OT-based multiplication (DKLs23, section 5)."""

    lambda_s: int = 80
    """Statistical security in bits."""
    k: int = 1
    """Bits of Delta an all-but-one OT (SoftSpoken): divides the bytes of an offer, and multiplies
    what is hashed in a signature (``primitives.ot_extension``)."""

    def __post_init__(self) -> None:
        if self.lambda_s % 4 or not 40 <= self.lambda_s <= 256:
            raise UsageError(f"lambda_s = {self.lambda_s}; a multiple of 4 from 40 to 256")
        if self.k not in OT_EXTENSION_KS:
            raise UsageError(f"k = {self.k}; 1, 2 or 4")

    @property
    def identifier(self) -> str:
        """``ot/80``, or ``ot/80/4`` where k is not 1."""
        return f"ot/{self.lambda_s}" + (f"/{self.k}" if self.k > 1 else "")

    @property
    def xi(self) -> int:
        """Multiplication OTs: kappa + 2 * lambda_s."""
        return KAPPA + 2 * self.lambda_s


STANDARD = OtParameters()
"""xi = 416."""

LIKE_SILENCE = OtParameters(lambda_s=128)
"""xi = 512: the statistical security some libraries use; for like-for-like comparison."""
