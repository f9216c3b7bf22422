"""The OpenAPI document of the node."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature, getdoc
from typing import Annotated, Any, Final

from pydantic.fields import FieldInfo

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
    # Imported when the document is first asked for: with it a node starts a quarter slower.
    from mpcsim.service.web.openapi import openapi_document

    return openapi_document(
        [*map(_documented_route, operations)],
        "node",
        title=TITLE,
        summary=SUMMARY,
        description=DESCRIPTION,
        port=DEFAULT_PORT,
        security=_SECURITY,
    )


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
