"""TOML files: read by ``tomllib``, written by tomli-w; and the paths of what is in them."""

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
    """What a TOML file has.

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
    """What a TOML text has.

    Raises:
        UsageError: it is no TOML: names the source and the line.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}") from None


def text(table: Mapping[str, Any], note: str = "") -> str:
    """A TOML document.

    Args:
        note: comes first, as a comment.
    """
    comment = "".join(f"# {line}".rstrip() + "\n" for line in note.splitlines())
    return comment + ("\n" if comment else "") + tomli_w.dumps(table)


def key_path(path: str, key: str) -> str:
    """The path of an entry in what has the path: ``links."a b"``."""
    own = key if _BARE.fullmatch(key) else _string(key)
    return f"{path}.{own}" if path else own


def _string(value: str) -> str:
    """JSON's strings are TOML's, but for DEL, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
