"""The round explorer: an interactive look at any session, message by message.

``model`` says what there is to see, as plain data; ``widget`` shows it; ``Explorer`` is the front
door.
"""

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
