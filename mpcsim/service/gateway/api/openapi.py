"""OpenAPI document of the gateway's interface, built when it is first served."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from mpcsim.crypto.groups.curves import CURVES
from mpcsim.service.error_codes import header_references, header_schemas, markdown_table
from mpcsim.service.errors import (
    BAD_REQUEST,
    CONFLICT,
    INTERNAL_ERROR,
    NOT_FOUND,
    TIMED_OUT,
    TOO_LARGE,
    UNAUTHORIZED,
    UNAVAILABLE,
)
from mpcsim.service.precis import MAX_USERNAME_CHARS, MOST_SPELT
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.tokens import TokenFault
from mpcsim.service.smart_account.api import openapi as smart_account
from mpcsim.service.web import idempotency
from mpcsim.service.web.api_page import CORS, servers
from mpcsim.version import __version__

Schema = dict[str, Any]

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

TOKEN: Final = "accessToken"
DEFAULT_PORT: Final = 9090
LOGIN: Final = "apiKey"

AUTH, WALLET, INTERNAL = "users and tokens", "registered keys", "internal"

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

_ID: Final[Schema] = {"type": "string", "examples": ["3f0c9d8e5b7a4c21a9d04be1f2c3a477"]}
_KEY_ID: Final[Schema] = {
    "type": "string",
    "pattern": "^[0-9a-f]{64}$",
    "description": "Names the user's share of the key; a recovery changes it.",
    "examples": ["c4" * 32],
}
_CURVE: Final[Schema] = {"enum": sorted(CURVES), "description": "The key's curve."}
_PUBLIC_KEY: Final[Schema] = {
    "type": "string",
    "pattern": "^0x([0-9a-f]{66}|[0-9a-f]{64})$",
    "description": "Hex with `0x`: 33 bytes compressed (secp256k1) or 32 (ed25519).",
    "examples": ["0x031b84c5567b126440995d3ed5aaba0565d71e1834604819ff9c17f5e9d5dd078f"],
}
_MOMENT: Final[Schema] = {
    "type": "string",
    "format": "date-time",
    "examples": ["2026-11-21T09:30:00.123+00:00"],
}
_RECORD: Final[Schema] = {
    "type": "string",
    "description": "URL-safe base64 of what both MPC nodes have signed of the key.",
}
_TOKEN_TEXT: Final[Schema] = {"type": "string", "description": "A signed JSON Web Token (ES256)."}
_TOKEN_TYPE: Final[Schema] = {"const": "Bearer"}
_EXPIRES_IN: Final[Schema] = {"type": "integer", "description": "Seconds.", "examples": [3600]}


def _object(members: dict[str, Schema], optional: Iterable[str] = ()) -> Schema:
    required = [name for name in members if name not in optional]
    return {"type": "object", "properties": members, "required": required}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


_CHAINS: Final = ("evm", "btc", "aptos", "tron", "xrp", "solana")

_SCHEMAS: Final[dict[str, Schema]] = {
    "Error": _object(
        {
            "error": {
                "type": "string",
                "description": "What was wrong, in words that may be shown to the caller.",
                "examples": ["no such key"],
            },
            "party": {"type": "integer", "description": "The MPC node that could not do it."},
            "undecided": {
                "const": True,
                "description": "Whether the new key is in force is not known yet: ask for the key.",
            },
        },
        optional=("party", "undecided"),
    ),
    "TokenRefused": _object(
        {
            "code": {
                "enum": [int(fault) for fault in TokenFault],
                "description": ", ".join(f"{int(fault)}: {fault.name}" for fault in TokenFault),
            },
            "message": {"enum": [fault.name for fault in TokenFault]},
        }
    ),
    "NewUser": _object(
        {
            "username": {
                "type": "string",
                "minLength": 1,
                "maxLength": MOST_SPELT * MAX_USERNAME_CHARS,
                "description": f"1 to {MAX_USERNAME_CHARS} characters by RFC 8265, profile "
                "UsernameCasePreserved: letters, digits and ASCII's signs, no spaces; upper and "
                "lower case are different. The answer has the spelling that is kept.",
                "examples": ["alice"],
            }
        }
    )
    | {"additionalProperties": False},
    "User": _object(
        {
            "user_id": _ID,
            "username": {"type": "string", "examples": ["alice"]},
            "created_at": _MOMENT,
        }
    ),
    "Login": _object(
        {
            "grant_type": {"const": "client_credentials"},
            "username": {"type": "string", "examples": ["alice"]},
        }
    ),
    "AccessToken": _object(
        {"access_token": _TOKEN_TEXT, "token_type": _TOKEN_TYPE, "expires_in": _EXPIRES_IN}
    ),
    "KeyToken": _object(
        {
            "token": _TOKEN_TEXT,
            "token_type": _TOKEN_TYPE,
            "expires_in": _EXPIRES_IN,
            "key_id": _KEY_ID,
        }
    ),
    "SigningKeys": _object({"keys": _list({"type": "object"})}),
    "RegisteredKeys": _object(
        {
            "user_id": _ID,
            "keys": _list(
                _object(
                    {
                        "key_id": _KEY_ID,
                        "curve": _CURVE,
                        "public_key": _PUBLIC_KEY,
                        "created_at": _MOMENT,
                        "record": _RECORD,
                    }
                )
            ),
        }
    ),
    "Addresses": {
        "type": "object",
        "description": "By chain: `solana` of an ed25519 key, the others of a secp256k1 key.",
        "properties": {chain: {"type": "string"} for chain in _CHAINS},
        "additionalProperties": False,
    },
    "Wallets": _object(
        {
            "user_id": _ID,
            "wallets": _list(
                _object(
                    {
                        "key": _object(
                            {"curve": _CURVE, "public_key": _PUBLIC_KEY, "record": _RECORD}
                        ),
                        "address": _reference("Addresses"),
                    }
                )
            ),
        }
    ),
    "MpcNodes": {
        "type": "object",
        "description": "`operator` and `institution`; all bytes in hex.",
        "additionalProperties": _object(
            {
                "identifier": {"type": "integer"},
                "identity": {"type": "string", "description": "Ed25519; never another one."},
                "seal_key": {"type": "string", "description": "X25519; halves are sealed to it."},
                "signature": {"type": "string", "description": "The identity's, of the seal key."},
                "boot": {
                    "type": "string",
                    "description": "Another one after every start, and after many signatures.",
                },
                "seal_number": {
                    "type": "integer",
                    "description": "Number of earlier seal keys; signed together with the key.",
                },
                "answers": {
                    "type": "boolean",
                    "description": "Whether it could be reached just now; if not, the rest is its "
                    "last answer.",
                },
            }
        ),
    },
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
UNSUPPORTED_MEDIA_TYPE: Final = HTTPStatus.UNSUPPORTED_MEDIA_TYPE

_MEANINGS: Final = {
    BAD_REQUEST: "Something is missing or malformed; the text says what.",
    NOT_FOUND: "No such user, or no such key of the user.",
    CONFLICT: "There is one already.",
    TOO_LARGE: "The body is too long.",
    UNSUPPORTED_MEDIA_TYPE: "The body is of another type, or is compressed.",
    INTERNAL_ERROR: "An unexpected error.",
    UNAVAILABLE: "A store or an MPC node is out of reach; nothing is lost.",
    TIMED_OUT: "An MPC node did not answer in time.",
}
_BY_BOTH_NODES: Final = (UNAVAILABLE, TIMED_OUT)
"""Errors of endpoints that may have to ask the MPC nodes which key is in force."""


def openapi_document(title: str, verbs: Iterable[str]) -> dict[str, Any]:
    """Return the description of the gateway's interface, OpenAPI 3.1.

    Args:
        verbs: MPC verbs that the gateway answers.
    """
    accounts = smart_account.paths()
    for operations in accounts.values():
        for operation in operations.values():
            operation["responses"][str(UNAUTHORIZED)] = _unauthorized()
            if "requestBody" in operation:
                operation["responses"] |= _errors(UNSUPPORTED_MEDIA_TYPE)
    paths = {**_paths(), **accounts, **_internal(sorted(verbs))}
    for operations in paths.values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if not status.startswith("2"):
                    response["headers"] = header_references()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": __version__,
            "summary": SUMMARY,
            "description": DESCRIPTION + CORS + markdown_table("gateway"),
        },
        "servers": servers(DEFAULT_PORT),
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "security": [{TOKEN: []}],
        "components": {
            "schemas": {**_SCHEMAS, **smart_account.schemas()},
            "headers": header_schemas("gateway"),
            "securitySchemes": {
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
                        "The gateway's API key and secret. One that `mpcsim serve` runs keeps them "
                        "in its data folder."
                    ),
                },
            },
        },
    }


def _paths() -> dict[str, Any]:
    return {
        "/member/user-management/v3/signup": {
            "post": _operation(
                AUTH,
                "sign_up",
                "Make a user",
                "For a wallet's backend, which has the gateway's API key and secret (HTTP Basic).",
                answer=("User", 201),
                body=("application/json", "NewUser"),
                errors=(BAD_REQUEST, CONFLICT, TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, UNAVAILABLE),
                security=[{LOGIN: []}],
            )
        },
        "/auth/auth-service/v3/login": {
            "post": _operation(
                AUTH,
                "login",
                "Get an access token for a user",
                "For a wallet's backend, which has the gateway's API key and secret (HTTP Basic).",
                answer=("AccessToken", 200),
                body=("application/x-www-form-urlencoded", "Login"),
                errors=(BAD_REQUEST, TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, UNAVAILABLE),
                security=[{LOGIN: []}],
            )
        },
        "/.well-known/jwks.json": {
            "get": _operation(
                AUTH,
                "signing_keys",
                "Public keys that verify tokens",
                "A JSON Web Key Set (RFC 7517). Needs no token.",
                answer=("SigningKeys", 200),
                security=[],
            )
        },
        "/wallet/v1/user": {
            "get": _operation(
                WALLET,
                "user",
                "Who the token is for",
                "The user as signed up.",
                answer=("User", 200),
                errors=(NOT_FOUND, UNAVAILABLE),
            )
        },
        "/wallet/v1/keys": {
            "get": _operation(
                WALLET,
                "keys",
                "The user's keys",
                "One a curve, oldest first.",
                answer=("RegisteredKeys", 200),
                errors=_BY_BOTH_NODES,
            )
        },
        "/wallet/v1/wallet": {
            "get": _operation(
                WALLET,
                "wallet",
                "The user's keys with their addresses",
                "Addresses on every chain that the key's curve is for.",
                answer=("Wallets", 200),
                errors=_BY_BOTH_NODES,
            )
        },
        "/wallet/v1/token": {
            "get": _operation(
                WALLET,
                "key_token",
                "Get a token for one key",
                "It says no more than the access token it is for, and holds no longer; it counts "
                "for nodes alone.",
                answer=("KeyToken", 200),
                parameters={"id": _KEY_ID},
                errors=(NOT_FOUND, UNAVAILABLE),
            )
        },
        "/wallet/v1/address": {
            "get": _operation(
                WALLET,
                "address",
                "Addresses of any public key",
                "The key need not be anybody's.",
                answer=("Addresses", 200),
                parameters={"curve": _CURVE, "public_key": _PUBLIC_KEY},
                errors=(BAD_REQUEST,),
            )
        },
    }


def _internal(verbs: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "/mpc/v1/nodes": {
            "get": _operation(
                INTERNAL,
                "nodes",
                "Who the MPC nodes are",
                "Their public keys, which their identities vouch for. Needs no token.",
                answer=("MpcNodes", 200),
                errors=_BY_BOTH_NODES,
                security=[],
            )
        },
        wire.PREFIX + "suspend": {"post": _binary("suspend", security=[])},
    }
    return found | {wire.PREFIX + verb: {"post": _binary(verb)} for verb in verbs}


def _binary(verb: str, **security: Any) -> dict[str, Any]:
    """Return the operation of an MPC verb; its bodies are binary (``rpc.wire``)."""
    about = (BODIES[verb].__doc__ or "").partition(": ")[2].partition("\n")[0].partition(". ")[0]
    content = {wire.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
    responses: dict[str, Any] = {
        "200": {"description": "A binary body.", "content": content},
        "204": {"description": "Done; there is nothing to say."},
        "default": _error("Refused, as the text says; `Retry-After` where it is a matter of time."),
    }
    if not security:
        responses[str(UNAUTHORIZED)] = _unauthorized()
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


def _operation(
    tag: str,
    name: str,
    summary: str,
    description: str,
    *,
    answer: tuple[str, int],
    body: tuple[str, str] | None = None,
    parameters: dict[str, Schema] | None = None,
    errors: Iterable[int] = (),
    **security: Any,
) -> dict[str, Any]:
    """Return an operation.

    Args:
        answer: schema and status.
        body: media type and schema.
        parameters: required query parameters.
        security: by default, an access token is needed.
    """
    schema, status = answer
    responses: dict[str, Any] = {
        str(status): {
            "description": "As asked.",
            "content": {"application/json": {"schema": _reference(schema)}},
        }
    }
    responses |= _errors(*errors, INTERNAL_ERROR)
    if not security:
        responses[str(UNAUTHORIZED)] = _unauthorized()
    elif security["security"]:
        responses[str(UNAUTHORIZED)] = _error("Unauthorized. Another API key or secret.")
    found: dict[str, Any] = {
        "tags": [tag],
        "operationId": name,
        "summary": summary,
        "description": description,
        "responses": responses,
        **security,
    }
    if body is not None:
        media_type, schema = body
        content = {media_type: {"schema": _reference(schema)}}
        found["requestBody"] = {"required": True, "content": content}
    if parameters is not None:
        found["parameters"] = [
            {"name": key, "in": "query", "required": True, "schema": value}
            for key, value in parameters.items()
        ]
    return found


def _errors(*statuses: int) -> dict[str, Any]:
    return {
        str(status): _error(f"{HTTPStatus(status).phrase}. {_MEANINGS[status]}")
        for status in statuses
    }


def _error(description: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _reference("Error")}}
    return {"description": description, "content": content}


def _unauthorized() -> dict[str, Any]:
    return {
        "description": "Unauthorized. The token is missing, invalid or expired: get a new one.",
        "content": {"application/json": {"schema": _reference("TokenRefused")}},
    }
