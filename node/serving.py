"""The node behind a socket: uvicorn, one process or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from mpcsim.lifetime import stopped_once
from mpcsim.listening import affordable, listen, options
from node.logs import logger
from node.settings import Settings

SHUTDOWN_S: Final = 60
"""How long requests that run when the node is told to stop may still take."""


Application = str | Callable[[], ASGIApp]
"""Makes it, in each process that serves; its name, or for one process the function itself."""
FROM_ENVIRONMENT: Final = "node.app:from_environment"


def serve(settings: Settings, application: Application = FROM_ENVIRONMENT) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; requests that run then are finished.

    Every process reads its settings from the environment again (``node.app.from_environment``).

    Raises:
        UsageError: the port is taken, or the address is not this machine's.
    """
    with stopped_once(), listen(settings.app_host, settings.app_port) as listening:
        listening.set_inheritable(True)
        logger.info("listens on %s port %d", settings.app_host, settings.app_port)
        uvicorn.run(
            application,
            factory=True,
            fd=listening.fileno(),
            workers=settings.workers,
            log_config=None,
            **options(affordable(settings.limits)),
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
