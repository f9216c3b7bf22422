"""The multiplication schemes, by identifier."""

from __future__ import annotations

from functools import cache

from mpcsim.errors import UsageError
from mpcsim.mta.base import Mta
from mpcsim.mta.ot import OtMta
from mpcsim.params import OtParameters


@cache
def mta_scheme(identifier: str) -> Mta:
    """The scheme of that identifier, for example ``ot/80`` (OT-based, lambda_s = 80).

    Raises:
        UsageError: unknown identifier or parameter out of range.
    """
    family, _, parameter = identifier.partition("/")
    if family == "ot" and parameter in map(str, range(1000)):
        return OtMta(OtParameters(int(parameter)))
    raise UsageError(f"unknown multiplication scheme {identifier!r}; try 'ot/80'")
