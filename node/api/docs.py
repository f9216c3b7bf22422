"""The OpenAPI document of the node."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from mpcsim.service.error_codes import header_references, header_schemas, markdown_table
from mpcsim.service.web.api_page import CORS, servers
from mpcsim.version import __version__

TITLE: Final = "MPC key-share node"
SUMMARY: Final = "Generates, recovers and uses key shares of threshold wallets."
DESCRIPTION: Final = """\
A key is split between the caller, the service operator's MPC node and an independent institution's.
Two of the three sign; the private key exists nowhere. This node stores nothing: each call carries
the caller's share, encrypted.

Fields that a request has beyond those listed are ignored. What a request has more than once, of a
query's members, a body's or of headers such as `Authorization`, is refused (400), and so is a body
that is compressed (415). Answers carry `Server-Timing` (where the
time went) and `X-Request-Id` (what the logs call this request; send one to choose it).

Every error is `{"error": "..."}`, which is for people. For programs there is `X-Error-Code`, whose
values stay what they are, though there may be more of them one day; and `Retry-After` where it is
a matter of time.

"""

SECURITY: Final = "accessToken"
DEFAULT_PORT: Final = 9091


def _without_head(route: BaseRoute) -> BaseRoute:
    """Return a route as it is in the document, where each operation has one method."""
    if isinstance(route, APIRoute):
        route = copy(route)
        route.methods = set(route.methods or ()) - {"HEAD"}
    return route


def openapi_document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The description of these routes, OpenAPI 3.1.

    FastAPI documents its own 422 for every route with parameters; here those faults are 400s.
    """
    document = get_openapi(
        title=TITLE,
        version=__version__,
        summary=SUMMARY,
        description=DESCRIPTION + CORS + markdown_table("node"),
        servers=[*servers(DEFAULT_PORT)],
        routes=[*map(_without_head, routes)],
        separate_input_output_schemas=False,
    )
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            for status, response in operation["responses"].items():
                if status != "200":
                    response["headers"] = header_references()
    document["security"] = [{SECURITY: []}]
    components = document["components"]
    components["headers"] = header_schemas("node")
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
