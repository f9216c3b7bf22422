"""Routes of the gateway's HTTP interface.

``/auth`` and ``/member``: access tokens and users. ``/wallet/v1``: what is registered. ``/mpc/v1``:
the MPC verbs, with binary bodies (``wire``). ``/api/docs``: the page that describes all of them
(``openapi``). Every error is JSON with an ``error`` member, a 401 ``{"code", "message"}``; its code
for programs is in a header (``mpcsim.service.error_codes``).
"""

from __future__ import annotations

import base64
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim import strict_json
from mpcsim.crypto.groups.curves import CURVES
from mpcsim.errors import InvalidEncoding, UsageError, escape_unprintable
from mpcsim.ids import ROLES
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import (
    BAD_REQUEST,
    CONFLICT,
    UNAUTHORIZED,
    UNAVAILABLE,
    NodeFailed,
    Refused,
    Undecided,
    no_such_key,
    no_such_user,
    too_many_requests,
)
from mpcsim.service.gateway.api.token_keys import TokenKeys
from mpcsim.service.gateway.gateway import Gateway
from mpcsim.service.gateway.links.links import Times
from mpcsim.service.gateway.registry import RegisteredKey, UsernameTaken
from mpcsim.service.gateway.sessions.sessions import CallerContext
from mpcsim.service.gateway.sessions.streaming import Reply
from mpcsim.service.rpc import session_keys, wire
from mpcsim.service.rpc.addresses import addresses
from mpcsim.service.rpc.tokens import Claims, TokenError, TokenFault, UnknownSigningKey, bearer
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.web.api_page import page_routes
from mpcsim.service.web.http import (
    HANDLERS,
    App,
    RequestBody,
    StreamedResponse,
    check_coding,
    media_type,
    read_body,
)
from mpcsim.service.web.idempotency import MEANT_BY, CallName
from mpcsim.service.web.request_records import RequestRecorder, annotate_request
from mpcsim.service.web.threads import in_thread
from mpcsim.service.web.user_limits import MOST_OF_USER, TooManyOfUser, UserSlots
from mpcsim.strict_json import DuplicateMember

LOG = logging.getLogger(__name__)

TITLE: Final = "MPC wallet gateway"
TOKEN_LIFETIME_S: Final = 3600.0
MAX_FORM_BYTES: Final = 4096
EXPIRED_OF_USER: Final = 4
"""Requests of one user with expired tokens whose bodies are read at a time: such a token is good
for ever."""
UNKNOWN_KEY_LOG_S: Final = 10.0
"""Shortest time between two log lines about tokens of unknown keys: anybody can forge one."""
NO_STORE: Final = {"Cache-Control": "no-store"}
"""Headers of every answer with a token (RFC 6749, section 5.1)."""


class UnknownCredentials(Exception):
    """Error: a request lacks the gateway's API key and secret."""


def create_app(
    gateway: Gateway,
    keys: TokenKeys,
    *,
    token_lifetime_s: float = TOKEN_LIFETIME_S,
    extra_routes: Callable[[Callable[[Request], Claims]], list[Route]] = lambda authorize: [],
    most_of_user: int = MOST_OF_USER,
    recorder: RequestRecorder | None = None,
) -> App:
    """Create the application.

    Args:
        keys: signing keys of tokens.
        book: records its requests.
        extra_routes: returns further routes; called with the function that authenticates a request.
        most_of_user: concurrent MPC verbs of one user, if the gateway allows more.
    """
    places = UserSlots(min(most_of_user, gateway.max_requests_of_user))
    api = _Api(gateway, keys, token_lifetime_s, places)
    routes = [  # matched in this order: those of signing come first
        Route("/mpc/v1/nodes", api.nodes, methods=["GET"]),
        Route("/mpc/v1/suspend", api.suspend, methods=["POST"]),
        Route("/mpc/v1/{verb}", api.mpc, methods=["POST"]),
        Route("/.well-known/jwks.json", api.jwks, methods=["GET"]),
        Route("/member/user-management/v3/signup", api.sign_up, methods=["POST"]),
        Route("/auth/auth-service/v3/login", api.login, methods=["POST"]),
        Route("/wallet/v1/user", api.user, methods=["GET"]),
        Route("/wallet/v1/keys", api.keys, methods=["GET"]),
        Route("/wallet/v1/wallet", api.wallet, methods=["GET"]),
        Route("/wallet/v1/token", api.key_token, methods=["GET"]),
        Route("/wallet/v1/address", api.address, methods=["GET"]),
        *extra_routes(api.authenticate_with_body),
        *page_routes(TITLE, partial(_openapi, gateway.verbs)),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await gateway.introduction.introduce_at_start()
        gateway.suspensions.deliver()
        yield
        await gateway.introduction.stop()
        await gateway.suspensions.stop()
        await gateway.attestations.stop()
        await gateway.close()

    app = App(
        recorder=recorder,
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            **HANDLERS,
            Refused: _on_refused,
            StoreFailed: _on_store_failed,
            TokenError: _on_token_error,
            UnknownCredentials: _on_unknown_credentials,
        },
    )
    app.router.redirect_slashes = False
    app.state.places = places
    app.state.next_unknown_key_log_at = -math.inf
    return app


