"""The OpenAPI document of the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from mpcsim import __version__

TITLE: Final = "MPC key-share node"
SUMMARY: Final = "Generates, recovers and uses key shares of threshold wallets."
DESCRIPTION: Final = """\
A key is split between the caller, the service operator's MPC node and an independent institution's.
Two of the three sign; the private key exists nowhere. This node stores nothing: each call carries
the caller's share, encrypted.

Fields that a request has beyond those listed are ignored. Every error is `{"error": "..."}`.
Answers carry `Server-Timing` (where the time went) and `X-Request-Id` (what the logs call this
request; send one to choose it).
"""

SECURITY: Final = "accessToken"


def openapi_document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The description of these routes, OpenAPI 3.1.

    FastAPI documents its own 422 for every route with parameters; here those faults are 400s.
    """
    document = get_openapi(
        title=TITLE,
        version=__version__,
        summary=SUMMARY,
        description=DESCRIPTION,
        routes=routes,
        separate_input_output_schemas=False,
    )
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    document["security"] = [{SECURITY: []}]
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {
        SECURITY: {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": (
                "Access token of the authentication API. Of the gateway that `mpcsim serve` runs: "
                "what `mpcsim token alice` prints."
            ),
        }
    }
    return document
