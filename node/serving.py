"""The node behind a socket: uvicorn, one process or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette

from mpcsim.service.process.http_limits import Connections, fit_open_files, listen, uvicorn_options
from mpcsim.service.process.process_lifetime import interrupt_once
from mpcsim.service.web.logs import OF_START
from node.process.logs import logger
from node.process.settings import Settings

SHUTDOWN_S: Final = 60
"""Seconds that running requests may still take when the node is told to stop."""


Application = str | Callable[[], Starlette]
"""Makes it, in each process that serves; its name, or for one process the function itself."""
FROM_ENVIRONMENT: Final = "node.app:from_environment"


def serve(settings: Settings, application: Application = FROM_ENVIRONMENT) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; requests that run then are finished.

    Every process reads its settings from the environment again (``node.app.from_environment``).

    Raises:
        UsageError: a port is taken, or the address is not this machine's.
    """
    server = uvicorn_options(fit_open_files(settings.limits))
    with (
        interrupt_once(),
        listen(settings.app_host, settings.app_port) as listening,
        ExitStack() as shown,
    ):
        if (port := settings.metrics_port) is not None:  # there is one process, then
            seen = _expose_metrics(application, settings.app_host, port, server["http"])
            application = shown.enter_context(seen)
        listening.set_inheritable(True)
        at = settings.app_host, settings.app_port
        logger.info("listens on %s port %d", *at, extra={OF_START: True})
        uvicorn.run(
            application,
            factory=True,
            fd=listening.fileno(),
            workers=settings.workers,
            log_config=None,
            **server,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )


@contextmanager
def _expose_metrics(
    application: Application, host: str, port: int, connections: Connections
) -> Iterator[Application]:
    """The application, which can be looked at."""
    # Imported here: few processes expose metrics.
    from mpcsim.service.metrics.exposition import expose_metrics
    from node.api.metrics import metrics_source
    from node.app import from_environment

    app = from_environment() if isinstance(application, str) else application()
    with expose_metrics(app, metrics_source(app), host, port, connections):
        yield lambda: app
