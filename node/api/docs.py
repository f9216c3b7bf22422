"""The OpenAPI document of the node."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature, getdoc
from typing import Annotated, Any, Final

from pydantic.fields import FieldInfo

from mpcsim.service.error_codes import header_references, header_schemas, markdown_table
from mpcsim.service.web.api_page import CORS, servers
from mpcsim.version import __version__
from node.api.protected import Operation, ProtectedOperation

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

SECURITY: Final = "accessToken"
DEFAULT_PORT: Final = 9091


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The description of these operations, OpenAPI 3.1.

    FastAPI documents its own 422 for every route with parameters; here those faults are 400s.
    """
    # Imported when the document is first asked for: with it a node starts a quarter slower.
    from fastapi.openapi.utils import get_openapi

    document = get_openapi(
        title=TITLE,
        version=__version__,
        summary=SUMMARY,
        description=DESCRIPTION + CORS + markdown_table("node"),
        servers=[*servers(DEFAULT_PORT)],
        routes=[*map(_documented_route, operations)],
        separate_input_output_schemas=False,
    )
    for methods in document["paths"].values():
        for operation in methods.values():
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


def _documented_route(operation: Operation) -> Any:
    """Return a route that FastAPI describes; nothing is served by it."""
    from fastapi import Header, Query
    from fastapi.routing import APIRoute

    def described() -> None: ...

    parameters = []
    if operation.body is not None:
        parameters.append(Parameter("body", Parameter.KEYWORD_ONLY, annotation=operation.body))
    if (found := operation.parameter) is not None:
        about = FieldInfo.from_annotation(found.type)
        where = (Query if found.place == "query" else Header)(
            alias=found.name,
            description=about.description,
            examples=about.examples,
            json_schema_extra=about.json_schema_extra,
        )
        default = Parameter.empty if found.required else None
        parameters.append(
            Parameter(
                found.argument,
                Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[found.type, where],
            )
        )
    described.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    protected = isinstance(operation, ProtectedOperation)
    return APIRoute(
        operation.path,
        described,
        methods=[operation.method],
        response_model=operation.answer,
        responses={**operation.failures},
        summary=operation.summary,
        description=getdoc(operation.handler),
        tags=["wallet" if protected else "health"],
        operation_id=operation.name,
        openapi_extra=None if protected else {"security": []},
    )
