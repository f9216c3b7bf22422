"""An ASGI application in this process as a target, without sockets; its logs are read, too.

With your own node before a gateway in memory:

    from mpcsim.service.operations import open_gateway

    gateway = open_gateway()                       # in memory, with both MPC nodes
    app = our_node(gateway.app)                    # any ASGI application
    with AsgiTarget(app, gateway.token, loggers=("our_node",)) as target:
        check_wallet_service(target)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from mpcsim.testing.backend.service import AsgiService, Runner
from mpcsim.testing.backend.target import HttpTarget, TokenProvider

RECIPE: Final = """from mpcsim.testing import AsgiTarget

target = AsgiTarget(..., token=...)  # as in your test"""


class LogLines(logging.Handler):
    """Log handler that keeps the lines of some loggers until they are taken; their level is raised
    to INFO."""

    def __init__(self, loggers: Sequence[str], formatter: logging.Formatter | None = None) -> None:
        """
        Args:
            loggers: names; those below them are heard as well.
            formatter: makes a line of a record, as it is printed in production.
        """
        super().__init__(logging.INFO)
        self.setFormatter(formatter or logging.Formatter())
        self._kept: list[str] = []
        self._heard = [(logger, logger.level) for logger in map(logging.getLogger, loggers)]
        for logger, _ in self._heard:
            logger.addHandler(self)
            if logger.getEffectiveLevel() > logging.INFO:
                logger.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, formatted."""
        self._kept.append(self.format(record))

    def take(self) -> str:
        """Return the lines logged since the last call."""
        kept, self._kept = self._kept, []
        return "\n".join(kept)

    def close(self) -> None:
        """Detach from the loggers and restore their levels."""
        for logger, level in self._heard:
            logger.removeHandler(self)
            logger.setLevel(level)
        self._heard = []
        super().close()


class AsgiTarget(HttpTarget):
    """Target that is an ASGI application; a context manager. Subclasses may have more abilities."""

    def __init__(
        self,
        app: Any,
        token: TokenProvider,
        *,
        loop: Runner | None = None,
        lifespan: bool = True,
        loggers: Sequence[str] = (),
        formatter: logging.Formatter | None = None,
        recipe: str = "",
    ) -> None:
        """
        Args:
            token: makes an access token for a user's name.
            loop: event loop of the application, as for ``AsgiService``.
            lifespan: as for ``AsgiService``.
            loggers: names of the application's loggers; no secret of a run may appear in their
                lines.
            formatter: makes a line of a record, as it is printed in production.
            recipe: as for ``HttpTarget``.
        """
        self._lines = LogLines(loggers, formatter)
        try:
            service = AsgiService(app, loop, lifespan=lifespan)
        except BaseException:
            self._lines.close()
            raise
        super().__init__(service, token, recipe=recipe or RECIPE)

    def logs(self) -> str:
        """Return the lines logged since the last call (``ShowsLogs``)."""
        return self._lines.take()

    def close(self) -> None:
        """Shut the application down."""
        try:
            super().close()
        finally:
            self._lines.close()
