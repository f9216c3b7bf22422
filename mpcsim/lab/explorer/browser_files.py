"""Script and style sheet of the explorer: one module for the browser, from several files.

A widget is one module, and so is a page that works from a disk. So the files are concatenated
without their imports and the word ``export``: their names are distinct, and every file comes after
those that it needs.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
PICTURES: Final = Path(__file__).parents[1] / "pictures.js"
"""Script of both widgets that saves what they show as SVG or PNG."""
FILES: Final = (
    "basics.js",
    "plan.js",
    "diagram.js",
    "message.js",
    "knowledge.js",
    "timing.js",
    "search.js",
    "explorer.js",
)
"""Files in the order of concatenation."""
_IMPORT: Final = re.compile(r"^import \{[^}]*\} from \"\./[\w]+\.js\";\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const) )", re.MULTILINE)


@cache
def script() -> str:
    """Return the module that draws an explorer; its default export is a widget's."""
    return "\n".join(
        _EXPORT.sub("", _IMPORT.sub("", path.read_text(encoding="utf-8")))
        for path in (PICTURES, *(STATIC / name for name in FILES))
    )


@cache
def style() -> str:
    """Return the style sheet."""
    return (STATIC / "explorer.css").read_text(encoding="utf-8")
