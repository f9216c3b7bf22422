"""The page at ``/api/docs`` on which an interface is read and tried; it needs nothing from outside.

Swagger UI comes with the package ``fastapi-offline``; of that, only the files are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim.service.web.threads import in_thread

DOCUMENT_PATH: Final = "/api/openapi.json"
"""Path of the interface's OpenAPI description, which the page loads."""
CORS: Final = (
    "Callers are backends, not browsers: no answer has a CORS header, so that pages of other "
    "origins read none.\n\n"
)
"""Paragraph of both interfaces' descriptions."""
PAGE_PATH: Final = "/api/docs"
SHORT_PATH: Final = "/docs"
"""Path that leads to the page, for whoever knows it from other services."""

_ASSETS: Final = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
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
_START: Final = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
_POLICY: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
}


class _CachedBody:
    """A body that is made once: strangers may ask for it at any rate, and all of those who ask
    before it is there wait for the same one. Who does not read it holds its connection, and no file
    open beside it."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        """
        Args:
            make: called in a thread.
        """
        self._make = make
        self._made: bytes | None = None
        self._lock = asyncio.Lock()

    async def body(self) -> bytes:
        """Return it; the same bytes every time."""
        if self._made is None:
            async with self._lock:
                if self._made is None:
                    self._made = await in_thread(self._make)
        return self._made


def servers(port: int) -> list[dict[str, str]]:
    """Return the ``servers`` of an OpenAPI document.

    Args:
        port: default port of this interface.
    """
    return [
        {"url": "/", "description": "whichever answered with this document"},
        {"url": f"http://127.0.0.1:{port}", "description": "what mpcsim serve starts"},
    ]


def page_routes(title: str, make_document: Callable[[], dict[str, Any]]) -> list[Route]:
    """Return the routes of the page, its parts and the document; all links are relative.

    Args:
        make_document: builds the interface's description, in a thread.
    """
    encoded = _CachedBody(lambda: bytes(JSONResponse(make_document()).body))
    parts = {name: _CachedBody(partial(_read, name)) for name in _ASSETS}
    turn = asyncio.Lock()

    async def document(request: Request) -> Response:
        return Response(await encoded.body(), media_type="application/json")

    async def page(request: Request) -> Response:
        return Response(_PAGE.format(title=title), media_type="text/html", headers=_POLICY)

    async def short(request: Request) -> Response:
        return Response(status_code=307, headers={"Location": PAGE_PATH[1:]})  # below any prefix

    async def part(request: Request) -> Response:
        name = request.path_params["name"]
        if name == "start.js":
            return Response(_START, media_type="text/javascript", headers=_POLICY)
        if name not in parts:
            raise HTTPException(404)
        async with turn:  # one in each of the event loop's, however many ask: it takes milliseconds
            body = await parts[name].body()
            await asyncio.sleep(0)
        return Response(body, media_type=_ASSETS[name], headers=_POLICY)

    return [
        Route(DOCUMENT_PATH, document, methods=["GET"]),
        Route(PAGE_PATH, page, methods=["GET"]),
        Route(SHORT_PATH, short, methods=["GET"]),
        Route(PAGE_PATH + "/{name}", part, methods=["GET"]),
    ]


def _read(name: str) -> bytes:
    # Found, not imported: it would bring FastAPI along.
    package = find_spec("fastapi_offline")
    assert package is not None
    assert package.origin is not None
    return (Path(package.origin).parent / "static" / name).read_bytes()
