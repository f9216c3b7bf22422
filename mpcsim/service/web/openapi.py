"""OpenAPI documents of both interfaces, from their FastAPI routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from mpcsim.service.error_codes import header_references, header_schemas, markdown_table
from mpcsim.service.web.api_page import CORS, servers
from mpcsim.version import __version__

Schema = dict[str, Any]


class HeadRoute(APIRoute):
    """A route that answers HEAD where it answers GET (RFC 9110, 9.3.2), as Starlette's own do."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        methods = set(self.methods or ())
        self.methods = methods | {"HEAD"} if "GET" in methods else methods


def openapi_document(
    routes: Sequence[BaseRoute],
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
        security: schemes by name; the first one is asked for where a route says nothing else.
        paths: of routes that are not FastAPI's.
        schemas: that these refer to.
        about: title, summary and tags.
    """
    document = get_openapi(
        version=__version__,
        description=description + CORS + markdown_table(interface),
        servers=[*servers(port)],
        routes=[*map(_without_head, routes)],
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


def _without_head(route: BaseRoute) -> BaseRoute:
    """Return a route as it is in the document, where each operation has one method."""
    if isinstance(route, APIRoute):
        route = copy(route)
        route.methods = set(route.methods or ()) - {"HEAD"}
    return route
