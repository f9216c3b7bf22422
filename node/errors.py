"""Every way in which a call to the node can fail, with the status and the text the caller gets.

An error's answer is always ``{"error": "<message>"}``. Messages name fields, never their values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from mpcsim.ids import PartyId

OUTCOME_UNKNOWN: Final = (
    "The outcome is unknown: if GET /v3/wallet/key names a key whose share you do not hold, "
    "recover it"
)
"""Said where a key may have been made although no share could be returned."""
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
        why: more, for the log alone.
    """

    def __init__(self, detail: Mapping[str, object], why: str | None = None) -> None:
        known = {name: detail[name] for name in ("code", "message") if name in detail}
        text = json.dumps(known, separators=(",", ":"))
        # RFC 6750, section 3.1: no error code for a request that carried no token.
        challenge = "Bearer" if detail.get("code") == 755 else 'Bearer error="invalid_token"'
        super().__init__(401, f"Authentication failed: {text}", {"WWW-Authenticate": challenge})
        self.why = why


class NotFound(ApiError):
    """404: no such key or wallet of this user."""

    def __init__(self, message: str) -> None:
        super().__init__(404, message)


class Conflict(ApiError):
    """409: the user's keys do not allow this, e.g. there is one of this curve already.

    Args:
        retry_after: seconds after which it may be otherwise, where that is known.
    """

    def __init__(self, message: str, retry_after: str | None = None) -> None:
        super().__init__(409, message, _retry(retry_after))


class Busy(ApiError):
    """429: as many keys are being made as the gateway makes at a time, and enough wait already.

    Args:
        retry_after: seconds after which it may be otherwise.
    """

    def __init__(self, message: str, retry_after: str | None = None) -> None:
        super().__init__(429, message, _retry(retry_after))


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
        retry_after: seconds after which the same call may succeed, where the gateway says so.
        final: whether this is the gateway's own word on what has happened: not if something before
            it has answered, or it does not know itself.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        party: PartyId | None = None,
        *,
        retry_after: str | None = None,
        final: bool = True,
    ) -> None:
        text = f"Upstream returned {status} {reason}: {_one_line(detail)}"
        super().__init__(500, text, _retry(retry_after))
        self.upstream_status = status
        self.party = party
        self.final = final


class AnotherBoot(Upstream):
    """The request was made for an MPC node before its last start; one for its present boot may
    do."""


class UntrustedNode(ApiError):
    """500: behind the gateway is an MPC node that this node does not trust."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)


class Unreachable(ApiError):
    """502: no connection to the gateway."""

    def __init__(self, message: str = "The gateway cannot be reached; check WAAS_API_URL") -> None:
        super().__init__(502, message)


class UpstreamTimeout(ApiError):
    """504: the gateway did not answer in time."""

    def __init__(self, message: str = "The gateway did not answer in time") -> None:
        super().__init__(504, message)


class OutcomeUnknown(ApiError):
    """502 or 504 of a call that makes a key: it may have come into force, or still do so.

    Args:
        failure: why there was no answer.
    """

    def __init__(self, failure: ApiError) -> None:
        late = isinstance(failure, UpstreamTimeout)
        super().__init__(504 if late else 502, f"{failure.message}. {OUTCOME_UNKNOWN}")


def error_body(message: str) -> bytes:
    """``{"error": message}`` as UTF-8 JSON."""
    return json.dumps({"error": message}, ensure_ascii=False, separators=(",", ":")).encode(
        errors="replace"
    )


def _retry(after: str | None) -> dict[str, str]:
    """A Retry-After header (RFC 9110, section 10.2.3), if there is something to put into it."""
    return {"Retry-After": after} if after and after.isdecimal() and len(after) <= 6 else {}


def _one_line(text: str) -> str:
    """Without control characters, and short."""
    line = "".join(c if c.isprintable() else " " for c in text[: MAX_DETAIL + 1])
    return line if len(line) <= MAX_DETAIL else line[:MAX_DETAIL] + "..."
