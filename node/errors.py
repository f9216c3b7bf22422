"""Every way in which a call to the node can fail, with the status and the text the caller gets.

An error's answer is always ``{"error": "<message>"}``. Messages name fields, never their values.
What a program is to do about it is in the headers (``mpcsim.service.error_codes``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from mpcsim.ids import PartyId
from mpcsim.service.error_codes import Code, code_of_status

OUTCOME_UNKNOWN: Final = (
    "The outcome is unknown: if GET /v3/wallet/key names a key whose share you do not hold, "
    "recover it"
)
"""Said where a key may have been made although no share could be returned."""
_NODE_FAULTS: Final = frozenset({Code.BAD_REQUEST, Code.UNAUTHORIZED, Code.UNSUPPORTED})
"""Codes of those refusals of a gateway that are about the node's request, not its caller's."""
TOO_MANY_PASSWORDS: Final = "too many passwords are being checked; try again later"
MAX_DETAIL: Final = 400
"""Characters of an upstream's own text that are passed on."""


class ApiError(Exception):
    """A call that fails for a known reason: an HTTP status and a message for the caller.

    Args:
        code: by default what the status says of itself.
        retry_after: seconds after which the same call may succeed, where somebody says so.
        headers: further ones.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: Code | None = None,
        *,
        retry_after: str | None = None,
        headers: Mapping[str, str] = {},
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or code_of_status(status)
        self.headers = {**self.code.headers(_seconds(retry_after)), **headers}

    def body(self) -> bytes:
        """The answer's body."""
        return error_body(self.message)


class BadRequest(ApiError):
    """400: a parameter that is missing, malformed or does not fit the others."""

    def __init__(self, message: str, code: Code = Code.BAD_REQUEST) -> None:
        super().__init__(400, message, code)


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
        message = f"Authentication failed: {text}"
        super().__init__(401, message, headers={"WWW-Authenticate": challenge})
        self.why = why


class NotFound(ApiError):
    """404: no such key or wallet of this user."""

    def __init__(self, message: str) -> None:
        super().__init__(404, message)


class Conflict(ApiError):
    """409: the user's keys do not allow this, e.g. there is one of this curve already."""

    def __init__(
        self, message: str, code: Code = Code.CONFLICT, retry_after: str | None = None
    ) -> None:
        super().__init__(409, message, code, retry_after=retry_after)


class Limited(ApiError):
    """429: more than the gateway does at a time, or than a user may ask for within a while."""

    def __init__(self, message: str, retry_after: str | None = None) -> None:
        super().__init__(429, message, retry_after=retry_after)


class KeyAlreadyActive(Conflict):
    """409 of the gateway: the key that an Idempotency-Key was given for has been made. No caller
    sees it: the key is recovered."""


class PasswordsBusy(ApiError):
    """429: as many computations of Argon2id wait as may, of all users or of this one."""

    def __init__(self) -> None:
        # A place is free as soon as one computation is done, which takes less.
        super().__init__(429, TOO_MANY_PASSWORDS, retry_after="1")


class CallerGone(ApiError):
    """400: the caller has hung up; nobody reads this but the log."""

    def __init__(self) -> None:
        super().__init__(400, "The connection ended before the answer")


class NotConfigured(ApiError):
    """500: the node was started without the address of its gateway."""

    def __init__(self) -> None:
        message = "WAAS_API_URL is not set: this node has no gateway to call"
        super().__init__(500, message, Code.NOT_CONFIGURED)


class Upstream(ApiError):
    """500: the gateway, or an MPC node behind it, answered with an error.

    Args:
        status: the upstream's HTTP status.
        reason: its reason phrase.
        detail: its own text; shortened, and printable on one line.
        code: its own, or by its status. Where it says that it was asked wrongly, the caller of the
            node has no part in that.
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
        code: Code | None = None,
        retry_after: str | None = None,
        final: bool = True,
    ) -> None:
        text = f"Upstream returned {status} {reason}: {_one_line(detail)}"
        said = code or code_of_status(status)
        found = Code.INTERNAL if said in _NODE_FAULTS else said
        super().__init__(500, text, found, retry_after=retry_after)
        self.upstream_status = status
        self.party = party
        self.final = final


class StaleBoot(Upstream):
    """The request was made for an MPC node before its last start; one for its present boot may
    do."""


class UntrustedNode(ApiError):
    """500: behind the gateway is an MPC node that this node does not trust."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message, Code.UNTRUSTED_NODE)


class Unreachable(ApiError):
    """502: no connection to the gateway."""

    def __init__(self, message: str = "The gateway cannot be reached; check WAAS_API_URL") -> None:
        super().__init__(502, message)


class UpstreamTimeout(ApiError):
    """504: the gateway did not answer in time."""

    def __init__(self) -> None:
        super().__init__(504, "The gateway did not answer in time")


class OutcomeUnknown(ApiError):
    """502 or 504 of a call that makes a key: it may have come into force, or still do so.

    Args:
        failure: why there was no answer.
    """

    def __init__(self, failure: ApiError) -> None:
        late = isinstance(failure, UpstreamTimeout)
        message = f"{failure.message}. {OUTCOME_UNKNOWN}"
        super().__init__(504 if late else 502, message, Code.OUTCOME_UNKNOWN)


def error_body(message: str) -> bytes:
    """``{"error": message}`` as UTF-8 JSON."""
    return json.dumps({"error": message}, ensure_ascii=False, separators=(",", ":")).encode(
        errors="replace"
    )


def _seconds(after: str | None) -> str | None:
    """Return the part of a Retry-After header that may be passed on (RFC 9110, section 10.2.3)."""
    return after if after and after.isdecimal() and len(after) <= 6 else None


def _one_line(text: str) -> str:
    """Return a text without control characters, and short."""
    line = "".join(c if c.isprintable() else " " for c in text[: MAX_DETAIL + 1])
    return line if len(line) <= MAX_DETAIL else line[:MAX_DETAIL] + "..."
