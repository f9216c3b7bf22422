"""The OpenAPI document and the interactive page, which needs nothing from outside.

Swagger UI comes with the package ``fastapi-offline``; of that, only the files are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

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

ASSETS: Final = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
PAGE: Final = f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title>
<link rel="icon" href="docs/favicon.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START: Final = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
POLICY: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
}


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


def page_routes() -> list[BaseRoute]:
    """The page at ``/api/docs`` and its parts; all links are relative."""
    return [
        Route("/api/docs", _page, methods=["GET"]),
        Route("/api/docs/{name}", _part, methods=["GET"]),
    ]


async def _page(request: Request) -> Response:
    return Response(PAGE, media_type="text/html", headers=POLICY)


async def _part(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "start.js":
        return Response(START, media_type="text/javascript", headers=POLICY)
    if name not in ASSETS:
        raise HTTPException(404)
    path = Path(str(files("fastapi_offline") / "static" / name))
    return FileResponse(path, media_type=ASSETS[name], headers=POLICY)
