"""The gateway, or an MPC node, behind a socket: one process, because it keeps its sessions in
memory."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Final, Protocol

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from mpcsim.garbage import collect_seldom
from mpcsim.lifetime import stopped_once
from mpcsim.listening import ConnectionLimits, affordable, listen, options

SHUTDOWN_S: Final = 15


class Opened(Protocol):
    """A gateway or an MPC node, with its store."""

    @property
    def app(self) -> ASGIApp: ...
    def close(self) -> None: ...


def serve(service: Opened, host: str, port: int, limits: ConnectionLimits) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, finish what runs, and close the store.

    Then everything is in the database's own file: a copy of it is a backup.

    Raises:
        UsageError: the port is taken, or the address is not this machine's.
    """
    with (
        stopped_once(),
        closing(service),
        listen(host, port) as listening,
        suppress(KeyboardInterrupt),
    ):
        collect_seldom()
        # Having finished, it raises the signal once more.
        uvicorn.Server(
            uvicorn.Config(
                ErrorBoundary(service.app),
                **options(affordable(limits)),
                log_config=None,
                log_level="warning",
                timeout_graceful_shutdown=SHUTDOWN_S,
            )
        ).run(sockets=[listening])


class ErrorBoundary:
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
