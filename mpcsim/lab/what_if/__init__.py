"""The what-if panel: a signing call over two networks side by side, live.

``configuration`` is one side: a call and what it goes over; ``fields`` are its settings as they are
shown and typed; ``comparison`` is both sides and what comes out of them, ``views`` the same as
plain data; ``widget`` shows it; ``what_if`` is the front door.
"""

from mpcsim.lab.what_if.comparison import Comparison
from mpcsim.lab.what_if.configuration import Configuration
from mpcsim.lab.what_if.panel import WhatIf, what_if

__all__ = ["Comparison", "Configuration", "WhatIf", "what_if"]
