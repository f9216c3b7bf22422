"""Operations of the interface: what happens around every one of them.

The order is: token (401), a place (503), content type (415), size (413), JSON and fields (400),
handler. What a request must have is declared once, by pydantic's types; ``node.api.docs`` makes the
document of the same declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from mpcsim import strict_json
from mpcsim.crypto.groups.curves import CURVES
from mpcsim.errors import InvalidEncoding, escape_unprintable
from mpcsim.service.error_codes import Code, code_of_framework_status
from mpcsim.service.web import api_page as documented
from mpcsim.service.web.api_page import JSON, Operation
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

MAX_SHOWN: Final = 64
"""Characters of an unknown field's name in the error."""


@dataclass(frozen=True)
class Call:
    """Context of an operation's call, beside its parameters."""

    wallet: Wallet
    caller: Caller
    timing: Timing


class Parameter(documented.Parameter):
    """Parameter of a request beside its body; None where a request lacks it."""

    def read(self, request: Request) -> Any:
        """Return the value that a request has.

        Raises:
            BadRequest: a value that is missing or malformed.
        """
        found = (request.query_params if self.place == "query" else request.headers).get(self.name)
        if found is None:
            if self.required:
                raise BadRequest(f"Missing {self.place} parameter: {self.name}")
            return None
        try:
            return self._adapter.validate_python(found)
        except ValidationError as error:
            raise BadRequest(explain(error, self.name)) from None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.type)


class ProtectedOperation(Operation):
    """Operation behind the access token; its answers carry a ``Server-Timing`` header. The handler
    gets the call and the request's parameters."""

    tag = "wallet"

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        timing = Timing(request.app.state.clock)
        request_record(request).spans = timing.spans
        places: UserSlots = request.app.state.places
        try:
            authenticator: Authenticator = request.app.state.authenticator
            caller = await authenticator.caller(request.headers.get("authorization"))
            request_record(request).user_id = caller.claims.user_id
            with places.hold(caller.claims.user_id):
                document: Any = None
                if self.body is not None:
                    document = parse_body(await read_body(request))
                    gone = partial(_wait_for_disconnect, request.receive)
                    caller = Caller(caller.token, caller.claims, gone)
                arguments: dict[str, Any] = {}
                for parameter in self.parameters:
                    assert isinstance(parameter, Parameter)
                    arguments[parameter.argument] = parameter.read(request)
                if self.body is not None:
                    arguments["body"] = validate(self.body, document)
                call = Call(request.app.state.wallet, caller, timing)
                response = self.to_response(await self.handler(call, **arguments))
        except TooManyOfUser as error:
            response = error_answer(request, ApiError(503, str(error), Code.BUSY))
        except (ApiError, HTTPException) as error:
            response = error_answer(request, error)
        response.headers["server-timing"] = timing.header()
        # Shares, tokens and signatures are for the caller alone.
        response.headers["cache-control"] = "no-store"
        return response


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


def parse_body(body: bytes) -> Any:
    """Return what a body of UTF-8 JSON stands for.

    Raises:
        BadRequest: it is empty, no JSON, or too much of it.
    """
    if not body:
        raise BadRequest("The body is missing")
    try:
        return strict_json.parse(body, MAX_VALUES)
    except RefusedDocument as error:
        raise BadRequest(f"The body {error}") from None
    except InvalidEncoding:
        raise BadRequest("The body is not valid JSON") from None


def validate(model: type[BaseModel], document: Any) -> BaseModel:
    """Return a request's fields.

    Raises:
        BadRequest: one is missing or malformed.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise BadRequest(explain(error)) from None


def error_answer(request: Request, error: Exception) -> Response:
    """The answer to a call that failed, in the one form of all errors; notes it for the log."""
    headers: dict[str, str] | None = None
    match error:
        case ApiError():
            status, message, headers = error.status, error.message, error.headers
        case HTTPException():
            status, message = error.status_code, _framework_message(error)
            headers = code_of_framework_status(status).headers() | dict(error.headers or {})
        case _:
            raise error
    record = request_record(request)
    record.error = message
    record.why = error.why if isinstance(error, Unauthorized) else None
    return Response(error_body(message), status, headers, JSON)


def explain(error: ValidationError, parameter: str | None = None) -> str:
    """Return the first fault in a request's fields, or in one parameter, without the value."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = parameter or (fault["loc"][0] if fault["loc"] else None)
    if not isinstance(field, str):
        return "The body must be a JSON object"
    if fault["type"] == "missing":
        return f"Missing field: {field}"
    if fault["type"] == "extra_forbidden":
        return f"Unknown field: {escape_unprintable(field[:MAX_SHOWN])}"
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
