"""Refusals of an MPC node on their way to the gateway, where the same ones come out: as JSON."""

from __future__ import annotations

from typing import Any

from mpcsim import strict_json
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import PartyId
from mpcsim.service.error_codes import parse_code
from mpcsim.service.errors import NodeFailed, Refused, Unmerged, node_failed, unexpected_status
from mpcsim.service.rpc.grants import GrantRefused, StaleGrant


def to_json(refused: Refused, me: PartyId) -> dict[str, Any]:
    """
    Args:
        me: the MPC node that refuses; answers without it are not an MPC node's.
    """
    said: dict[str, Any] = {"error": str(refused), "party": me, "code": refused.code.value}
    match refused:
        case StaleGrant():
            said["kind"] = "boot"
        case GrantRefused():
            said["kind"] = "grant"
        case Unmerged():
            said["kind"] = "unmerged"
        case NodeFailed():
            said["kind"] = "node"
    if refused.retry_after_s is not None:
        said["retry_after_s"] = refused.retry_after_s
    return said


def from_json(status: int, body: bytes, party: PartyId) -> Refused:
    """
    Args:
        party: the MPC node that was asked. If it is not this one that answers, or it does not say
            why, what it did is not known.
    """
    if 200 <= status < 300:
        return unexpected_status(party, status)
    try:
        said = strict_json.parse(body)
    except InvalidEncoding:
        said = None
    if not isinstance(said, dict) or said.get("party") != party:
        return node_failed(party)
    text, after = said.get("error"), said.get("retry_after_s")
    if not isinstance(text, str) or not (after is None or isinstance(after, int)):
        return node_failed(party)
    code = parse_code(said.get("code"), status)
    match said.get("kind"):
        case "boot":
            return StaleGrant(text)
        case "grant":
            return GrantRefused(text)
        case "unmerged":
            return Unmerged(status, text, party, after, code=code)
        case "node":
            return NodeFailed(status, text, party, after, code=code)
        case _:
            return Refused(status, text, after, code=code)