class _Api:
    """Endpoints of the gateway."""

    def __init__(
        self, gateway: Gateway, keys: TokenKeys, token_lifetime_s: float, places: UserSlots
    ) -> None:
        self._gateway = gateway
        self._places = places
        self._expired = UserSlots(EXPIRED_OF_USER)
        self._registry = gateway.registry
        self._issuer = keys
        self._verifier = keys
        self._lifetime_s = token_lifetime_s

    def authenticate(self, request: Request) -> Claims:
        """Return the claims of a request's access token.

        Raises:
            TokenError: there is none, or it is not valid here.
        """
        claims = self._verifier.verify(
            bearer(request.headers.get("authorization"))
        ).require_access()
        annotate_request(user_id=claims.user_id)
        return claims

    def authenticate_with_body(self, request: Request) -> Claims:
        """Authenticate a request whose body is read elsewhere, and check that body's coding."""
        claims = self.authenticate(request)
        check_coding(request)
        return claims

    # ------------------------------------------------------------------ users and tokens

    async def jwks(self, request: Request) -> Response:
        await self._issuer.delete_expired_keys()
        return JSONResponse(self._issuer.jwks())

    async def sign_up(self, request: Request) -> Response:
        """Create a user: JSON ``{"username"}``, with the API key and secret (HTTP Basic)."""
        self._check_credentials(request)
        # CORS: a web page may send other types to another site without a preflight request.
        if media_type(request) != "application/json":
            raise HTTPException(415, "the body is not application/json")
        try:
            document = strict_json.parse(await read_body(request, MAX_FORM_BYTES))
            username = document["username"]
        except DuplicateMember as error:
            raise Refused(BAD_REQUEST, f"the body {error}") from None
        except (InvalidEncoding, TypeError, KeyError):
            username = None
        if not isinstance(username, str):
            raise Refused(BAD_REQUEST, 'the body is not JSON with a "username"')
        if unknown := sorted(document.keys() - {"username"}):
            raise Refused(BAD_REQUEST, f"{escape_unprintable(unknown[0][:64])}: unknown field")
        try:
            user = await in_thread(self._registry.sign_up, username)
        except UsageError as error:
            raise Refused(BAD_REQUEST, str(error)) from None
        except UsernameTaken:
            raise Refused(CONFLICT, "username is taken") from None
        annotate_request(user_id=user.user_id)
        return JSONResponse(vars(user), 201)

    async def login(self, request: Request) -> Response:
        """Issue an access token for a user, with the API key and secret (HTTP Basic)."""
        self._check_credentials(request)
        form = _parse_form(await read_body(request, MAX_FORM_BYTES))
        if form.get("grant_type") != "client_credentials":
            raise Refused(BAD_REQUEST, "grant_type: client_credentials is the only one")
        try:
            user = self._registry.user_by_name(form.get("username", ""))
        except UsageError as error:
            raise Refused(BAD_REQUEST, str(error)) from None
        if user is None:
            raise Refused(BAD_REQUEST, "username: no such user; sign up first")
        annotate_request(user_id=user.user_id)
        token = self._issuer.issue_access(user.user_id, user.username, self._lifetime_s)
        await self._issuer.delete_expired_keys()
        return JSONResponse(
            {"access_token": token, "token_type": "Bearer", "expires_in": int(self._lifetime_s)},
            headers=NO_STORE,
        )

    def _check_credentials(self, request: Request) -> None:
        """Check that the caller is the wallet's backend.

        Raises:
            UnknownCredentials: API key and secret (HTTP Basic) are missing, or not the gateway's.
        """
        if not self._registry.credentials().match(*_parse_basic_auth(request)):
            raise UnknownCredentials

    # ------------------------------------------------------------------ registered keys

    async def user(self, request: Request) -> Response:
        claims = self.authenticate(request)
        user = self._registry.user(claims.user_id)
        if user is None:
            raise no_such_user()
        return JSONResponse(vars(user))

    async def keys(self, request: Request) -> Response:
        claims = self.authenticate(request)
        keys = [
            _key_document(key) | await self._record(key)
            for key in self._registry.keys(claims.user_id)
        ]
        return JSONResponse({"user_id": claims.user_id, "keys": keys})

    async def wallet(self, request: Request) -> Response:
        claims = self.authenticate(request)
        wallets = [
            {
                "key": {"curve": key.curve, "public_key": "0x" + key.public_key.hex()}
                | await self._record(key),
                "address": addresses(key.curve, key.public_key),
            }
            for key in self._registry.keys(claims.user_id)
        ]
        return JSONResponse({"user_id": claims.user_id, "wallets": wallets})

    async def _record(self, key: RegisteredKey) -> dict[str, str]:
        """Return a key's record with both MPC nodes' signatures, as a member of an answer."""
        record = await self._gateway.activation.signed_record(key.user_id, key.curve, Times())
        return {"record": base64.urlsafe_b64encode(record).decode()}

    async def key_token(self, request: Request) -> Response:
        """Issue a token for the MPC verbs that is good for the key ``id`` alone."""
        claims = self.authenticate(request)
        key_id = request.query_params.get("id", "")
        if not self._registry.is_present_key(claims.user_id, key_id):
            raise no_such_key()
        # It must not outlive the access token.
        lifetime_s = min(self._lifetime_s, self._issuer.remaining_s(claims))
        token = self._issuer.issue_key(claims.user_id, claims.username, key_id, lifetime_s)
        return JSONResponse(
            {
                "token": token,
                "token_type": "Bearer",
                "expires_in": math.ceil(lifetime_s),
                "key_id": key_id,
            },
            headers=NO_STORE,
        )

    async def address(self, request: Request) -> Response:
        """Return addresses of any public key: ``curve``, and ``public_key`` as ``0x`` hex."""
        self.authenticate(request)
        curve = request.query_params.get("curve", "")
        text = request.query_params.get("public_key", "")
        if curve not in CURVES:
            raise Refused(BAD_REQUEST, "Invalid curve")
        try:
            if any(map(str.isspace, text)):  # ``fromhex`` would skip it
                raise ValueError("white space")
            found = addresses(curve, bytes.fromhex(text.removeprefix("0x")))
        except (ValueError, InvalidEncoding):
            raise Refused(BAD_REQUEST, "Invalid public_key") from None
        return JSONResponse(found)

    # ------------------------------------------------------------------ MPC

    async def nodes(self, request: Request) -> Response:
        """Return the MPC nodes' identities, with the seal keys and boots that they sign for."""
        return JSONResponse(
            {
                ROLES[party]: {
                    "identifier": party,
                    "identity": hello.identity.hex(),
                    "seal_key": hello.seal_key.hex(),
                    "signature": hello.signature.hex(),
                    "boot": hello.boot.hex(),
                    "seal_number": hello.seal_number,
                    "answers": self._gateway.links[party].is_answering,
                }
                for party, hello in (await self._gateway.hellos()).items()
            }
        )

    async def suspend(self, request: Request) -> Response:
        """Suspend a key. No access token is needed: it may have expired since the cheat."""
        _check_binary(request)
        after = await self._gateway.suspend(await read_body(request, MAX_FORM_BYTES))
        if after:
            return Response(after, media_type=wire.MEDIA_TYPE)
        return Response(status_code=204)

    async def mpc(self, request: Request) -> Response:
        verb = request.path_params["verb"]
        if verb not in self._gateway.verbs:
            raise HTTPException(404)
        token = bearer(request.headers.get("authorization"))
        try:
            claims = self._verifier.verify(token)
        except TokenError as error:
            if error.code == TokenFault.JWT_EXPIRED and verb in ("exchange", "activate"):
                await self._cancel_session(request, verb, token)
            raise
        annotate_request(claims.user_id)
        _check_binary(request)
        name = _idempotency_name(request, verb) if verb in MEANT_BY else None
        is_guess = request.scope["query_string"] != wire.NO_GUESS
        caller = CallerContext(
            claims,
            wait_for_disconnect=partial(_wait_for_disconnect, request),
            name=name,
            is_password_guess=is_guess,
            proof=_session_proof(request),
        )
        annotate_request(spans=caller.times.spans)
        try:
            with self._places.hold(claims.user_id):
                reply = await self._reply(verb, caller, request)
        except TooManyOfUser:
            raise too_many_requests() from None
        headers = {"Server-Timing": caller.times.header()}
        if isinstance(reply, Reply):
            return StreamedResponse(reply.pieces(), headers, wire.MEDIA_TYPE)
        if not reply:
            return Response(status_code=204, headers=headers)
        return Response(reply, headers=headers, media_type=wire.MEDIA_TYPE)

    async def _cancel_session(self, request: Request, verb: str, token: str) -> None:
        """Free the place of the session that a request with an expired token is about: nobody can
        continue it. Beyond ``EXPIRED_OF_USER`` at a time, bodies are not read."""
        user_id = self._verifier.claims_of_expired(token).user_id
        with suppress(TooManyOfUser), self._expired.hold(user_id):
            body = await read_body(request, wire.MAX_BODY_BYTES)
            await self._gateway.cancel_session(user_id, verb, body, _session_proof(request))

    async def _reply(self, verb: str, caller: CallerContext, request: Request) -> Reply | bytes:
        if not self._gateway.can_stream(verb):
            body = await read_body(request, wire.MAX_BODY_BYTES)
            return await self._gateway.handle(verb, caller, body)
        incoming = RequestBody(request, wire.MAX_BODY_BYTES)
        try:
            return await self._gateway.handle_stream(verb, caller, incoming)
        finally:
            incoming.stop()


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until the caller disconnects. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _session_proof(request: Request) -> str | None:
    """Return the signature with the session's key pair, if there is one."""
    return request.headers.get(session_keys.HEADER)


