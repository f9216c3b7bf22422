"""HTTP between the services: clients, servers, errors, request ids, logs, limits."""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.service.web.log_files import LogFile
    from mpcsim.service.web.logs import configure_logs
    from mpcsim.service.web.user_limits import SHARE
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "SHARE",
    "LogFile",
    "configure_logs",
]
