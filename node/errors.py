"""Every way in which a call to the node can fail, with the status and the text the caller gets.

An error's answer is always ``{"error": "<message>"}``. Messages name fields, never their values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from mpcsim.ids import PartyId

MAX_DETAIL: Final = 400
"""Characters of an upstream's own text that are passed on."""


class ApiError(Exception):
    """A call that fails for a known reason: an HTTP status and a message for the caller."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The answer's body."""
        return error_body(self.message)


class BadRequest(ApiError):
    """400: a parameter that is missing, malformed or does not fit the others."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


class Unauthorized(ApiError):
    """401: the access token is missing, expired or invalid; get a new one and retry.

    Args:
        detail: ``code`` (755 JWT_MISSING, 756 JWT_INVALID, 757 JWT_EXPIRED) and ``message``;
            other members are left out.
    """

    def __init__(self, detail: Mapping[str, object]) -> None:
        known = {name: detail[name] for name in ("code", "message") if name in detail}
        text = json.dumps(known, separators=(",", ":"))
        # RFC 6750, section 3.1: no error code for a request that carried no token.
        challenge = "Bearer" if detail.get("code") == 755 else 'Bearer error="invalid_token"'
        super().__init__(401, f"Authentication failed: {text}", {"WWW-Authenticate": challenge})


class NotFound(ApiError):
    """404: no such key or wallet of this user."""

    def __init__(self, message: str) -> None:
        super().__init__(404, message)


class Conflict(ApiError):
    """409: the user's keys do not allow this, e.g. there is one of this curve already."""

    def __init__(self, message: str) -> None:
        super().__init__(409, message)


class NotConfigured(ApiError):
    """500: the node was started without the address of its gateway."""

    def __init__(self) -> None:
        super().__init__(500, "WAAS_API_URL is not set: this node has no gateway to call")


class Upstream(ApiError):
    """500: the gateway, or an MPC node behind it, answered with an error.

    Args:
        status: the upstream's HTTP status.
        reason: its reason phrase.
        detail: its own text; shortened, and printable on one line.
        party: the MPC node that failed, where the gateway says so.
    """

    def __init__(self, status: int, reason: str, detail: str, party: PartyId | None = None) -> None:
        super().__init__(500, f"Upstream returned {status} {reason}: {_one_line(detail)}")
        self.upstream_status = status
        self.party = party


class Unreachable(ApiError):
    """502: no connection to the gateway."""

    def __init__(self, message: str = "The gateway cannot be reached; check WAAS_API_URL") -> None:
        super().__init__(502, message)


class UpstreamTimeout(ApiError):
    """504: the gateway did not answer in time."""

    def __init__(self, message: str = "The gateway did not answer in time") -> None:
        super().__init__(504, message)


def error_body(message: str) -> bytes:
    """``{"error": message}`` as UTF-8 JSON."""
    return json.dumps({"error": message}, ensure_ascii=False, separators=(",", ":")).encode(
        errors="replace"
    )


def _one_line(text: str) -> str:
    """Without control characters, and short."""
    line = "".join(c if c.isprintable() else " " for c in text[: MAX_DETAIL + 1])
    return line if len(line) <= MAX_DETAIL else line[:MAX_DETAIL] + "..."
