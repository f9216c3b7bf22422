"""The gateway's JSON endpoints: users, tokens and registered keys.

FastAPI makes answers and the OpenAPI document from the models. Two bodies are read here: FastAPI
would read a body before it is known who asks, and its forms let a field be there twice.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mpcsim import strict_json
from mpcsim.crypto.groups.curves import CURVES
from mpcsim.errors import InvalidEncoding, UsageError, escape_unprintable
from mpcsim.ids import ROLES
from mpcsim.service.errors import (
    BAD_REQUEST,
    CONFLICT,
    INTERNAL_ERROR,
    NOT_FOUND,
    TIMED_OUT,
    TOO_LARGE,
    UNAUTHORIZED,
    UNAVAILABLE,
    Refused,
    no_such_key,
    no_such_user,
)
from mpcsim.service.gateway.api import models
from mpcsim.service.gateway.api.token_keys import TokenKeys
from mpcsim.service.gateway.gateway import Gateway
from mpcsim.service.gateway.links.links import Times
from mpcsim.service.gateway.registry import RegisteredKey, UsernameTaken
from mpcsim.service.rpc.addresses import addresses
from mpcsim.service.rpc.tokens import Claims, bearer
from mpcsim.service.web.http import media_type, read_body
from mpcsim.service.web.openapi import HeadRoute
from mpcsim.service.web.request_records import annotate_request
from mpcsim.service.web.threads import in_thread
from mpcsim.strict_json import DuplicateMember

MAX_BODY_BYTES: Final = 4096
MAX_SHOWN: Final = 64
"""Characters of an unknown field's name that its refusal shows."""
NO_STORE: Final = {"Cache-Control": "no-store"}
"""Headers of every answer with a token (RFC 6749, section 5.1)."""
JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
UNSUPPORTED_MEDIA_TYPE: Final = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
TOKEN, LOGIN = "accessToken", "apiKey"
"""Security schemes of the OpenAPI document."""
AUTH, WALLET, INTERNAL = "users and tokens", "registered keys", "internal"
"""Tags of the OpenAPI document."""

