"""Round explorer: an interactive view of any session, message by message.

``model`` computes what is shown, as plain data; ``widget`` shows it; ``Explorer`` is the interface.
"""

from mpcsim.errors import needs_extra

with needs_extra("workbench", "the explorer"):
    from mpcsim.lab.explorer.data_flow_figure import data_flow
    from mpcsim.lab.explorer.explorer import Explorer
    from mpcsim.lab.explorer.model.sessions import Edit
    from mpcsim.lab.explorer.tampering import tampering

__all__ = [
    "Edit",
    "Explorer",
    "data_flow",
    "tampering",
]
