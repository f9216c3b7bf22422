"""OpenAPI document of the gateway's interface, built when it is first served.

The JSON endpoints are described by their routes, the smart-account flow by its tables of endpoints
and fields, the binary endpoints here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mpcsim.service.errors import UNAUTHORIZED
from mpcsim.service.gateway.api.routes import (
    AUTH,
    ERROR_MEANINGS,
    INTERNAL,
    LOGIN,
    OPERATIONS,
    TOKEN,
    TOKEN_REFUSED,
    UNSUPPORTED_MEDIA_TYPE,
    WALLET,
)
from mpcsim.service.rpc import wire
from mpcsim.service.smart_account.api import openapi as smart_account
from mpcsim.service.web import idempotency
from mpcsim.service.web.api_page import openapi_document

SUMMARY: Final = "Users, access tokens, registered keys, and smart accounts (ERC-4337)."
DESCRIPTION: Final = """\
**To get a token**: sign a user up (`/member/user-management/v3/signup`), then log in for it
(`/auth/auth-service/v3/login`) with the API key and secret of the gateway. Of one that
`mpcsim serve` runs, `mpcsim token alice` does both and prints the token. It goes with every request
that has a lock below, as `Authorization: Bearer <token>`, and to the REST node as well.

Keys are made and used at the REST node, whose page is at its own `/api/docs`. It asks the gateway
for that at `/mpc/v1/...`: **internal** endpoints with binary bodies, for nodes alone.

Answers carry `X-Request-Id`: what the logs call this request; send one to choose it.

Every error is `{"error": "..."}`, but for a 401 of a token: `{"code": ..., "message": ...}`. For
programs there is `X-Error-Code`, whose values stay what they are, though there may be more of them
one day; and `Retry-After` where it is a matter of time.

"""

DEFAULT_PORT: Final = 9090

_SECURITY: Final = {
    TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "What `mpcsim token alice` prints, or a log-in answers.",
    },
    LOGIN: {
        "type": "http",
        "scheme": "basic",
        "description": (
            "The gateway's API key and secret. One that `mpcsim serve` runs keeps them in its data "
            "folder."
        ),
    },
}

_TAGS: Final = {
    AUTH: "Who may ask.",
    WALLET: "What is known of a user's keys; all of it is public, but it takes the user's token.",
    smart_account.TAG: (
        "The six steps of a UserOperation, EntryPoint v0.6: address, nonce and init code; calldata;"
        " gas; digest; send; receipt."
    ),
    INTERNAL: (
        "What a REST node says to the gateway. Not for callers: bodies are binary "
        "(`mpcsim.service.rpc.wire`), messages in them are sealed for MPC nodes, and they change "
        "with the node. A token for one key counts here, too."
    ),
}

BODIES: Final[dict[str, type[wire.Body]]] = {
    "open": wire.OpenVault,
    "generate": wire.Generate,
    "recover": wire.Recover,
    "sign": wire.Sign,
    "presigned": wire.Presigned,
    "exchange": wire.Exchange,
    "activate": wire.Activate,
    "suspend": wire.Suspend,
}
"""Request bodies by verb."""

_NAMED: Final = [
    {
        "name": idempotency.HEADER,
        "in": "header",
        "description": "Names the call of the REST node, so that it may be repeated.",
        "schema": {"type": "string", "pattern": idempotency.PATTERN},
    },
    {
        "name": idempotency.VERB_HEADER,
        "in": "header",
        "description": "Which call of the REST node that is; by default, of the same verb.",
        "schema": {"enum": sorted(idempotency.MEANT_BY)},
    },
]


def describe_gateway(title: str, verbs: Iterable[str]) -> dict[str, Any]:
    """Return the description of the gateway's interface, OpenAPI 3.1.

    Args:
        verbs: MPC verbs that the gateway answers.
    """
    accounts = smart_account.paths()
    for operations in accounts.values():
        for operation in operations.values():
            operation["responses"][str(UNAUTHORIZED)] = _response(TOKEN_REFUSED, "TokenRefused")
            if "requestBody" in operation:
                text = f"{UNSUPPORTED_MEDIA_TYPE.phrase}. {ERROR_MEANINGS[UNSUPPORTED_MEDIA_TYPE]}"
                operation["responses"][str(int(UNSUPPORTED_MEDIA_TYPE))] = _response(text, "Error")
    return openapi_document(
        OPERATIONS,
        "gateway",
        title=title,
        summary=SUMMARY,
        description=DESCRIPTION,
        port=DEFAULT_PORT,
        tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        security=_SECURITY,
        paths={**accounts, **_internal(sorted(verbs))},
        schemas=smart_account.schemas(),
    )


def _internal(verbs: Iterable[str]) -> dict[str, Any]:
    found = {wire.PREFIX + "suspend": {"post": _binary("suspend", security=[])}}
    return found | {wire.PREFIX + verb: {"post": _binary(verb)} for verb in verbs}


def _binary(verb: str, **security: Any) -> dict[str, Any]:
    """Return the operation of an MPC verb; its bodies are binary (``rpc.wire``)."""
    about = (BODIES[verb].__doc__ or "").partition(": ")[2].partition("\n")[0].partition(". ")[0]
    content = {wire.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
    responses: dict[str, Any] = {
        "200": {"description": "A binary body.", "content": content},
        "204": {"description": "Done; there is nothing to say."},
        "default": _response(
            "Refused, as the text says; `Retry-After` where it is a matter of time.", "Error"
        ),
    }
    if not security:
        responses[str(UNAUTHORIZED)] = _response(TOKEN_REFUSED, "TokenRefused")
    return {
        "tags": [INTERNAL],
        "operationId": f"mpc_{verb}",
        "summary": about[:1].upper() + about[1:].removesuffix("."),
        "description": f"The body is a `mpcsim.service.rpc.wire.{BODIES[verb].__name__}`.",
        "requestBody": {"required": True, "content": content},
        "responses": responses,
        **({"parameters": _NAMED} if verb in idempotency.MEANT_BY else {}),
        **security,
    }


def _response(description: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "content": content}
