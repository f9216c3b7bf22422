"""Panel as a widget: sends the view to the browser, and carries out its commands.

The drawing is in ``static/panel.js``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from mpcsim.errors import MpcError, UsageError
from mpcsim.lab.browser_files import concatenate
from mpcsim.lab.what_if.comparison import Comparison
from mpcsim.lab.what_if.fields import FIELDS
from mpcsim.lab.what_if.views import as_json, view

STATIC = Path(__file__).parent / "static"


class WhatIfWidget(anywidget.AnyWidget):
    """Widget that shows a comparison in a notebook."""

    _esm = concatenate([STATIC / "panel.js"])
    _css = STATIC / "panel.css"

    view = traitlets.Dict().tag(sync=True)
    """JSON of ``View``."""
    problem = traitlets.Unicode("").tag(sync=True)
    """Reason why the last command was refused."""
    answered = traitlets.Int(0).tag(sync=True)
    """Number of the last command that was carried out or refused."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        super().__init__()
        self.refresh()
        self.on_msg(self._command)

    def refresh(self) -> None:
        """Send the present view."""
        self.view = as_json(view(self._comparison))

    def _command(self, widget: Any, content: Any, buffers: Any) -> None:
        """Carry out a command of the browser; a refusal is reported, never raised."""
        with self.hold_sync():
            try:
                self.problem = ""
                self._execute(content)
            except (MpcError, KeyError, TypeError) as error:
                self.problem = str(error) or type(error).__name__
            self.answered = int(content.get("id", 0))

    def _execute(self, content: dict[str, Any]) -> None:
        match content["do"]:
            case "set":
                name = str(content["name"])
                value = FIELDS[name].value(content["value"])
                self._comparison.set(content["side"], **{name: value})
            case "copy":
                self._comparison.copy()
            case "swap":
                self._comparison.swap()
            case unknown:
                raise UsageError(f"unknown command {unknown!r}")
