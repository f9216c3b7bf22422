"""The multiplication schemes, by identifier."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from mpcsim.algebra.secp256k1 import SECP256K1
from mpcsim.errors import UsageError
from mpcsim.mta.base import Mta
from mpcsim.mta.ot import OtMta
from mpcsim.params import OtParameters

_OT: Final = re.compile("ot/(0|[1-9][0-9]{0,2})(?:/([2-9]))?")


def standard_scheme(curve_name: str, k: int) -> str | None:
    """The scheme of standard parameters with that k; None on a curve that needs none.

    Raises:
        UsageError: k is out of range.
    """
    identifier = OtParameters(k=k).identifier
    return identifier if curve_name == SECP256K1.name else None


@cache
def mta_scheme(identifier: str) -> Mta:
    """The scheme of that identifier: for example ``ot/80`` (OT-based, lambda_s = 80), or
    ``ot/80/4`` (and k = 4 in its OT extension; 1 where nothing is said).

    Raises:
        UsageError: unknown identifier or parameter out of range.
    """
    if found := _OT.fullmatch(identifier):
        return OtMta(OtParameters(int(found[1]), int(found[2] or 1)))
    raise UsageError(f"unknown multiplication scheme {identifier!r}; try 'ot/80' or 'ot/80/4'")
