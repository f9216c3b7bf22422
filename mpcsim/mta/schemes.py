"""The multiplication schemes, by identifier."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.mta.base import Mta
from mpcsim.mta.ot import OtMta
from mpcsim.params import OtParameters

_OT: Final = re.compile("ot/(0|[1-9][0-9]{0,2})(?:/([2-9]))?")


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
