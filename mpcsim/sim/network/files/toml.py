"""TOML files: reading with ``tomllib``, writing with tomli-w, and paths of entries."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import tomli_w

from mpcsim.errors import UsageError

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def read(path: str | Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        UsageError: it is no UTF-8, or no TOML: names the line.
        OSError: the file cannot be read.
    """
    try:
        found = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8 (byte {error.start})") from None
    return loads(found, str(path))


def loads(text: str, source: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        UsageError: it is no TOML: names the source and the line.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}") from None


def text(table: Mapping[str, Any], note: str = "") -> str:
    """Return a TOML document.

    Args:
        note: comes first, as a comment.
    """
    comment = "".join(f"# {line}".rstrip() + "\n" for line in note.splitlines())
    return comment + ("\n" if comment else "") + tomli_w.dumps(table)


def key_path(path: str, key: str) -> str:
    """Return the path of an entry in a table with a path: ``links."a b"``."""
    own = key if _BARE.fullmatch(key) else _string(key)
    return f"{path}.{own}" if path else own


def _string(value: str) -> str:
    """Return a TOML string: JSON's, but for DEL, which TOML requires to be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
