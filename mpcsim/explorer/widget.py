"""The explorer as a widget: what the browser is told, and what it asks for.

All of the drawing is in ``static/explorer.js``; here the view goes out and commands come in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from mpcsim.errors import MpcError, UsageError
from mpcsim.explorer.exploration import Exploration
from mpcsim.explorer.model import as_json
from mpcsim.explorer.views import Detail

STATIC = Path(__file__).parent / "static"


class ExplorerWidget(anywidget.AnyWidget):
    """Shows an explorer in a notebook."""

    _esm = STATIC / "explorer.js"
    _css = STATIC / "explorer.css"

    view = traitlets.Dict().tag(sync=True)
    """``View`` as JSON."""
    details = traitlets.Dict().tag(sync=True)
    """``Detail`` by message key, as JSON."""
    step = traitlets.Int(0).tag(sync=True)
    """The step shown; 0 is before anything has happened."""
    selected = traitlets.Unicode("").tag(sync=True)
    """Key of the message shown; empty: none."""
    problem = traitlets.Unicode("").tag(sync=True)
    """Why the last command was refused."""
    answered = traitlets.Int(0).tag(sync=True)
    """Number of the last command that was carried out or refused."""

    def __init__(self, explorer: Exploration) -> None:
        self._explorer = explorer
        self._sent: dict[str, Detail] | None = None
        super().__init__()
        self.refresh()
        self.on_msg(self._command)

    def refresh(self) -> None:
        """Send what the explorer has now."""
        explorer = self._explorer
        with self.hold_sync():
            self.view = as_json(explorer.view)
            if explorer.details is not self._sent:  # other times are no other messages
                self._sent = explorer.details
                self.details = {key: as_json(detail) for key, detail in self._sent.items()}

    def _command(self, widget: Any, content: Any, buffers: Any) -> None:
        """Do what the browser asks for; what is refused is said, never raised."""
        try:
            self.problem = ""
            self._do(content)
        except (MpcError, ValueError, KeyError, TypeError) as error:
            self.problem = str(error) or type(error).__name__
        self.answered = int(content.get("id", 0))

    def _do(self, content: dict[str, Any]) -> None:
        explorer = self._explorer
        match content["do"]:
            case "edit":
                sender, receiver, kind = content["sender"], content["receiver"], content["kind"]
                explorer.edit(
                    int(sender),
                    int(receiver),
                    str(kind),
                    str(content["path"]),
                    str(content["operation"]),
                    bytes.fromhex(content.get("argument", "")),
                    everyone=bool(content.get("everyone")),
                )
            case "undo":
                explorer.undo()
            case "latency":
                explorer.set_latency(content["a"], content["b"], float(content["ms"]))
            case "reset":
                explorer.reset()
            case unknown:
                raise UsageError(f"unknown command {unknown!r}")
