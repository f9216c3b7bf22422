"""The flow's endpoints as Starlette routes, for the gateway to mount."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim import strict_json
from mpcsim.error_codes import Code
from mpcsim.errors import InvalidEncoding
from mpcsim.smart_account.endpoints import Endpoint
from mpcsim.smart_account.errors import BadRequest, BudgetSpent, SmartAccountError
from mpcsim.smart_account.fields import MAX_BYTES
from mpcsim.smart_account.service import Reply
from mpcsim.strict_json import DuplicateMember


class Caller(Protocol):
    """A user who has been authenticated."""

    @property
    def user_id(self) -> str: ...


Authorize = Callable[[Request], Caller]
"""Return who is calling, or raise (its own exception, with its own 401); called before the body is
read."""

Answer = Callable[[Endpoint, Mapping[str, object], str], Reply]
"""``SmartAccountService.answer``; called in a worker thread."""

MAX_BODY_BYTES: Final = 8 * MAX_BYTES + 4096
"""Three byte fields of the greatest length, in hex, with room to spare."""


class TooLarge(SmartAccountError):
    """The body is longer than any valid request."""

    status = 413
    error_code = Code.UNSUPPORTED


def routes(answer: Answer, authorize: Authorize) -> list[Route]:
    """One route for each endpoint of the flow.

    The service computes in a worker thread, so that an operation in the EVM does not hold up the
    event loop. Errors are ``{"error": "..."}`` with the status of their kind.
    """
    return [_route(endpoint, answer, authorize) for endpoint in Endpoint]


def _route(endpoint: Endpoint, answer: Answer, authorize: Authorize) -> Route:
    async def handle(request: Request) -> Response:
        caller = authorize(request)
        try:
            members = await _members(request) if endpoint.method == "POST" else {}
            members |= request.path_params
            reply = await run_in_threadpool(answer, endpoint, members, caller.user_id)
        except SmartAccountError as refused:
            # The chain's own words may hold half of a surrogate pair: UTF-8 has none.
            text = str(refused).encode(errors="backslashreplace").decode()
            headers = refused.error_code.headers()
            if isinstance(refused, BudgetSpent):
                headers["Retry-After"] = str(refused.wait_s)
            return JSONResponse({"error": text}, refused.status, headers)
        return JSONResponse(reply)

    return Route(endpoint.path, handle, methods=[endpoint.method], name=endpoint.name.lower())


async def _members(request: Request) -> dict[str, object]:
    """The body, a JSON object."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise TooLarge(f"the body is longer than {MAX_BODY_BYTES} bytes")
    except ClientDisconnect:
        raise BadRequest("the body is incomplete") from None
    try:
        members = strict_json.parse(bytes(body))
    except DuplicateMember as error:
        raise BadRequest(f"the body {error}") from None
    except InvalidEncoding:
        raise BadRequest("the body is not JSON") from None
    if not isinstance(members, dict):
        raise BadRequest("the body is not a JSON object")
    return members
