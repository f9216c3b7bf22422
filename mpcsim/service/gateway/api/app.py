"""The gateway's HTTP interface.

``/auth``, ``/member``, ``/wallet/v1``: JSON, about users, tokens and registered keys (``routes``).
``/mpc/v1``: the MPC verbs, with binary bodies (``wire``). ``/api/docs``: the page that describes
all of them (``openapi``). Every error is JSON with an ``error`` member, a 401 of a token
``{"code", "message"}``; its code for programs is in a header (``mpcsim.service.error_codes``).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim.errors import UsageError
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import (
    BAD_REQUEST,
    UNAUTHORIZED,
    UNAVAILABLE,
    NodeFailed,
    Refused,
    Undecided,
    too_many_requests,
)
from mpcsim.service.gateway.api.routes import (
    MAX_BODY_BYTES,
    OPERATIONS,
    Services,
    UnknownCredentials,
)
from mpcsim.service.gateway.api.token_keys import TokenKeys
from mpcsim.service.gateway.defaults import TOKEN_LIFETIME_S
from mpcsim.service.gateway.gateway import Gateway
from mpcsim.service.gateway.sessions.sessions import CallerContext
from mpcsim.service.gateway.sessions.streaming import Reply
from mpcsim.service.rpc import session_keys, wire
from mpcsim.service.rpc.tokens import Claims, TokenError, TokenFault, UnknownSigningKey, bearer
from mpcsim.service.storage.database import StoreFailed
from mpcsim.service.web.api_page import page_routes
from mpcsim.service.web.http import (
    HANDLERS,
    App,
    RequestBody,
    StreamedResponse,
    check_coding,
    read_body,
)
from mpcsim.service.web.idempotency import MEANT_BY, CallName
from mpcsim.service.web.request_records import RequestRecorder, annotate_request
from mpcsim.service.web.user_limits import MOST_OF_USER, TooManyOfUser, UserSlots

LOG = logging.getLogger(__name__)

TITLE: Final = "MPC wallet gateway"
EXPIRED_OF_USER: Final = 4
"""Requests of one user with expired tokens whose bodies are read at a time: such a token is good
for ever."""
UNKNOWN_KEY_LOG_S: Final = 10.0
"""Shortest time between two log lines about tokens of unknown keys: anybody can forge one."""


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
        recorder: records its requests.
        extra_routes: returns further routes; called with the function that authenticates a request.
        most_of_user: concurrent MPC verbs of one user, if the gateway allows more.
    """
    places = UserSlots(min(most_of_user, gateway.max_requests_of_user))
    services = Services(gateway, keys, token_lifetime_s)
    verbs = _Verbs(gateway, keys, places)

    handlers: dict[Any, Any] = {
        **HANDLERS,
        Refused: _on_refused,
        StoreFailed: _on_store_failed,
        TokenError: _on_token_error,
        UnknownCredentials: _on_unknown_credentials,
    }

    def authenticate_with_body(request: Request) -> Claims:
        """Authenticate a request whose body is read elsewhere, and check that body's coding."""
        claims = services.authenticate(request)
        check_coding(request)
        return claims

    routes = [  # matched in this order: those of signing come first
        Route("/mpc/v1/suspend", verbs.suspend, methods=["POST"]),
        Route("/mpc/v1/{verb}", verbs.answer, methods=["POST"]),
        *OPERATIONS,
        *extra_routes(authenticate_with_body),
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

    app = App(recorder=recorder, routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.services = services
    app.state.places = places
    app.state.next_unknown_key_log_at = -math.inf
    return app


class _Verbs:
    """Endpoints with binary bodies."""

    def __init__(self, gateway: Gateway, keys: TokenKeys, places: UserSlots) -> None:
        self._gateway = gateway
        self._places = places
        self._expired = UserSlots(EXPIRED_OF_USER)
        self._verifier = keys

    async def suspend(self, request: Request) -> Response:
        """Suspend a key. No access token is needed: it may have expired since the cheat."""
        _check_binary(request)
        after = await self._gateway.suspend(await read_body(request, MAX_BODY_BYTES))
        if after:
            return Response(after, media_type=wire.MEDIA_TYPE)
        return Response(status_code=204)

    async def answer(self, request: Request) -> Response:
        """Answer one MPC verb."""
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
    from mpcsim.service.gateway.api.openapi import describe_gateway

    return describe_gateway(TITLE, verbs)


def _check_binary(request: Request) -> None:
    if request.headers.get("content-type") != wire.MEDIA_TYPE:
        raise HTTPException(415, f"the body is not {wire.MEDIA_TYPE}")


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
