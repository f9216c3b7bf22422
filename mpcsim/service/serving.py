"""The gateway behind a socket: one process, because its MPC nodes keep their sessions in memory."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from mpcsim.lifetime import stopped_once
from mpcsim.listening import ConnectionLimits, affordable, listen, options
from mpcsim.service.assembly import OpenGateway

SHUTDOWN_S: Final = 15


def serve(gateway: OpenGateway, host: str, port: int, limits: ConnectionLimits) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, finish what runs, and close the stores.

    Then everything is in the three databases' own files: a copy of these is a backup.

    Raises:
        UsageError: the port is taken, or the address is not this machine's.
    """
    with (
        stopped_once(),
        closing(gateway),
        listen(host, port) as listening,
        suppress(KeyboardInterrupt),
    ):
        # Having finished, it raises the signal once more.
        uvicorn.Server(
            uvicorn.Config(
                Discreet(gateway.app),
                **options(affordable(limits)),
                log_config=None,
                log_level="warning",
                timeout_graceful_shutdown=SHUTDOWN_S,
            )
        ).run(sockets=[listening])


class Discreet:
    """ASGI middleware that keeps unexpected errors from the server's log.

    The application has answered and logged them by the time they come here. The server would add
    their messages, which may quote anything.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception:
            if scope["type"] != "http":
                raise
