"""HTTP between the services: clients, servers, errors, request ids, logs, limits."""

from mpcsim.service.web.log_files import LogFile
from mpcsim.service.web.logs import (
    FOLDER_VARIABLE,
    FORMATS,
    VARIABLE,
    LogSettings,
    configure_logs,
)
from mpcsim.service.web.user_limits import SHARE

__all__ = [
    "FOLDER_VARIABLE",
    "FORMATS",
    "SHARE",
    "VARIABLE",
    "LogFile",
    "LogSettings",
    "configure_logs",
]
