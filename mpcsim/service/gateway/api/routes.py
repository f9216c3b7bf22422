"""The gateway's JSON endpoints: users, tokens and registered keys.

Answers and bodies are models, from which the OpenAPI document follows. Credentials come before a
body, and an endpoint says nothing to whom it does not know.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

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
    no_such_user,
)
from mpcsim.service.gateway.api import models
from mpcsim.service.gateway.api.token_keys import TokenKeys
from mpcsim.service.gateway.gateway import Gateway
from mpcsim.service.gateway.links.links import Times
from mpcsim.service.gateway.registry import RegisteredKey, UsernameTaken
from mpcsim.service.rpc.addresses import addresses
from mpcsim.service.rpc.tokens import Claims, bearer
from mpcsim.service.web.api_page import JSON, Operation, Parameter
from mpcsim.service.web.http import media_type, read_body
from mpcsim.service.web.request_records import annotate_request
from mpcsim.service.web.threads import in_thread
from mpcsim.strict_json import DuplicateMember

MAX_BODY_BYTES: Final = 4096
MAX_SHOWN: Final = 64
"""Characters of an unknown field's name that its refusal shows."""
NO_STORE: Final = {"Cache-Control": "no-store"}
"""Headers of every answer with a token (RFC 6749, section 5.1)."""
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


def services_of(request: Request) -> Services:
    """Return the parts of the gateway that answers a request."""
    found: Services = request.app.state.services
    return found


class UserOperation(Operation):
    """Operation behind a user's access token; its handler gets the request, its claims and the
    gateway's parts."""

    tag = WALLET

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        services = services_of(request)
        claims = services.authenticate(request)
        return self.to_response(await self.handler(request, claims, services))


