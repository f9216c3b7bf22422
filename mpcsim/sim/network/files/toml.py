"""TOML, as far as networks need it: ``tomllib`` reads it, and this writes it.

The standard library has no writer; tables of numbers and names need these few lines of one, and no
dependency.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from mpcsim.errors import UsageError

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH: Final = 96


def read(path: str | Path) -> dict[str, Any]:
    """What a TOML file has.

    Raises:
        UsageError: it is no UTF-8, or no TOML: names the line.
        OSError: the file cannot be read.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8 (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


def text(table: Mapping[str, Any], note: str = "") -> str:
    """A TOML document: tables of texts, numbers, truth values, lists of them, and tables.

    Args:
        note: comes first, as a comment.
    """
    comment = [f"# {line}".rstrip() for line in note.splitlines()]
    lines = [*comment, *([""] if comment else []), *_lines(table, "")]
    return "\n".join(lines).strip("\n") + "\n"


def inside(path: str, key: str) -> str:
    """The path of an entry in what has the path: ``links."a b"``."""
    own = key if _BARE.fullmatch(key) else _string(key)
    return f"{path}.{own}" if path else own


def _lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    own = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (own or not table):
        yield f"[{path}]"
    for key, value in own.items():
        yield f"{inside('', key)} = {_value(value)}"
    if own or (path and not table):
        yield ""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines(value, inside(path, key))


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _string(value)
        case int() | float():
            return repr(value)
        case list() | tuple():
            items = ", ".join(map(_value, value))
            if len(items) < _WIDTH - 20:
                return f"[{items}]"
            return "\n".join(["[", *(f"    {line}" for line in wrap(items, _WIDTH - 4)), "]"])
    raise TypeError(f"{value!r} has no place in a TOML file")


def _string(value: str) -> str:
    """JSON's strings are TOML's, but for DEL, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
