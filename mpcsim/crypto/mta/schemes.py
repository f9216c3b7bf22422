"""The multiplication schemes, by name: the package's own, and those that somebody registered.

Shares, set-ups and snapshots hold the name of their scheme, not the scheme. So one of your own has
to be registered in every process that makes or reads such shares, before it does::

    register_scheme(Mine())
    Simulation().generate(scheme=MINE)

``Mta`` says what it must provide. The service knows none but the package's own.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, TypeVar

from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.mta.base import Mta
from mpcsim.crypto.mta.ot import OtMta
from mpcsim.crypto.params import OtParameters
from mpcsim.errors import UsageError

M = TypeVar("M", bound=Mta)

_OT: Final = re.compile("ot/(0|[1-9][0-9]{0,2})(?:/([2-9]))?")
_NAME: Final = re.compile(r"[!-~]{1,32}")
_RESERVED: Final = "ot/"
_MEMBERS: Final = ("SetupOffer", "SetupReply", "PairSetup", "Offer", "Reply")

_REGISTERED: Final[dict[str, Mta]] = {}


def standard_scheme(curve_name: str, k: int) -> str | None:
    """Return the scheme of standard parameters with that k; None on a curve that needs none.

    Raises:
        UsageError: k is out of range.
    """
    identifier = OtParameters(k=k).identifier
    return identifier if curve_name == SECP256K1.name else None


@cache
def built_in_scheme(identifier: str) -> Mta:
    """Return the package's scheme of that name: for example ``ot/80`` (OT-based, lambda_s = 80), or
    ``ot/80/4`` (and k = 4 in its OT extension; 1 where nothing is said).

    Raises:
        UsageError: unknown name or parameter out of range.
    """
    if found := _OT.fullmatch(identifier):
        return OtMta(OtParameters(int(found[1]), int(found[2] or 1)))
    raise UsageError(f"unknown multiplication scheme {identifier!r}; try 'ot/80' or 'ot/80/4'")


def mta_scheme(identifier: str) -> Mta:
    """Return the scheme of that name, registered or the package's own.

    Raises:
        UsageError: neither, or a parameter out of range.
    """
    if (own := _REGISTERED.get(identifier)) is not None:
        return own
    if identifier.startswith(_RESERVED):
        return built_in_scheme(identifier)
    raise UsageError(
        f"unknown multiplication scheme {identifier!r}: 'ot/80' and 'ot/80/4' are the package's "
        "own, others are known once they are given to register_scheme"
    )


def register_scheme(scheme: M, *, replace: bool = False) -> M:
    """Make a scheme of your own known in this process, by its ``identifier``; returns it.

    Args:
        replace: take the place of another one of that name, as a notebook's cell does that is
            executed again. Shares that were loaded before keep the one they have.

    Raises:
        UsageError: it is no scheme; its name is not 1 to 32 printable characters without spaces,
            is one of the package's own (``ot/...``), or is another scheme's.
    """
    if not isinstance(scheme, Mta):
        raise UsageError(f"{scheme!r} is no multiplication scheme: an object of a subclass of Mta")
    name: object = getattr(scheme, "identifier", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"the multiplication scheme's identifier is {name!r}: it must be 1 to 32 printable "
            "ASCII characters without spaces"
        )
    if name.startswith(_RESERVED):
        raise UsageError(f"multiplication scheme {name!r}: names from 'ot/' are the package's own")
    if missing := [each for each in _MEMBERS if not hasattr(scheme, each)]:
        raise UsageError(f"multiplication scheme {name!r} has no {', '.join(missing)}")
    if _REGISTERED.get(name, scheme) is not scheme and not replace:
        raise UsageError(
            f"another multiplication scheme is registered as {name!r}: give this one another "
            "identifier, or replace=True"
        )
    _REGISTERED[name] = scheme
    return scheme


def scheme_name(scheme: str | Mta) -> str:
    """Return the name of a scheme that shares can be made with.

    Args:
        scheme: its name, or itself.

    Raises:
        UsageError: unknown, or not the one that is known by its name.
    """
    if isinstance(scheme, str):
        return mta_scheme(scheme).identifier
    if _REGISTERED.get(scheme.identifier) is not scheme:
        raise UsageError(
            f"multiplication scheme {scheme.identifier!r} is not registered, and shares store only "
            "its name: call register_scheme first (the package's own are given by name)"
        )
    return scheme.identifier
