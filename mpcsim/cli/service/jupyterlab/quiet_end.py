"""Filter for JupyterLab's log: its ordinary end is no message."""

from __future__ import annotations

import logging


class QuietEnd(logging.Filter):
    """Drops the line that says that a signal ends the server."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be written."""
        return not record.getMessage().startswith("received signal")
