"""Error codes for programs: the header ``X-Error-Code`` of every answer that is an error.

The text of an error is for people, and may get better; a code stays what it is. Codes are added,
none is renamed, and none gets another meaning. Whoever meets one that it does not know goes by the
status (``code_of_status``).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Self

HEADER: Final = "X-Error-Code"
RETRY_AFTER: Final = "Retry-After"

Statuses = tuple[int, ...]

_NO: Final = "no"
_UNSUPPORTED: Final = (404, 405, 413, 414, 415, 431, 501, 505)
_WAIT: Final = "yes, after `Retry-After`"


class Code(Enum):
    """A kind of error: value; statuses of the REST node, and of the gateway; whether the same
    request may succeed later; meaning. Where it is a matter of time and nobody knows how long,
    ``wait_s`` seconds are the advice."""

    node: Statuses
    gateway: Statuses
    retry: str
    meaning: str
    wait_s: int | None

    def __new__(
        cls,
        value: str,
        node: Statuses,
        gateway: Statuses,
        retry: str,
        meaning: str,
        wait_s: int | None = None,
    ) -> Self:
        code = object.__new__(cls)
        code._value_ = value
        code.node, code.gateway, code.retry, code.meaning = node, gateway, retry, meaning
        code.wait_s = wait_s
        return code

    BAD_REQUEST = (
        *("bad-request", (400, 408), (400, 408, 422), _NO),
        "Something is missing, malformed or does not fit the rest; the text names it.",
    )
    WRONG_PASSWORD = (
        *("wrong-password", (400,), (), _NO),
        "The share was made with another password.",
    )
    UNSUPPORTED = (
        *("unsupported", _UNSUPPORTED, _UNSUPPORTED, _NO),
        "There is no such path or method, the body or header is too long or of another type, or "
        "this is another version or transfer encoding of HTTP.",
    )
    UNAUTHORIZED = (
        *("unauthorized", (401,), (401, 403), "with a new token"),
        "The token, or what else shows who asks, is missing, invalid or expired.",
    )
    NOT_FOUND = (
        *("not-found", (404,), (404,), _NO),
        "There is no such key, user or operation, or it is another's, or replaced by a recovery.",
    )
    KEY_EXISTS = (
        *("key-exists", (409,), (409,), "no; recover the key"),
        "The user has a key on this curve already.",
    )
    KEY_CHANGED = (
        *("key-changed", (409,), (409,), "once you know which share is in force"),
        "Another call has recovered the key meanwhile.",
    )
    CONFLICT = (
        *("conflict", (409, 500), (409,), _NO),
        "What is asked for does not fit what there is, or what was done before.",
    )
    BUSY = (
        *("busy", (409, 500, 503), (409, 503), _WAIT),
        "Another call for this key is under way, or too much else is; that goes on undisturbed.",
        1,
    )
    LIMITED = (
        *("limited", (429,), (429,), _WAIT),
        "That is more than there may be at a time, or within a while.",
        1,
    )
    IDEMPOTENCY_KEY_USED = (
        *("idempotency-key-used", (400,), (400,), "with another `Idempotency-Key`"),
        "This user has given another call this `Idempotency-Key`.",
    )
    IN_FORCE = (
        *("in-force", (), (409,), "no; recover the key"),
        "The key that this `Idempotency-Key` was given for has been made; only nodes are told so.",
    )
    SUSPENDED = (
        *("suspended", (500,), (409,), "no; recover the key"),
        "The key signs no more: an MPC node was caught cheating with it.",
    )
    SESSION_GONE = (
        *("session-gone", (500,), (410, 412), "yes"),
        "A session or presignature is used up or has expired, or an MPC node was started anew.",
    )
    ABORTED = (
        *("aborted", (500,), (), "as the text says"),
        "The MPC session came to no result: a check failed, or a party said no more.",
    )
    OUTCOME_UNKNOWN = (
        *("outcome-unknown", (502, 504), (409, 500, 502, 503, 504)),
        "with the same `Idempotency-Key`; without one, look for the key first",
        "The key may have come into force, or may still do so.",
    )
    UPSTREAM_DOWN = (
        *("upstream-down", (500, 502), (424, 502, 503), _WAIT),
        "The gateway, an MPC node or a chain cannot be reached.",
        5,
    )
    UPSTREAM_LATE = (
        *("upstream-late", (500, 504), (504,), _WAIT),
        "The gateway, an MPC node or a chain did not answer in time.",
        5,
    )
    DISK_FULL = (
        *("disk-full", (500,), (503,), "once there is room"),
        "No space is left for a store; nothing has changed.",
    )
    STORE_FAILED = (
        *("store-failed", (500,), (503,), "once it is repaired"),
        "A store is damaged, locked or out of reach; nothing has changed.",
    )
    SEAL_KEY_LOST = (
        *("seal-key-lost", (500,), (409,), "no; recover the key"),
        "An MPC node has lost the key that this `secret_store` is sealed to.",
    )
    STORES_APART = (
        *("stores-apart", (500,), (409, 503), "once they fit"),
        "Gateway and MPC nodes do not agree about this key; `mpcsim doctor` says what to do.",
    )
    RESTORED = (
        *("restored", (500,), (424, 503), _WAIT),
        "An MPC node was restored from a backup, and waits for the other's word about this key.",
        5,
    )
    UNTRUSTED_NODE = (
        *("untrusted-node", (500,), (503,), _NO),
        "What the gateway or an MPC node says, or who it says it is, is not to be believed.",
    )
    NOT_CONFIGURED = (
        *("not-configured", (500,), (500,), "once it is set right"),
        "A setting is missing, or those of two parts do not fit together.",
    )
    REVERTED = (
        *("reverted", (), (422,), _NO),
        "The EntryPoint, the account, the paymaster or the called contract said no.",
    )
    INTERNAL = (
        *("internal", (500,), (500, 502), "perhaps"),
        "Nobody foresaw it.",
    )

    def headers(self, retry_after: int | str | None = None) -> dict[str, str]:
        """Return the headers of an answer with this error.

        Args:
            retry_after: seconds, where they are known.
        """
        found = {HEADER: self.value}
        if retry_after is None:
            retry_after = self.wait_s
        if retry_after is not None:
            found[RETRY_AFTER] = str(retry_after)
        return found


_BY_VALUE: Final = {code.value: code for code in Code}
_BY_STATUS: Final = {
    401: Code.UNAUTHORIZED,
    403: Code.UNAUTHORIZED,
    404: Code.NOT_FOUND,
    405: Code.UNSUPPORTED,
    409: Code.CONFLICT,
    410: Code.SESSION_GONE,
    412: Code.SESSION_GONE,
    413: Code.UNSUPPORTED,
    414: Code.UNSUPPORTED,
    415: Code.UNSUPPORTED,
    424: Code.UPSTREAM_DOWN,
    429: Code.LIMITED,
    431: Code.UNSUPPORTED,
    501: Code.UNSUPPORTED,
    502: Code.UPSTREAM_DOWN,
    503: Code.UPSTREAM_DOWN,
    504: Code.UPSTREAM_LATE,
    505: Code.UNSUPPORTED,
}


def code_of_status(status: int) -> Code:
    """The code of an error of which no more is known than its HTTP status."""
    return _BY_STATUS.get(status, Code.BAD_REQUEST if 400 <= status < 500 else Code.INTERNAL)


def code_of_framework_status(status: int) -> Code:
    """The same of an error that the framework found: its 404 is about the path."""
    return Code.UNSUPPORTED if status == 404 else code_of_status(status)


def parse_code(text: object, status: int) -> Code:
    """The code that somebody else names; by the status if it names none, or one of a later day."""
    known = _BY_VALUE.get(text) if isinstance(text, str) else None
    return known or code_of_status(status)


def markdown_table(of: str) -> str:
    """All codes of one interface in Markdown, for its page.

    Args:
        of: ``node`` or ``gateway``.
    """
    lines = ["| `X-Error-Code` | Status | Meaning | Retry? |", "|---|---|---|---|"]
    for code in Code:
        if statuses := getattr(code, of):
            said = ", ".join(map(str, statuses))
            lines.append(f"| `{code.value}` | {said} | {code.meaning} | {code.retry} |")
    return "\n".join(lines)


def header_schemas(of: str) -> dict[str, dict[str, object]]:
    """Return both error headers as OpenAPI header components; ``of`` as for ``markdown_table``."""
    return {
        HEADER: {
            "description": "What went wrong, for programs; the table at the top has all of them.",
            "required": True,
            "schema": {"enum": [code.value for code in Code if getattr(code, of)]},
        },
        RETRY_AFTER: {
            "description": "Seconds after which the same request may succeed.",
            "schema": {"type": "string", "pattern": "^[0-9]{1,6}$"},
        },
    }


def header_references() -> dict[str, dict[str, str]]:
    """Return references to both error headers, for an error response of such a document."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (HEADER, RETRY_AFTER)}
