"""HTTP interface of an MPC node: ``POST /{verb}`` with a grant, for the gateway; ``GET /hello``.

Bodies are binary (``wire``). Errors are JSON with an ``error`` member, and further members by which
the gateway tells them apart (``mpcsim.service.rpc.error_encoding``).
"""

from __future__ import annotations

import base64

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim.service.errors import Refused
from mpcsim.service.mpc_node.node import MpcNode
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.error_encoding import to_json
from mpcsim.service.rpc.grants import GrantRefused
from mpcsim.service.web.http import HANDLERS, App, read_body
from mpcsim.service.web.request_records import RequestRecorder
from mpcsim.service.web.threads import in_thread


def create_app(node: MpcNode, recorder: RequestRecorder | None = None) -> App:
    """Create the application.

    Args:
        book: records its requests.
    """

    async def hello(request: Request) -> Response:
        return Response(node.hello().to_bytes(), media_type=wire.MEDIA_TYPE)

    async def handle(request: Request) -> Response:
        verb = request.path_params["verb"]
        if verb not in node.verbs:
            raise HTTPException(404)
        grant = _grant(request.headers.get("authorization", ""))
        node.check_grant(grant)
        body = await read_body(request, wire.MAX_BODY_BYTES)
        if node.is_quick(verb, body):
            reply = node.handle(verb, grant, body)
        else:
            reply = await in_thread(node.handle, verb, grant, body)
        return Response(reply, media_type=wire.MEDIA_TYPE)

    async def on_refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return JSONResponse(to_json(error, node.me), error.status, error.headers())

    return App(
        recorder=recorder,
        routes=[
            Route(wire.HELLO_PATH, hello, methods=["GET"]),
            Route("/{verb}", handle, methods=["POST"]),
        ],
        exception_handlers={**HANDLERS, Refused: on_refused},
    )


def _grant(authorization: str) -> bytes:
    """Return the grant in a header ``Bearer ...`` (base64url)."""
    scheme, _, text = authorization.partition(" ")
    try:
        if scheme.lower() == "bearer":
            return base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except ValueError:
        pass
    raise GrantRefused("the request bears no grant")
