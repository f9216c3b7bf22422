"""Identities of both MPC nodes as text, for whoever is told beforehand which ones to trust:
``operator=<64 hex digits>,institution=<64 hex digits>``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.service.rpc.statements import IDENTITY_BYTES

VARIABLE: Final = "MPC_NODE_KEYS"
_ENTRY: Final = re.compile(rf"\s*(\w+)\s*=\s*([0-9a-fA-F]{{{2 * IDENTITY_BYTES}}})\s*", re.ASCII)


def format_identities(identities: Mapping[PartyId, bytes]) -> str:
    """Return the identities in one line, without spaces."""
    return ",".join(f"{ROLES[party]}={identities[party].hex()}" for party in MPC_NODES)


def parse_identities(given: str) -> dict[PartyId, bytes]:
    """Inverse of ``format_identities``; spaces, order and the case of digits do not matter.

    Raises:
        ValueError: anything else, or one identity for both.
    """
    entries = [_ENTRY.fullmatch(entry) for entry in given.split(",")]
    found = {entry[1]: bytes.fromhex(entry[2]) for entry in entries if entry}
    identities = {party: found.get(ROLES[party], b"") for party in MPC_NODES}
    if len(entries) != len(MPC_NODES) or not all(identities.values()):
        raise ValueError("not the identities of both MPC nodes")
    if len({*identities.values()}) != len(MPC_NODES):
        raise ValueError("one identity for both MPC nodes")
    return identities
