"""The flow's endpoints as Starlette routes, for the gateway to mount.

The service is called without HTTP, too, and reads requests by its table of fields
(``operation.fields``), of which ``openapi`` makes the document: models of FastAPI would be a second
copy of that table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim import strict_json
from mpcsim.errors import InvalidEncoding
from mpcsim.service.error_codes import Code
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import (
    BadRequest,
    BudgetSpent,
    SmartAccountError,
    TooManyRequests,
)
from mpcsim.service.smart_account.operation.fields import MAX_BYTES
from mpcsim.service.smart_account.service import Reply
from mpcsim.strict_json import MAX_VALUES, RefusedDocument


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


AT_A_TIME_OF_USER: Final = 2
"""Requests of one user that are answered at a time; others of this user wait for them."""
REQUESTS_OF_USER: Final = 16
"""Requests of one user that are answered or wait; more are refused."""
THREADS: Final = 32
"""Worker threads, besides those of the rest of the process."""
RETRY_AFTER_S: Final = 1


class UserQueues:
    """Places of each user's requests, so that no user holds up the others. For one event loop."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def hold(self, user_id: str) -> AsyncIterator[None]:
        """Hold a place in the block; wait for it first, in the order of coming.

        Raises:
            TooManyRequests: so many of this user wait already.
        """
        semaphore, count = self._of.get(user_id) or (asyncio.Semaphore(AT_A_TIME_OF_USER), 0)
        if count >= REQUESTS_OF_USER:
            raise TooManyRequests(
                f"{count} requests of this user are being answered or wait; try again"
            )
        self._of[user_id] = semaphore, count + 1
        try:
            async with semaphore:
                yield
        finally:
            count = self._of[user_id][1] - 1
            if count:
                self._of[user_id] = semaphore, count
            else:
                del self._of[user_id]


def routes(answer: Answer, authorize: Authorize) -> list[Route]:
    """Return one route for each endpoint of the flow.

    The service computes in a worker thread, so that an operation in the EVM does not hold up the
    event loop. Errors are ``{"error": "..."}`` with the status of their kind.
    """
    places, threads = UserQueues(), ThreadPoolExecutor(THREADS, "smart accounts")
    return [_route(endpoint, answer, authorize, places, threads) for endpoint in Endpoint]


def _route(
    endpoint: Endpoint,
    answer: Answer,
    authorize: Authorize,
    places: UserQueues,
    threads: ThreadPoolExecutor,
) -> Route:
    async def handle(request: Request) -> Response:
        caller = authorize(request)
        try:
            # Before the body is read: a refusal costs less than an answer.
            async with places.hold(caller.user_id):
                members = await _members(request) if endpoint.method == "POST" else {}
                members |= request.path_params
                reply = await asyncio.get_running_loop().run_in_executor(
                    threads, answer, endpoint, members, caller.user_id
                )
        except SmartAccountError as refused:
            # The chain's own words may hold half of a surrogate pair: UTF-8 has none.
            text = str(refused).encode(errors="backslashreplace").decode()
            headers = refused.error_code.headers()
            if isinstance(refused, BudgetSpent):
                headers["Retry-After"] = str(refused.wait_s)
            elif isinstance(refused, TooManyRequests):
                headers["Retry-After"] = str(RETRY_AFTER_S)
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
        members = strict_json.parse(bytes(body), MAX_VALUES)
    except RefusedDocument as error:
        raise BadRequest(f"the body {error}") from None
    except InvalidEncoding:
        raise BadRequest("the body is not JSON") from None
    if not isinstance(members, dict):
        raise BadRequest("the body is not a JSON object")
    return members
