"""Multiplicative-to-additive conversion: the seam between signing and its heavy machinery."""

from mpcsim.crypto.mta import ot
from mpcsim.crypto.mta.base import Mta, direction_sid
from mpcsim.crypto.mta.ot import OtMta
from mpcsim.crypto.mta.schemes import register_scheme

__all__ = [
    "Mta",
    "OtMta",
    "direction_sid",
    "ot",
    "register_scheme",
]
