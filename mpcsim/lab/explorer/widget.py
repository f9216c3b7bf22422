"""Explorer as a widget: sends the view to the browser, and carries out its commands.

The drawing is in ``static``.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from mpcsim.errors import MpcError, UsageError
from mpcsim.lab.explorer.browser_files import script, style
from mpcsim.lab.explorer.model.exploration import Exploration
from mpcsim.lab.explorer.model.model import as_json
from mpcsim.lab.explorer.model.views import Detail
from mpcsim.lab.explorer.saved import file_name, saved_page

_WORDS = {"one_way_ms": "latency", "mbit_per_s": "bandwidth", "loss": "loss"}
"""Names of a link's numbers in messages to the user."""


class ExplorerWidget(anywidget.AnyWidget):
    """Widget that shows an explorer in a notebook."""

    _esm = script()
    _css = style()

    view = traitlets.Dict().tag(sync=True)
    """JSON of ``View``."""
    details = traitlets.Dict().tag(sync=True)
    """JSON of each ``Detail``, by message key."""
    step = traitlets.Int(0).tag(sync=True)
    """Step shown; 0 is before the first."""
    selected = traitlets.Unicode("").tag(sync=True)
    """Key of the message shown; empty: none."""
    problem = traitlets.Unicode("").tag(sync=True)
    """Reason why the last command was refused."""
    answered = traitlets.Int(0).tag(sync=True)
    """Number of the last command that was carried out or refused."""

    def __init__(self, explorer: Exploration) -> None:
        self._explorer = explorer
        self._sent: dict[str, Detail] | None = None
        super().__init__()
        self.refresh()
        self.on_msg(self._command)

    def refresh(self) -> None:
        """Send the present state of the explorer."""
        explorer = self._explorer
        with self.hold_sync():
            self.view = as_json(explorer.view)
            if explorer.details is not self._sent:  # other times do not change messages
                self._sent = explorer.details
                self.details = {key: as_json(detail) for key, detail in self._sent.items()}

    def _command(self, widget: Any, content: Any, buffers: Any) -> None:
        """Carry out a command of the browser; a refusal is reported, never raised."""
        try:
            self.problem = ""
            self._execute(content)
        except (MpcError, ValueError, KeyError, TypeError) as error:
            self.problem = str(error) or type(error).__name__
        self.answered = int(content.get("id", 0))

    def _execute(self, content: dict[str, Any]) -> None:
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
            case "link":
                what = str(content["what"])
                a, b = str(content["a"]), str(content["b"])
                number = _number(f"link {a} - {b}: {_WORDS[what]}", content["value"])
                explorer.set_link(a, b, **{what: number})
            case "seed":
                explorer.set_seed(_integer("seed", content["value"]))
            case "restore":
                explorer.restore_network()
            case "save":
                view, details = explorer.shown(reveal=bool(content.get("reveal")))
                page = saved_page(view, details, step=self.step, selected=self.selected)
                self.send({"file": file_name(view), "page": page})
            case "reset":
                explorer.reset()
            case unknown:
                raise UsageError(f"unknown command {unknown!r}")


def _number(what: str, typed: Any) -> float:
    """
    Raises:
        UsageError: it is no number.
    """
    try:
        return float(typed)
    except (TypeError, ValueError):
        raise UsageError(f"{what}: {str(typed)!r} is not a number (like 0.5)") from None


def _integer(what: str, typed: Any) -> int:
    """
    Raises:
        UsageError: it is no whole number.
    """
    try:
        return int(str(typed))
    except ValueError:
        raise UsageError(f"{what}: {str(typed)!r} is not a whole number (like 7)") from None