def _idempotency_name(request: Request, verb: str) -> CallName | None:
    """Return the idempotency key of a call that makes a key, if it has one."""
    try:
        return CallName.from_headers(request.headers, verb)
    except UsageError as error:
        raise Refused(BAD_REQUEST, str(error)) from None


def _openapi(verbs: frozenset[str]) -> dict[str, Any]:
    # Imported late: it loads Ethereum libraries, and most gateways never serve the document.
    from mpcsim.service.gateway.api.openapi import openapi_document

    return openapi_document(TITLE, verbs)


def _key_document(key: RegisteredKey) -> dict[str, str]:
    return {
        "key_id": key.key_id,
        "curve": key.curve,
        "public_key": "0x" + key.public_key.hex(),
        "created_at": key.created_at,
    }


def _check_binary(request: Request) -> None:
    if request.headers.get("content-type") != wire.MEDIA_TYPE:
        raise HTTPException(415, f"the body is not {wire.MEDIA_TYPE}")


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


# ---------------------------------------------------------------------- errors


async def _on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    document: dict[str, Any] = {"error": str(error)}
    if isinstance(error, NodeFailed):
        document["party"] = error.party
    if isinstance(error, Undecided):
        document["undecided"] = True
    return JSONResponse(document, error.status, error.headers())


async def _on_store_failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, StoreFailed)
    LOG.error("%s %s: %s", request.method, request.url.path, error)
    return JSONResponse({"error": error.public_text}, UNAVAILABLE, error.code.headers())


async def _on_token_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, TokenError)
    if isinstance(error, UnknownSigningKey):
        _log_unknown_signing_key(request, error)
    return _challenge_response(error.detail(), "Bearer")


def _log_unknown_signing_key(request: Request, error: UnknownSigningKey) -> None:
    """Log a token under an unknown key, at most once in ``UNKNOWN_KEY_LOG_S``."""
    state, now = request.app.state, time.monotonic()
    if now >= state.next_unknown_key_log_at:
        state.next_unknown_key_log_at = now + UNKNOWN_KEY_LOG_S
        LOG.warning("%s %s: %s", request.method, request.url.path, error)


async def _on_unknown_credentials(request: Request, error: Exception) -> Response:
    return _challenge_response({"error": "unknown API key or secret"}, f'Basic realm="{TITLE}"')


def _challenge_response(document: dict[str, Any], scheme: str) -> Response:
    headers = Code.UNAUTHORIZED.headers() | {"WWW-Authenticate": scheme}
    return JSONResponse(document, UNAUTHORIZED, headers)
