"""The multiplication schemes, by identifier."""

from __future__ import annotations

from functools import cache

from mpcsim.errors import UsageError
from mpcsim.mta.base import Mta
from mpcsim.mta.ot import OtMta
from mpcsim.params import LIKE_SILENCE, STANDARD, OtParameters

OT_PARAMETERS = {parameters.lambda_s: parameters for parameters in (STANDARD, LIKE_SILENCE)}


@cache
def mta_scheme(identifier: str) -> Mta:
    """The scheme of that identifier, for example ``ot/80`` (OT-based, lambda_s = 80).

    Raises:
        UsageError: unknown identifier.
    """
    family, _, parameter = identifier.partition("/")
    if family == "ot" and parameter.isdecimal():
        lambda_s = int(parameter)
        if lambda_s % 4 == 0 and 40 <= lambda_s <= 256 and parameter == str(lambda_s):
            return OtMta(OT_PARAMETERS.get(lambda_s, OtParameters(lambda_s)))
    raise UsageError(f"unknown multiplication scheme {identifier!r}; try 'ot/80'")
