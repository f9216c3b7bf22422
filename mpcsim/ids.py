"""Identifiers shared by every layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NewType

from mpcsim.errors import UsageError, check_type

__all__ = [
    "ALLOWANCE_BYTES",
    "BOOT_BYTES",
    "CLIENT",
    "HOLDERS",
    "INSTITUTION",
    "MAX_PARTIES",
    "MPC_NODES",
    "OPERATOR",
    "ROLES",
    "SESSION_ID_BYTES",
    "START_BYTES",
    "THRESHOLD",
    "PartyId",
    "party_ids",
]

PartyId = NewType("PartyId", int)
"""Index of a share holder: the point at which the sharing polynomial is evaluated (1..65535)."""

MAX_PARTIES = 256
"""Limit of parties in one session. Bounds every per-party list on the wire: a commitment vector of
this length is 8 kB, a session's buffered broadcasts stay below 3 MB."""

SESSION_ID_BYTES = 32
ALLOWANCE_BYTES = 16
"""Length of an allowance: the identifier under which a batch of presignatures may be used."""
BOOT_BYTES = 16
"""Length of a boot: the identifier of one start of an MPC node, random and never stored."""
START_BYTES = 8
"""Length of the part of a boot that stays the same for the life of an MPC node's process; the rest
changes each time it has begun many signing sessions."""

CLIENT, OPERATOR, INSTITUTION = PartyId(1), PartyId(2), PartyId(3)
"""The share holders of a wallet key: the share that travels with the caller, the service
operator's MPC node, the independent institution's."""

MPC_NODES = (OPERATOR, INSTITUTION)
HOLDERS = (CLIENT, *MPC_NODES)
THRESHOLD = 2
"""Number of holders needed to sign."""
ROLES: Mapping[PartyId, str] = {
    CLIENT: "client",
    OPERATOR: "operator",
    INSTITUTION: "institution",
}


def party_ids(ids: Iterable[int], argument: str = "parties") -> tuple[PartyId, ...]:
    """Validate and sort party identifiers.

    Args:
        argument: the caller's name for them.

    Raises:
        UsageError: an identifier is no number or out of range (0 would be the secret itself),
            appears twice, or there are too many.
    """
    if type(ids) in (bytes, bytearray) or not hasattr(ids, "__iter__"):
        raise UsageError(f"{argument}: expected identifiers, not {type(ids).__name__}")
    found = [*ids]
    if {*map(type, found)} != {int}:
        for i in found:
            check_type(argument, i, int)
    found.sort()
    for i in found:
        if not 1 <= i <= 0xFFFF:
            raise UsageError(f"party id {i} is outside 1..65535")
    if len(set(found)) != len(found):
        raise UsageError(f"duplicate party ids in {found}")
    if len(found) > MAX_PARTIES:
        raise UsageError(f"{len(found)} parties; at most {MAX_PARTIES} are supported")
    return tuple(map(PartyId, found))
