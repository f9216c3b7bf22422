"""Copies of the notebooks for a reader to run and change, so that the project's own files stay."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

FOLDER: Final = Path("my_notebooks")
"""Folder of the copies. Beside the originals' own, so that links from one to other files hold."""
COPIED: Final = (".ipynb", ".md", ".png")
RECORD: Final = ".copied.json"
"""File with the digest of each original at the time when it was copied."""


def refresh_copies(originals: Path, copies: Path) -> list[str]:
    """Copy what is new; return the names of copies that were kept, for their reader changed them.

    Args:
        originals: folder of the notebooks.
        copies: folder of the copies; made if need be.
    """
    record_file, kept = copies / RECORD, []
    copied = json.loads(record_file.read_text()) if record_file.is_file() else {}
    for original in sorted(originals.rglob("*")):
        name = original.relative_to(originals)
        if original.suffix not in COPIED or any(part.startswith(".") for part in name.parts):
            continue
        content, copy = original.read_bytes(), copies / name
        digest = _digest(content)
        if copy.exists():
            if copied.get(str(name)) == digest:
                continue
            if _digest(copy.read_bytes()) not in (copied.get(str(name)), digest):
                kept.append(str(name))
                continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        copied[str(name)] = digest
    record_file.write_text(json.dumps(copied, indent=1))
    return kept


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
