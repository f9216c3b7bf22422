"""Parts that every server process needs, whatever it serves.

- ``settings``: values from the environment, each with its reason when refused
- ``backoff``: pauses between attempts
- ``http_limits``, ``http_parser``: sockets, connections and their limits
- ``process_lifetime``: when a process ends: told by a signal, or with whoever started it
- ``gc_policy``: when Python looks for garbage in a process that serves
"""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.service.process.http_limits import ConnectionLimits
    from mpcsim.service.process.log_settings import (
        FOLDER_VARIABLE,
        FORMATS,
        SUPERVISED,
        VARIABLE,
        LogSettings,
    )
    from mpcsim.service.process.process_lifetime import command_ending_with_parent, interrupt_once
    from mpcsim.service.process.settings import describe, read
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "FOLDER_VARIABLE",
    "FORMATS",
    "SUPERVISED",
    "VARIABLE",
    "LogSettings",
    "ConnectionLimits",
    "describe",
    "command_ending_with_parent",
    "read",
    "interrupt_once",
]
