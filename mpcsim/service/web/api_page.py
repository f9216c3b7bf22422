"""Operations of a JSON interface, the OpenAPI document that FastAPI makes of them, and the page on
which it is read and tried (``/api/docs``), which needs nothing from outside.

FastAPI serves no request: it would read a body before it is known who asks, takes 60 us more for
each, and a server with it starts 0.2 s later. It is imported when the document is first asked for.
Swagger UI comes with the package ``fastapi-offline``; of that, only the files are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from inspect import Parameter as Argument
from inspect import Signature, getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim.service.error_codes import header_references, header_schemas, markdown_table
from mpcsim.service.web.threads import in_thread
from mpcsim.version import __version__

if TYPE_CHECKING:
    from pydantic import BaseModel

Schema = dict[str, Any]

JSON: Final = "application/json"
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


# ---------------------------------------------------------------------- operations


@dataclass(frozen=True)
class Parameter:
    """Parameter of a request beside its body."""

    place: Literal["query", "header"]
    name: str
    type: Any
    """Annotated type, as pydantic validates it."""
    argument: str
    """Name of the handler's argument."""
    required: bool = False


class Operation(Route):
    """Route of one operation, with what the document says of it. Answers HEAD where it answers GET
    (RFC 9110, 9.3.2)."""

    tag = ""
    security: Sequence[Mapping[str, Sequence[str]]] | None = None
    """Schemes that the document asks for; None: its first one."""
    status = 200
    headers: Mapping[str, str] | None = None
    """Headers of its answers."""
    media_type = JSON
    """Type of a request's body."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Callable[..., Awaitable[BaseModel]],
        answer: type[BaseModel],
        summary: str,
        *,
        body: type[BaseModel] | None = None,
        parameters: Sequence[Parameter] = (),
        failures: Mapping[int | str, dict[str, Any]] = {},
        **others: Any,
    ) -> None:
        """
        Args:
            handler: gets the request, and whatever a subclass gives it.
            body: model of the request's body.
            failures: OpenAPI responses by status.
            others: further attributes that are not as the class has them.
        """
        super().__init__(path, self.respond, methods=[method], name=handler.__name__)
        self.method = method
        self.handler = handler
        self.answer = answer
        self.summary = summary
        self.body = body
        self.parameters = parameters
        self.failures = failures
        vars(self).update(others)

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        return self.to_response(await self.handler(request))

    def to_response(self, answer: BaseModel) -> Response:
        """Return an answer as JSON, without the members that it does not have."""
        text = answer.model_dump_json(exclude_none=True)
        return Response(text, self.status, self.headers, JSON)


# ---------------------------------------------------------------------- the document


def openapi_document(
    operations: Sequence[Operation],
    interface: str,
    *,
    description: str,
    port: int,
    security: Mapping[str, Schema],
    paths: Mapping[str, Schema] = {},
    schemas: Mapping[str, Schema] = {},
    **about: Any,
) -> dict[str, Any]:
    """Return the description of an interface, OpenAPI 3.1.

    FastAPI documents its own 422 for every route with parameters; here those faults are 400s.

    Args:
        interface: ``node`` or ``gateway``, whose error codes are listed.
        port: its default port.
        security: schemes by name; the first one is asked for where an operation says nothing else.
        paths: of further routes; ``schemas``: that these refer to.
        about: title, summary and tags.
    """
    from fastapi.openapi.utils import get_openapi

    document = get_openapi(
        version=__version__,
        description=description + CORS + markdown_table(interface),
        servers=[
            {"url": "/", "description": "whichever answered with this document"},
            {"url": f"http://127.0.0.1:{port}", "description": "what mpcsim serve starts"},
        ],
        routes=[*map(_documented_route, operations)],
        separate_input_output_schemas=False,
        **about,
    )
    found = [operation for each in document["paths"].values() for operation in each.values()]
    for operation in found:
        operation["responses"].pop("422", None)
    document["paths"] |= paths
    found += [operation for each in paths.values() for operation in each.values()]
    for operation in found:
        for status, response in operation["responses"].items():
            if not status.startswith("2"):
                response["headers"] = header_references()
    document["security"] = [{next(iter(security)): []}]
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["schemas"] |= schemas
    components["headers"] = header_schemas(interface)
    components["securitySchemes"] = {**security}
    return document


def _documented_route(operation: Operation) -> Any:
    """Return a route that FastAPI describes; nothing is served by it."""
    from fastapi import Body, Header, Query
    from fastapi.routing import APIRoute
    from pydantic.fields import FieldInfo

    def described() -> None: ...

    arguments = []
    if operation.body is not None:
        model: Any = operation.body
        body = Annotated[model, Body(media_type=operation.media_type)]
        arguments.append(Argument("body", Argument.KEYWORD_ONLY, annotation=body))
    for parameter in operation.parameters:
        about = FieldInfo.from_annotation(parameter.type)
        where = (Query if parameter.place == "query" else Header)(
            alias=parameter.name,
            description=about.description,
            examples=about.examples,
            json_schema_extra=about.json_schema_extra,
        )
        arguments.append(
            Argument(
                parameter.argument,
                Argument.KEYWORD_ONLY,
                default=Argument.empty if parameter.required else None,
                annotation=Annotated[parameter.type, where],
            )
        )
    described.__signature__ = Signature(arguments)  # type: ignore[attr-defined]
    security = operation.security
    return APIRoute(
        operation.path,
        described,
        methods=[operation.method],
        response_model=operation.answer,
        status_code=operation.status,
        responses={**operation.failures},
        summary=operation.summary,
        description=getdoc(operation.handler),
        tags=[operation.tag],
        operation_id=operation.name,
        openapi_extra=None if security is None else {"security": [*security]},
    )
