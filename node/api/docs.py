"""The OpenAPI document of the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mpcsim.service.web.api_page import Operation, openapi_document

TITLE: Final = "MPC key-share node"
SUMMARY: Final = "Generates, recovers and uses key shares of threshold wallets."
DESCRIPTION: Final = """\
A key is split between the caller, the service operator's MPC node and an independent institution's.
Two of the three sign; the private key exists nowhere. This node stores nothing: each call carries
the caller's share, encrypted.

A field of a body that is unknown is refused (400), by its name; a key share record may be sent back
whole. What a request has more than once, of a query's members, a body's or of headers such as
`Authorization`, is refused (400), and so is a body that is compressed (415). Answers carry
`Server-Timing` (where the time went) and `X-Request-Id` (what the logs call this request; send one
to choose it).

Every error is `{"error": "..."}`, which is for people. For programs there is `X-Error-Code`, whose
values stay what they are, though there may be more of them one day; and `Retry-After` where it is
a matter of time.

"""

DEFAULT_PORT: Final = 9091
_SECURITY: Final = {
    "accessToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": (
            "Access token of the authentication API. Of the gateway that `mpcsim serve` runs: what "
            "`mpcsim token alice` prints."
        ),
    }
}


def describe_node(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the description of these operations, OpenAPI 3.1."""
    return openapi_document(
        operations,
        "node",
        title=TITLE,
        summary=SUMMARY,
        description=DESCRIPTION,
        port=DEFAULT_PORT,
        security=_SECURITY,
    )
