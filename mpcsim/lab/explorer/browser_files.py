"""Script and style sheet of the explorer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from mpcsim.lab.browser_files import concatenate

STATIC: Final = Path(__file__).parent / "static"
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


@cache
def script() -> str:
    """Return the module that draws an explorer; its default export is a widget's."""
    return concatenate(STATIC / name for name in FILES)


@cache
def style() -> str:
    """Return the style sheet."""
    return (STATIC / "explorer.css").read_text(encoding="utf-8")
