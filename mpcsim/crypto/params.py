"""Security parameters, named once, overridable for experiments.

What they give, with the standard ones, in one direction of one multiplication:

* Discrete logarithms on secp256k1, and by them base OTs and signatures: about 2^128 operations in
  the group, the square root of its order.
* The check of OT extension compares hashes of ``MASK_BITS`` = 128 bits, by a linear map that
  follows from the receiver's message (Fiat-Shamir, DKLs23, section 5.1), so that a corrupt receiver
  may try messages offline. A query of the hash finds two equal hashes among 128 different rows with
  probability 128 * 127 / 2 / 2^128 = 2^-115. That alone passes no check: the receiver has to guess
  a bit of Delta for each row that is equal to neither. With r different rows it gets through with
  (r - 1) * 2^-(r - 2) * 2^-128 a query, 2^-128 at most, up to terms that do not count. So an
  undetected bit of Delta costs some 2^127 queries, of 8.7 kB each. Roy (eprint 2022/192, section 4)
  has 2 * 2^-m for m bits and maps of this shape. With k above 1 the rows are 128 / k, and a guess
  costs k bits.
* The hash that breaks the correlation, TMMO over AES-256 as an ideal cipher: the bound of Guo et
  al. (eprint 2019/074, section 7.4) has the product of cipher queries and of blocks hashed under
  one key, over 2^128. A key is of one session, and hashes xi * 6 = 2496 = 2^11.3 blocks: 2^117
  queries. No attack is known that gets there; guessing Delta takes 2^128.
* ``lambda_s`` = 80: chance 2^-80 of a bad multiplication, or of a chi that is not uniform (DKLs23,
  section 5), for each that is run. Neither can be tried offline.
"""

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
    what is hashed in a signature (``mpcsim.crypto.ot.extension``)."""

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
