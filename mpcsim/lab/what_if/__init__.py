"""Panel for what-if questions: a signing call over two networks side by side, live.

``configuration`` is one side: a call and its network; ``fields`` are its settings as they are shown
and typed; ``comparison`` is both sides and their results, ``views`` the same as plain data;
``widget`` shows it; ``what_if`` is the interface.
"""

from mpcsim.errors import needs_extra

with needs_extra("workbench", "the what-if panel"):
    from mpcsim.lab.what_if.comparison import Comparison
    from mpcsim.lab.what_if.configuration import Configuration
    from mpcsim.lab.what_if.panel import WhatIf, what_if

__all__ = ["Comparison", "Configuration", "WhatIf", "what_if"]
