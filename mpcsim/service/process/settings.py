"""Settings from environment variables: what is said of one stands in one place.

    @dataclass(frozen=True)
    class Settings:
        port: int = setting(9091, "APP_PORT", whole(1, 65535), "Port to listen on.")

``read`` and ``describe`` follow from such a declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from textwrap import fill
from typing import Any, Final, Generic, TypeVar

from mpcsim.errors import UsageError

T = TypeVar("T")

WIDTH: Final = 79
INDENT: Final = 6 * " "
_ABOUT: Final = "about"


class SettingsError(UsageError):
    """A variable has a value that makes no sense; the message names it and fits on one line."""


@dataclass(frozen=True)
class ValueKind(Generic[T]):
    """Kind of values that a variable may have."""

    parse: Callable[[str], T]
    """Raises ValueError for anything else."""
    wanted: str
    """Description of valid values, after "must be"."""


@dataclass(frozen=True)
class _About:
    variable: str
    kind: ValueKind[Any]
    text: str


def setting(default: T, variable: str, kind: ValueKind[T], text: str) -> T:
    """A dataclass field that an environment variable sets.

    Args:
        text: what it is for, in whole sentences.
    """
    return field(default=default, metadata={_ABOUT: _About(variable, kind, text)})


def whole_number(low: int, high: int, what: str = "a number") -> ValueKind[int]:
    """Whole numbers from ``low`` to ``high``."""
    return ValueKind(lambda text: _check_range(int(text), low, high), f"{what}, {low} to {high}")


def seconds(high: int) -> ValueKind[float]:
    """A span of time."""

    def parse(text: str) -> float:
        number = float(text)
        if not 0 < number <= high:
            raise ValueError
        return number

    return ValueKind(parse, f"seconds above 0, up to {high}")


def on_off() -> ValueKind[bool]:
    """``on`` or ``off``."""

    def parse(text: str) -> bool:
        if text.lower() not in ("on", "off"):
            raise ValueError
        return text.lower() == "on"

    return ValueKind(parse, "on or off")


def read(cls: type[T], environment: Mapping[str, str], **given: Any) -> T:
    """An instance of a dataclass of settings; an empty variable counts as unset.

    Args:
        given: its other fields.

    Raises:
        SettingsError: a variable has an impossible value.
    """
    for name, _, about in _declared_settings(cls):
        if text := environment.get(about.variable, "").strip():
            try:
                given[name] = about.kind.parse(text)
            except ValueError:
                raise SettingsError(f"{about.variable} must be {about.kind.wanted}") from None
    return cls(**given)


def describe(*classes: type[Any]) -> str:
    """The variables that these classes read, for a help text."""
    lines = []
    for cls in classes:
        for _, default, about in _declared_settings(cls):
            usual = {True: "on", False: "off"}[default] if isinstance(default, bool) else default
            without = "no default" if usual is None else f"default {usual}"
            lines.append(f"  {about.variable}: {about.kind.wanted}; {without}")
            lines.append(fill(about.text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT))
    return "\n".join(lines)


def _declared_settings(cls: type[Any]) -> list[tuple[str, Any, _About]]:
    return [(f.name, f.default, f.metadata[_ABOUT]) for f in fields(cls) if _ABOUT in f.metadata]


def _check_range(number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise ValueError
    return number