class BackendOperation(Operation):
    """Operation for the wallet's backend, which has the API key and secret; its handler gets the
    body and the gateway's parts."""

    tag = AUTH
    security = ({LOGIN: []},)

    async def respond(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            UnknownCredentials: API key and secret (HTTP Basic) are missing, or not the gateway's.
        """
        services = services_of(request)
        known = services.gateway.registry.credentials()
        if not known.match(*_parse_basic_auth(request)):
            raise UnknownCredentials
        # CORS: a web page may send other types to another site without a preflight request.
        given = media_type(request)
        if given != self.media_type and JSON in (given, self.media_type):
            raise HTTPException(UNSUPPORTED_MEDIA_TYPE, f"the body is not {self.media_type}")
        body = self._parse(await read_body(request, MAX_BODY_BYTES))
        return self.to_response(await self.handler(body, services))

    def _parse(self, data: bytes) -> BaseModel:
        """Return a body.

        Raises:
            Refused: it is none, or has a member twice.
        """
        assert self.body is not None
        try:
            document = strict_json.parse(data) if self.media_type == JSON else _parse_form(data)
            return self.body.model_validate(document)
        except DuplicateMember as error:
            raise Refused(BAD_REQUEST, f"the body {error}") from None
        except InvalidEncoding:
            raise Refused(BAD_REQUEST, "the body is not JSON") from None
        except ValidationError as error:
            raise Refused(BAD_REQUEST, _explain(error)) from None


# ---------------------------------------------------------------------- users and tokens


async def signing_keys(request: Request) -> models.SigningKeys:
    """A JSON Web Key Set (RFC 7517). Needs no token."""
    token_keys = services_of(request).token_keys
    await token_keys.delete_expired_keys()
    return models.SigningKeys(**token_keys.jwks())


async def sign_up(body: models.NewUser, parts: Services) -> models.User:
    """Sign a user up, for a wallet's backend, which has the API key and secret (HTTP Basic)."""
    try:
        user = await in_thread(parts.gateway.registry.sign_up, body.username)
    except UsageError as error:
        raise Refused(BAD_REQUEST, str(error)) from None
    except UsernameTaken:
        raise Refused(CONFLICT, "username is taken") from None
    annotate_request(user_id=user.user_id)
    return models.User(**vars(user))


async def login(body: models.Login, parts: Services) -> models.AccessToken:
    """Issue a token to a wallet's backend, which has the API key and secret (HTTP Basic)."""
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
    return models.AccessToken(access_token=token, token_type="Bearer", expires_in=int(lifetime_s))


# ---------------------------------------------------------------------- registered keys


async def user(request: Request, caller: Claims, parts: Services) -> models.User:
    """The user as signed up."""
    found = parts.gateway.registry.user(caller.user_id)
    if found is None:
        raise no_such_user()
    return models.User(**vars(found))


async def keys(request: Request, caller: Claims, parts: Services) -> models.RegisteredKeys:
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


async def wallet(request: Request, caller: Claims, parts: Services) -> models.Wallets:
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


async def key_token(request: Request, caller: Claims, parts: Services) -> models.KeyToken:
    """The token says no more than the access token it is for, and holds no longer; it counts for
    nodes alone."""
    key_id = request.query_params.get("id", "")
    if not parts.gateway.registry.is_present_key(caller.user_id, key_id):
        raise parts.gateway.registry.missing_key(caller.user_id, key_id)
    # It must not outlive the access token.
    lifetime_s = min(parts.token_lifetime_s, parts.token_keys.remaining_s(caller))
    token = parts.token_keys.issue_key(caller.user_id, caller.username, key_id, lifetime_s)
    return models.KeyToken(
        token=token, token_type="Bearer", expires_in=math.ceil(lifetime_s), key_id=key_id
    )


async def address(request: Request, caller: Claims, parts: Services) -> models.Addresses:
    """The key need not be anybody's."""
    curve = request.query_params.get("curve", "")
    public_key = request.query_params.get("public_key", "")
    if curve not in CURVES:
        raise Refused(BAD_REQUEST, "Invalid curve")
    try:
        if any(map(str.isspace, public_key)):  # ``fromhex`` would skip it
            raise ValueError("white space")
        found = addresses(curve, bytes.fromhex(public_key.removeprefix("0x")))
    except (ValueError, InvalidEncoding):
        raise Refused(BAD_REQUEST, "Invalid public_key") from None
    return models.Addresses(**found)


async def nodes(request: Request) -> models.MpcNodes:
    """Public keys of the MPC nodes, which their identities vouch for. Needs no token."""
    gateway = services_of(request).gateway
    return models.MpcNodes(
        {
            ROLES[party]: models.MpcNode(
                identifier=party,
                identity=hello.identity.hex(),
                seal_key=hello.seal_key.hex(),
                signature=hello.signature.hex(),
                boot=hello.boot.hex(),
                seal_number=hello.seal_number,
                answers=gateway.links[party].is_answering,
            )
            for party, hello in (await gateway.hellos()).items()
        }
    )


# ---------------------------------------------------------------------- requests


def _explain(error: ValidationError) -> str:
    """Return the first fault in a body, without the value."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
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


# ---------------------------------------------------------------------- operations


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


WRONG_KEY: Final = _error("Unauthorized. Another API key or secret.")
KEY_ID: Final = Parameter("query", "id", models.KeyId, "key_id", required=True)
CURVE: Final = Parameter("query", "curve", models.Curve, "curve", required=True)
PUBLIC_KEY: Final = Parameter("query", "public_key", models.PublicKey, "public_key", required=True)

OPERATIONS: Final = (
    Operation(
        *("GET", "/.well-known/jwks.json", signing_keys, models.SigningKeys),
        "Public keys that verify tokens",
        tag=AUTH,
        security=(),
        failures=fails_with(unauthorized={}),
    ),
    BackendOperation(
        *("POST", "/member/user-management/v3/signup", sign_up, models.User, "Make a user"),
        body=models.NewUser,
        failures=fails_with(CONFLICT, *_OF_BODIES, unauthorized=WRONG_KEY),
        status=201,
    ),
    BackendOperation(
        *("POST", "/auth/auth-service/v3/login", login, models.AccessToken),
        "Get an access token for a user",
        body=models.Login,
        media_type=FORM,
        failures=fails_with(*_OF_BODIES, unauthorized=WRONG_KEY),
        headers=NO_STORE,
    ),
    UserOperation(
        *("GET", "/wallet/v1/user", user, models.User, "Who the token is for"),
        failures=fails_with(NOT_FOUND, UNAVAILABLE),
    ),
    UserOperation(
        *("GET", "/wallet/v1/keys", keys, models.RegisteredKeys, "The user's keys"),
        failures=fails_with(*_BY_BOTH_NODES),
    ),
    UserOperation(
        *("GET", "/wallet/v1/wallet", wallet, models.Wallets),
        "The user's keys with their addresses",
        failures=fails_with(*_BY_BOTH_NODES),
    ),
    UserOperation(
        *("GET", "/wallet/v1/token", key_token, models.KeyToken, "Get a token for one key"),
        parameters=(KEY_ID,),
        failures=fails_with(NOT_FOUND, UNAVAILABLE),
        headers=NO_STORE,
    ),
    UserOperation(
        *("GET", "/wallet/v1/address", address, models.Addresses, "Addresses of any public key"),
        parameters=(CURVE, PUBLIC_KEY),
        failures=fails_with(BAD_REQUEST),
    ),
    Operation(
        *("GET", "/mpc/v1/nodes", nodes, models.MpcNodes, "Who the MPC nodes are"),
        tag=INTERNAL,
        security=(),
        failures=fails_with(*_BY_BOTH_NODES, unauthorized={}),
    ),
)
"""All operations, in the document's order."""
