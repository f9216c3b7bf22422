"""JSON from outside, in its interoperable form (I-JSON, RFC 7493, sections 2.1 to 2.3).

What two readers could understand differently is refused: a member that an object has twice, text
that is not UTF-8, half of a surrogate pair, NaN.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from mpcsim.errors import InvalidEncoding

MAX_NAME: Final = 40
"""Longest member's name that an error shows, in characters."""
MAX_VALUES: Final = 1000
"""Limit of values in a request: the largest that makes sense has under a hundred, and commas in
texts count, too. The cost of reading a document depends on its number of values far more than on
its length."""


class RefusedDocument(InvalidEncoding):
    """A JSON document is refused. The error's text continues "the body ..."."""


class DuplicateMember(RefusedDocument):
    """An object has a member twice."""


class TooManyValues(RefusedDocument):
    """A document has more values than are read."""


def parse(data: bytes, max_values: int | None = None) -> Any:
    """Parse a document.

    Args:
        max_values: limit of its values; None: any number.

    Raises:
        DuplicateMember: an object in it, at any depth, names a member twice.
        TooManyValues: it has more values; nothing of it has been read.
        InvalidEncoding: it is not I-JSON.
    """
    if max_values is not None and sum(map(data.count, (b",", b"[", b"{"))) >= max_values:
        raise TooManyValues(f"has {max_values} values or more")
    try:
        value = json.loads(data.decode(), object_pairs_hook=_members, parse_constant=_no_constants)
        if b"\\u" in data:
            _ = json.dumps(value, ensure_ascii=False).encode()  # refuses lone surrogates
    except (ValueError, RecursionError):
        raise InvalidEncoding("not JSON") from None
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        # In one pass: a refusal must not cost more than an acceptance.
        twice = _first_repeated(pairs)
        # It may be anything, and ends up in logs.
        known = twice.isascii() and twice.isidentifier() and len(twice) <= MAX_NAME
        raise DuplicateMember(f"has the member {twice} twice" if known else "has a member twice")
    return members


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name is there twice")


def _no_constants(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON's")
