"""JSON parser whose objects know the line in which they begin, for error messages."""

from __future__ import annotations

import json
from json import decoder, scanner
from typing import Any

from mpcsim.errors import UsageError

__all__ = ["JsonValue", "LocatedObject", "parse", "parse_all"]


class LocatedObject(dict[str, Any]):
    """Object of a JSON text, with its line."""

    line: int = 0
    """Line in which it begins, from 1."""
    doubled: dict[str, list[Any]]
    """All values of each repeated member; as a dictionary, the object has the last one."""


def _located_object(pairs: list[tuple[str, Any]]) -> LocatedObject:
    """Return the object with these members."""
    entry = LocatedObject(pairs)
    entry.doubled = {}
    if len(entry) < len(pairs):
        for name in entry:
            values = [value for each, value in pairs if each == name]
            if len(values) > 1:
                entry.doubled[name] = values
    return entry


class _Decoder(json.JSONDecoder):
    """Standard decoder with its scanner in Python, whose hook notes the line of every object."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=_located_object)
        plain = decoder.JSONObject  # type: ignore[attr-defined]
        line, counted_to = 1, 0

        def located(text_and_place: tuple[str, int], *more: Any) -> tuple[LocatedObject, int]:
            nonlocal line, counted_to
            text, place = text_and_place
            line += text.count("\n", counted_to, place)
            counted_to = place
            here = line
            entry, end = plain(text_and_place, *more)
            entry.line = here
            return entry, end

        self.parse_object = located
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]


class JsonValue:
    """Value of a JSON text with its path, for checked access.

    Every access raises ``UsageError`` with file, line and path if the value is missing or of
    another type."""

    def __init__(self, value: Any, file: str, path: str = "", line: int = 1) -> None:
        self.value = value
        self.file = file
        self.path = path
        self.line = value.line if isinstance(value, LocatedObject) else line

    def __getitem__(self, key: str) -> JsonValue:
        found = self.get(key)
        if found is None:
            raise self.error_at(f"{key!r} is missing")
        return found

    def get(self, key: str) -> JsonValue | None:
        """Return the value under the key; None if it is missing or null."""
        if not isinstance(self.value, dict):
            raise self.error_at("is not an object")
        if self.value.get(key) is None:
            return None
        inner = f"{self.path}.{key}" if self.path else key
        return JsonValue(self.value[key], self.file, inner, self.line)

    def get_all(self, key: str) -> list[JsonValue]:
        """Return all values under the key: several where the member is repeated."""
        found = self.get(key)
        if found is None:
            return []
        doubled = self.value.doubled.get(key) if isinstance(self.value, LocatedObject) else None
        if doubled is None:
            return [found]
        return [JsonValue(each, self.file, found.path, self.line) for each in doubled]

    def items(self) -> list[JsonValue]:
        """Return the elements of a list."""
        if not isinstance(self.value, list):
            raise self.error_at("is not a list")
        return [
            JsonValue(each, self.file, f"{self.path}[{i}]", self.line)
            for i, each in enumerate(self.value)
        ]

    def number(self) -> float:
        """Return a number; also of a string, since versions of mtr differ."""
        value = self.value
        try:
            if not isinstance(value, bool):
                return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
        raise self.error_at(f"is {value!r}, not a number")

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.error_at(f"is {self.value!r}, not a text")
        return self.value

    def error_at(self, what: str) -> UsageError:
        """Return an error about this value."""
        return UsageError(f"{self.file}, line {self.line}: {self.path or 'the text'}: {what}")


def parse(text: str, file: str) -> JsonValue:
    """Parse the whole text as one value.

    Raises:
        UsageError: it is not JSON: names the line.
    """
    try:
        return JsonValue(_Decoder().decode(text), file)
    except json.JSONDecodeError as error:
        raise _not_json(error, text, file) from None
    except RecursionError:
        raise UsageError(f"{file}: not JSON of any measurement: too many brackets") from None


def parse_all(text: str, file: str) -> list[JsonValue]:
    """Parse values that follow each other, or are in a list; at least one.

    Raises:
        UsageError: there is something else than JSON: names the line.
    """
    decoder_, found, at = _Decoder(), [], 0
    while at < len(text):
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
        if at >= len(text):
            break
        try:
            value, at = decoder_.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise _not_json(error, text, file) from None
        except RecursionError:
            raise UsageError(f"{file}: not JSON of any measurement: too many brackets") from None
        found += (
            JsonValue(value, file).items() if isinstance(value, list) else [JsonValue(value, file)]
        )
    if not found:
        raise UsageError(f"{file}: there is no JSON in it")
    return found


def _not_json(error: json.JSONDecodeError, text: str, file: str) -> UsageError:
    cut = " (the text ends too early)" if error.pos >= len(text.rstrip()) else ""
    return UsageError(f"{file}, line {error.lineno}: not JSON: {error.msg}{cut}")
