"""Routes that need an access token: what happens around every one of their endpoints.

FastAPI by itself reads and validates the body before anything else. Here the order is: token (401),
a place (503), content type (415), size (413), JSON and fields (400), endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from mpcsim import strict_json
from mpcsim.crypto.groups.curves import CURVES
from mpcsim.errors import InvalidEncoding
from mpcsim.service.error_codes import Code, code_of_framework_status
from mpcsim.service.web.api_page import HeadRoute
from mpcsim.service.web.http import check_coding, media_type
from mpcsim.service.web.user_limits import TooManyOfUser, UserSlots
from mpcsim.strict_json import MAX_VALUES, RefusedDocument
from node.api.auth import Authenticator
from node.errors import ApiError, BadRequest, Unauthorized, error_body
from node.models import EXPECTED
from node.process.logs import request_record
from node.process.timing import Timing
from node.signing.sessions import Caller
from node.wallet.wallet import Wallet

MAX_BODY_BYTES: Final = 1 << 18
"""Highest size of a request's body. The largest that makes sense carries a message of 64 KiB in
hex."""

JSON: Final = "application/json"


@dataclass(frozen=True)
class Call:
    """Context of an endpoint's call, beside its parameters."""

    wallet: Wallet
    caller: Caller
    timing: Timing


def this_call(request: Request) -> Call:
    """The call that ``ProtectedRoute`` made of this request."""
    return cast(Call, request.state.call)


class ProtectedRoute(HeadRoute):
    """A route behind the access token; its answers carry a ``Server-Timing`` header."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def handler(request: Request) -> Response:
            timing = Timing(request.app.state.clock)
            request_record(request).spans = timing.spans
            places: UserSlots = request.app.state.places
            try:
                authenticator: Authenticator = request.app.state.authenticator
                caller = await authenticator.caller(request.headers.get("authorization"))
                request_record(request).user_id = caller.claims.user_id
                with places.hold(caller.claims.user_id):
                    if takes_body:
                        body = await read_body(request)
                        request = JsonRequest(request.scope, request.receive, body)
                        gone = partial(_wait_for_disconnect, request.receive)
                        caller = Caller(caller.token, caller.claims, gone)
                    request.state.call = Call(request.app.state.wallet, caller, timing)
                    response = await handle(request)
            except TooManyOfUser as error:
                response = error_answer(request, ApiError(503, str(error), Code.BUSY))
            except (ApiError, HTTPException, RequestValidationError) as error:
                response = error_answer(request, error)
            response.headers["server-timing"] = timing.header()
            # Shares, tokens and signatures are for the caller alone.
            response.headers["cache-control"] = "no-store"
            return response

        return handler


async def read_body(request: Request) -> bytes:
    """The body, if it is of the right type and size.

    Raises:
        ApiError: 415, 413, or 400 for a caller who is gone.
        HTTPException: 415 for one that is compressed.
    """
    check_coding(request)
    if media_type(request) != JSON:
        raise ApiError(415, f"The content type must be {JSON}")
    received = bytearray()
    try:
        async for chunk in request.stream():
            received += chunk
            if len(received) > MAX_BODY_BYTES:
                # The server reads the rest and forgets it.
                raise ApiError(413, f"The body has more than {MAX_BODY_BYTES} bytes")
    except ClientDisconnect:
        raise BadRequest("The connection ended before the body did") from None
    return bytes(received)


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the caller hangs up; once the body is read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class JsonRequest(Request):
    """A request whose body has been read, to be parsed as UTF-8 JSON."""

    def __init__(self, scope: Scope, receive: Receive, body: bytes) -> None:
        super().__init__(scope, receive)
        self._received = body

    async def body(self) -> bytes:
        return self._received

    async def json(self) -> Any:
        try:
            return strict_json.parse(self._received, MAX_VALUES)
        except RefusedDocument as error:
            raise HTTPException(400, f"The body {error}") from None
        except InvalidEncoding:
            raise HTTPException(400, "The body is not valid JSON") from None


def json_answer(model: BaseModel) -> Response:
    """200 with the model as JSON, without the members that it does not have."""
    return Response(model.model_dump_json(exclude_none=True), media_type=JSON)


def error_answer(request: Request, error: Exception) -> Response:
    """The answer to a call that failed, in the one form of all errors; notes it for the log."""
    headers: dict[str, str] | None = None
    match error:
        case ApiError():
            status, message, headers = error.status, error.message, error.headers
        case RequestValidationError():
            status, message, headers = 400, explain(error), Code.BAD_REQUEST.headers()
        case HTTPException():
            status, message = error.status_code, _framework_message(error)
            headers = code_of_framework_status(status).headers() | dict(error.headers or {})
        case _:
            raise error
    record = request_record(request)
    record.error = message
    record.why = error.why if isinstance(error, Unauthorized) else None
    return Response(error_body(message), status, headers, JSON)


def explain(error: RequestValidationError) -> str:
    """Return the first fault in a request's parameters, without the value."""
    fault = error.errors()[0]
    source, *path = fault["loc"]
    missing = fault["type"] == "missing"
    if not path or not isinstance(path[0], str):
        return "The body is missing" if missing else "The body must be a JSON object"
    field = path[0]
    if missing:
        return f"Missing {'query parameter' if source == 'query' else 'field'}: {field}"
    if field == "curve":
        return f"Invalid curve: must be {' or '.join(CURVES)}"
    if fault["type"] in ("hash_length", "path"):
        return f"Invalid {field}: {fault['msg']}"
    return f"Invalid {field}: must be {EXPECTED[field]}"


def _framework_message(error: HTTPException) -> str:
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return "Not found"
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return "Method not allowed"
        case _:
            return error.detail