ERROR_MEANINGS: Final = {
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
_OF_BODIES: Final = (BAD_REQUEST, TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, UNAVAILABLE)
TOKEN_REFUSED: Final = "Unauthorized. The token is missing, invalid or expired: get a new one."

M = TypeVar("M", bound=BaseModel)


class UnknownCredentials(Exception):
    """Error: a request lacks the gateway's API key and secret."""


@dataclass(frozen=True)
class Services:
    """Parts of the gateway that its endpoints use; in the application's state."""

    gateway: Gateway
    token_keys: TokenKeys
    token_lifetime_s: float

    def authenticate(self, request: Request) -> Claims:
        """Return the claims of a request's access token.

        Raises:
            TokenError: there is none, or it is not valid here.
        """
        token = bearer(request.headers.get("authorization"))
        claims = self.token_keys.verify(token).require_access()
        annotate_request(user_id=claims.user_id)
        return claims

    async def record_of(self, key: RegisteredKey) -> str:
        """Return a key's record with both MPC nodes' signatures, in base64."""
        record = await self.gateway.activation.signed_record(key.user_id, key.curve, Times())
        return base64.urlsafe_b64encode(record).decode()


async def _services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


async def _authenticate(request: Request) -> Claims:
    return (await _services(request)).authenticate(request)


async def _check_credentials(request: Request) -> None:
    """Check that the caller is the wallet's backend.

    Raises:
        UnknownCredentials: API key and secret (HTTP Basic) are missing, or not the gateway's.
    """
    registry = (await _services(request)).gateway.registry
    if not registry.credentials().match(*_parse_basic_auth(request)):
        raise UnknownCredentials


Parts = Annotated[Services, Depends(_services)]
Caller = Annotated[Claims, Depends(_authenticate)]
Backend = Depends(_check_credentials)

router = APIRouter(route_class=HeadRoute, generate_unique_id_function=lambda route: route.name)


def fails_with(
    *statuses: int, unauthorized: dict[str, Any] | None = None
) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of an endpoint for these error statuses and that of a bug.

    Args:
        unauthorized: 401; by default that of a token.
    """
    found: dict[int | str, dict[str, Any]] = {
        status: _error(f"{HTTPStatus(status).phrase}. {ERROR_MEANINGS[status]}")
        for status in (*statuses, INTERNAL_ERROR)
    }
    if unauthorized is None:
        unauthorized = {"model": models.TokenRefused, "description": TOKEN_REFUSED}
    return found | ({UNAUTHORIZED: unauthorized} if unauthorized else {})


def _error(description: str) -> dict[str, Any]:
    return {"model": models.Error, "description": description}


def _from_backend(media_type: str, model: type[BaseModel], *statuses: int) -> dict[str, Any]:
    """Return the options of an endpoint that takes the API key and a body."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    wrong_key = _error("Unauthorized. Another API key or secret.")
    return {
        "dependencies": [Backend],
        "responses": fails_with(*_OF_BODIES, *statuses, unauthorized=wrong_key),
        "openapi_extra": {
            "requestBody": {"required": True, "content": {media_type: {"schema": schema}}},
            "security": [{LOGIN: []}],
        },
    }


# ---------------------------------------------------------------------- users and tokens


@router.get(
    "/.well-known/jwks.json",
    tags=[AUTH],
    summary="Public keys that verify tokens",
    responses=fails_with(unauthorized={}),
    openapi_extra={"security": []},
)
async def signing_keys(parts: Parts) -> models.SigningKeys:
    """A JSON Web Key Set (RFC 7517). Needs no token."""
    await parts.token_keys.delete_expired_keys()
    return models.SigningKeys(**parts.token_keys.jwks())


@router.post(
    "/member/user-management/v3/signup",
    tags=[AUTH],
    summary="Make a user",
    status_code=201,
    **_from_backend(JSON, models.NewUser, CONFLICT),
)
async def sign_up(request: Request, parts: Parts) -> models.User:
    """Sign a user up, for a wallet's backend, which has the API key and secret (HTTP Basic)."""
    # CORS: a web page may send other types to another site without a preflight request.
    if media_type(request) != JSON:
        raise HTTPException(UNSUPPORTED_MEDIA_TYPE, f"the body is not {JSON}")
    body = await _read(request, models.NewUser, strict_json.parse)
    try:
        user = await in_thread(parts.gateway.registry.sign_up, body.username)
    except UsageError as error:
        raise Refused(BAD_REQUEST, str(error)) from None
    except UsernameTaken:
        raise Refused(CONFLICT, "username is taken") from None
    annotate_request(user_id=user.user_id)
    return models.User(**vars(user))


@router.post(
    "/auth/auth-service/v3/login",
    tags=[AUTH],
    summary="Get an access token for a user",
    **_from_backend(FORM, models.Login),
)
async def login(request: Request, response: Response, parts: Parts) -> models.AccessToken:
    """Issue a token to a wallet's backend, which has the API key and secret (HTTP Basic)."""
    body = await _read(request, models.Login, _parse_form)
    try:
        user = parts.gateway.registry.user_by_name(body.username)
    except UsageError as error:
        raise Refused(BAD_REQUEST, str(error)) from None
    if user is None:
        raise Refused(BAD_REQUEST, "username: no such user; sign up first")
    annotate_request(user_id=user.user_id)
    lifetime_s = parts.token_lifetime_s
    token = parts.token_keys.issue_access(user.user_id, user.username, lifetime_s)
    await parts.token_keys.delete_expired_keys()
    response.headers.update(NO_STORE)
    return models.AccessToken(access_token=token, token_type="Bearer", expires_in=int(lifetime_s))


# ---------------------------------------------------------------------- registered keys


@router.get(
    "/wallet/v1/user",
    tags=[WALLET],
    summary="Who the token is for",
    responses=fails_with(NOT_FOUND, UNAVAILABLE),
)
async def user(caller: Caller, parts: Parts) -> models.User:
    """The user as signed up."""
    found = parts.gateway.registry.user(caller.user_id)
    if found is None:
        raise no_such_user()
    return models.User(**vars(found))


@router.get(
    "/wallet/v1/keys",
    tags=[WALLET],
    summary="The user's keys",
    responses=fails_with(*_BY_BOTH_NODES),
)
async def keys(caller: Caller, parts: Parts) -> models.RegisteredKeys:
    """Keys, one a curve, oldest first."""
    found = [
        models.RegisteredKey(
            key_id=key.key_id,
            curve=key.curve,
            public_key="0x" + key.public_key.hex(),
            created_at=key.created_at,
            record=await parts.record_of(key),
        )
        for key in parts.gateway.registry.keys(caller.user_id)
    ]
    return models.RegisteredKeys(user_id=caller.user_id, keys=found)


@router.get(
    "/wallet/v1/wallet",
    tags=[WALLET],
    summary="The user's keys with their addresses",
    response_model_exclude_none=True,
    responses=fails_with(*_BY_BOTH_NODES),
)
async def wallet(caller: Caller, parts: Parts) -> models.Wallets:
    """Addresses on every chain that the key's curve is for."""
    found = [
        models.Wallet(
            key=models.WalletKey(
                curve=key.curve,
                public_key="0x" + key.public_key.hex(),
                record=await parts.record_of(key),
            ),
            address=models.Addresses(**addresses(key.curve, key.public_key)),
        )
        for key in parts.gateway.registry.keys(caller.user_id)
    ]
    return models.Wallets(user_id=caller.user_id, wallets=found)


@router.get(
    "/wallet/v1/token",
    tags=[WALLET],
    summary="Get a token for one key",
    responses=fails_with(NOT_FOUND, UNAVAILABLE),
)
async def key_token(
    caller: Caller,
    response: Response,
    parts: Parts,
    key_id: Annotated[models.KeyId, Query(alias="id")] = "",
) -> models.KeyToken:
    """The token says no more than the access token it is for, and holds no longer; it counts for
    nodes alone."""
    if not parts.gateway.registry.is_present_key(caller.user_id, key_id):
        raise no_such_key()
    # It must not outlive the access token.
    lifetime_s = min(parts.token_lifetime_s, parts.token_keys.remaining_s(caller))
    token = parts.token_keys.issue_key(caller.user_id, caller.username, key_id, lifetime_s)
    response.headers.update(NO_STORE)
    return models.KeyToken(
        token=token, token_type="Bearer", expires_in=math.ceil(lifetime_s), key_id=key_id
    )


@router.get(
    "/wallet/v1/address",
    tags=[WALLET],
    summary="Addresses of any public key",
    response_model_exclude_none=True,
    responses=fails_with(BAD_REQUEST),
)
async def address(
    caller: Caller,
    curve: Annotated[models.Curve, Query()],
    public_key: Annotated[models.PublicKey, Query()],
) -> models.Addresses:
    """The key need not be anybody's."""
    if curve not in CURVES:
        raise Refused(BAD_REQUEST, "Invalid curve")
    try:
        if any(map(str.isspace, public_key)):  # ``fromhex`` would skip it
            raise ValueError("white space")
        found = addresses(curve, bytes.fromhex(public_key.removeprefix("0x")))
    except (ValueError, InvalidEncoding):
        raise Refused(BAD_REQUEST, "Invalid public_key") from None
    return models.Addresses(**found)


@router.get(
    "/mpc/v1/nodes",
    tags=[INTERNAL],
    summary="Who the MPC nodes are",
    responses=fails_with(*_BY_BOTH_NODES, unauthorized={}),
    openapi_extra={"security": []},
)
async def nodes(parts: Parts) -> models.MpcNodes:
    """Public keys of the MPC nodes, which their identities vouch for. Needs no token."""
    return models.MpcNodes(
        {
            ROLES[party]: models.MpcNode(
                identifier=party,
                identity=hello.identity.hex(),
                seal_key=hello.seal_key.hex(),
                signature=hello.signature.hex(),
                boot=hello.boot.hex(),
                seal_number=hello.seal_number,
                answers=parts.gateway.links[party].is_answering,
            )
            for party, hello in (await parts.gateway.hellos()).items()
        }
    )


# ---------------------------------------------------------------------- requests


async def _read(request: Request, model: type[M], parse: Callable[[bytes], object]) -> M:
    """Read a request's body as a model.

    Raises:
        RequestValidationError: it is none.
        Refused: it is too long, or has a member twice.
    """
    body = await read_body(request, MAX_BODY_BYTES)
    try:
        return model.model_validate(parse(body))
    except DuplicateMember as error:
        raise Refused(BAD_REQUEST, f"the body {error}") from None
    except InvalidEncoding:
        raise Refused(BAD_REQUEST, "the body is not JSON") from None
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from None


def explain(error: RequestValidationError) -> str:
    """Return the first fault in a request, without the value."""
    fault = error.errors()[0]
    place = ".".join(map(str, fault["loc"])) or "the body"
    if fault["type"] == "extra_forbidden":
        return f"{escape_unprintable(place[:MAX_SHOWN])}: unknown field"
    return f"{place}: {fault['msg']}"


def _parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a URL-encoded form; none if the body is no form.

    Raises:
        Refused: a field occurs twice.
    """
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True)
    except ValueError:
        return {}
    form = dict(fields)
    if len(form) != len(fields):
        raise Refused(BAD_REQUEST, "the body has a field more than once")
    return form


def _parse_basic_auth(request: Request) -> tuple[str, str]:
    """Return API key and secret of an HTTP Basic header (RFC 7617); empty if there is none."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:  # of base64, or of UTF-8
        return "", ""
    return name, secret
