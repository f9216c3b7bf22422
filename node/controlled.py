"""``python -m node.controlled``: the node as a process that takes switches.

They are those of ``mpcsim.service.fault_injection``.

``mpcsim serve --control`` starts it, and says over its standard input what to switch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.types import ASGIApp, Scope

from mpcsim.service.error_codes import Code
from mpcsim.service.errors import (
    CONFLICT,
    GENERATION,
    GUESSES,
    INTERNAL_ERROR,
    RECOVERY,
    SIGNATURES,
    SIGNING,
    key_busy,
    rate_exceeded,
    too_many_key_creations,
)
from mpcsim.service.fault_injection.process_faults import (
    FaultMiddleware,
    ProcessFaults,
    accept_faults,
)
from node.__main__ import main
from node.api.protected import error_answer
from node.app import from_environment
from node.errors import (
    ApiError,
    Conflict,
    Limited,
    OutcomeUnknown,
    Unauthorized,
    Unreachable,
    Upstream,
    UpstreamTimeout,
)
from node.process.timing import Timing

AFTER_S: Final = "1"
"""Seconds in the ``Retry-After`` header of injected failures."""
_EXPIRED: Final = {"code": 757, "message": "JWT_EXPIRED"}
_MAKING: Final = {"generate": GENERATION, "recover": RECOVERY}
"""Operation of which only one may run for a key, by endpoint."""
_TOO_MUCH: Final = {
    **dict.fromkeys(_MAKING, too_many_key_creations(1)),
    **dict.fromkeys(("sign", "presign"), rate_exceeded(SIGNATURES, 1)),
    **dict.fromkeys(("publickey", "validate/password"), rate_exceeded(GUESSES, 1)),
}
"""Error of endpoints whose rate may be limited."""
_FAILURES: Final[Mapping[str, Callable[[str], ApiError]]] = {
    "401": lambda endpoint: Unauthorized(_EXPIRED),
    "409": lambda endpoint: (
        Conflict(str(key_busy(_MAKING[endpoint])), Code.BUSY, AFTER_S)
        if endpoint in _MAKING
        else Upstream(
            CONFLICT,
            "Conflict",
            str(key_busy(SIGNING, has_queue=False)),
            code=Code.BUSY,
            retry_after=AFTER_S,
        )
    ),
    "429": lambda endpoint: Limited(str(_TOO_MUCH[endpoint]), AFTER_S),
    "500": lambda endpoint: Upstream(INTERNAL_ERROR, "Internal Server Error", "internal error"),
    "502": lambda endpoint: _without_gateway_answer(endpoint, Unreachable()),
    "504": lambda endpoint: _without_gateway_answer(endpoint, UpstreamTimeout()),
}
"""Errors of the node by the injected answer: those that it has anyway, from the endpoint."""


def error_response_for(endpoint: str, answer: str) -> ApiError:
    """The error with which a call ends that is to fail."""
    return _FAILURES[answer](endpoint)


def _without_gateway_answer(endpoint: str, error: ApiError) -> ApiError:
    """Return the error of a caller whose request got no answer from the gateway."""
    return OutcomeUnknown(error) if endpoint in _MAKING else error


def _answers(scope: Scope, endpoint: str, answer: str) -> ASGIApp:
    response = error_answer(Request(scope), error_response_for(endpoint, answer))
    response.headers["server-timing"] = Timing().header()
    response.headers["cache-control"] = "no-store"
    return response


def fault_middleware(faults: ProcessFaults) -> Middleware:
    """The middleware of a node that applies faults."""
    return Middleware(FaultMiddleware, faults=faults, answers=_answers)


def application(faults: ProcessFaults) -> Starlette:
    """The node as the environment wants it, with switches around it."""
    app = from_environment(faults.now)
    # Innermost, so that the log shows it.
    app.user_middleware.append(fault_middleware(faults))
    return app


if __name__ == "__main__":
    sys.exit(main(application=partial(application, accept_faults())))
