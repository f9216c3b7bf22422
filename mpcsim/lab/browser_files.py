"""Scripts of the widgets: one module for the browser each, from several files.

A widget is one module, and so is a page that works from a disk. So the files are concatenated
without their imports and the word ``export``: their names are distinct, and every file comes after
those that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SHARED: Final = tuple(
    Path(__file__).parent / "static" / name for name in ("elements.js", "pictures.js")
)
"""Files that every widget begins with."""
_IMPORT: Final = re.compile(r"^import \{[^}]*\} from \"[./\w]+\.js\";\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const) )", re.MULTILINE)


def concatenate(files: Iterable[Path]) -> str:
    """Return the module that the shared files and these make."""
    return "\n".join(
        _EXPORT.sub("", _IMPORT.sub("", path.read_text(encoding="utf-8")))
        for path in (*SHARED, *files)
    )
