"""The gateway, or an MPC node, behind a socket: one process, because it keeps its sessions in
memory."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Final, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from mpcsim.service.process.gc_policy import reduce_collections
from mpcsim.service.process.http_limits import (
    ConnectionLimits,
    fit_open_files,
    listen,
    uvicorn_options,
)
from mpcsim.service.process.process_lifetime import interrupt_once

if TYPE_CHECKING:
    from mpcsim.service.metrics.exposition import MetricsSource

SHUTDOWN_S: Final = 15


class Service(Protocol):
    """A gateway or an MPC node, with its store."""

    @property
    def app(self) -> Starlette: ...
    def metrics_source(self) -> MetricsSource: ...
    def close(self) -> None: ...


def serve(
    service: Service,
    host: str,
    port: int,
    limits: ConnectionLimits,
    metrics_port: int | None = None,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, finish what runs, and close the store.

    Then everything is in the database's own file: a copy of it is a backup.

    Args:
        metrics_port: port of its metrics (``mpcsim.service.metrics``); None: none.

    Raises:
        UsageError: a port is taken, or the address is not this machine's.
    """
    server = uvicorn_options(fit_open_files(limits))
    with (
        interrupt_once(),
        closing(service),
        listen(host, port) as listening,
        suppress(KeyboardInterrupt),
        ExitStack() as shown,
    ):
        if metrics_port is not None:
            # Imported here: few processes expose metrics.
            from mpcsim.service.metrics.exposition import expose_metrics

            source = service.metrics_source()
            shown.enter_context(
                expose_metrics(service.app, source, host, metrics_port, server["http"])
            )
        reduce_collections()
        # Having finished, it raises the signal once more.
        uvicorn.Server(
            uvicorn.Config(
                ErrorBoundary(service.app),
                **server,
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
