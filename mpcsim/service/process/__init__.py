"""What every server process needs, and nothing of what it serves.

- ``settings``: values from the environment, each with its reason when refused
- ``listening``: sockets, connections and their limits
- ``lifetime``: when a process ends: told by a signal, or with whoever started it
- ``garbage``: when Python looks for garbage in a process that serves
"""

from mpcsim.service.process.lifetime import ending_with_its_starter, stopped_once
from mpcsim.service.process.listening import ConnectionLimits
from mpcsim.service.process.settings import describe, read

__all__ = [
    "ConnectionLimits",
    "describe",
    "ending_with_its_starter",
    "read",
    "stopped_once",
]
