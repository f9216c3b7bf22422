"""Conversion of values to TOML tables and back, by the parameters of their classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.files.toml import key_path

T = TypeVar("T")

Special = Mapping[Any, Callable[[Any, str], Any]]
"""Types with their own decoders: functions of the file's value and its path."""

_SCALARS: Final[Mapping[type, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "not a text"),
    bool: ((bool,), "neither true nor false"),
    int: ((int,), "not a whole number"),
    float: ((int, float), "not a number"),
}
_LISTS: Final[Mapping[Any, type]] = {tuple: tuple, frozenset: frozenset, Iterable: tuple}


def decode(make: Callable[..., T], table: object, at: str, special: Special, **given: object) -> T:
    """Decode a value from its table.

    Args:
        make: its class, or a function that makes one; its parameters are the keys.
        at: path of the table in the file, for errors.
        given: arguments that are not in the table.

    Raises:
        UsageError: an unknown key, one that is missing, or a bad value: names its path.
    """
    hints = _type_hints(make)
    parameters = {
        name: parameter
        for name, parameter in signature(make).parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
    }
    known = [name for name in parameters if name not in given]
    arguments = dict(given)
    for key, value in as_table(table, at).items():
        if key not in known:
            raise UsageError(f"{key_path(at, key)}: {unknown('key', key, known)}")
        arguments[key] = _read(hints[key], value, key_path(at, key), special)
    for name, parameter in parameters.items():
        if parameter.default is Parameter.empty and name not in arguments:
            raise UsageError(f"{key_path(at, name)}: missing")
    try:
        return make(**arguments)
    except UsageError as error:
        where = _error_path(str(error), known, at)
        raise UsageError(f"{where}: {error}" if where else str(error)) from None


def _type_hints(make: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a callable's parameters."""
    if not isinstance(make, type):
        return get_type_hints(make)
    try:
        return get_type_hints(make.__init__)  # type: ignore[misc]
    except NameError:  # a dataclass with a base in another module, whose names it has not
        return get_type_hints(make)


def check_readable(cls: type[Any]) -> None:
    """Check that a table can hold the parameters of a class.

    Raises:
        UsageError: a parameter's type cannot be in a file: names it.
    """
    hints = get_type_hints(cls.__init__)
    for name, parameter in signature(cls).parameters.items():
        hint = hints.get(name)
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY) or (
            not _is_readable(hint)
        ):
            shown = getattr(hint, "__name__", str(hint)) if name in hints else "none"
            raise UsageError(
                f"{cls.__name__}: parameter {name} cannot be in a file (its type: {shown}): "
                f"{', '.join(each.__name__ for each in _SCALARS)}, tuples of them, or a dataclass"
            )


def _is_readable(hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return all(_is_readable(each) for each in get_args(hint) if each is not NoneType)
    if get_origin(hint) is tuple:
        return get_args(hint)[1:] == (...,) and _is_readable(get_args(hint)[0])
    return hint in _SCALARS or (isinstance(hint, type) and is_dataclass(hint))


def encode(
    value: object,
    write: Callable[[Any], Any] | None = None,
    *,
    names: Mapping[str, str] | None = None,
    leave_out: frozenset[str] = frozenset(),
    defaults: bool = True,
) -> dict[str, Any]:
    """Encode a value as a table of its parameters, without those that are None.

    Args:
        write: encoder of each parameter; by default dataclasses become tables, too.
        names: attributes by parameter, where their names differ.
        leave_out: parameters that are not in the table.
        defaults: include parameters with their default values.
    """
    attributes = {
        name: getattr(value, (names or {}).get(name, name))
        for name, parameter in signature(type(value)).parameters.items()
        if name not in leave_out
        and (defaults or getattr(value, (names or {}).get(name, name)) != parameter.default)
    }
    write = write or _to_table
    return {name: write(each) for name, each in attributes.items() if each is not None}


def _to_table(value: Any) -> Any:
    return encode(value) if is_dataclass(value) else value


def as_table(table: object, at: str) -> Mapping[str, Any]:
    """Return the value if it is a table.

    Raises:
        UsageError: it is no table.
    """
    if not isinstance(table, Mapping):
        raise UsageError(f"{at}: {table!r} is not a table")
    return table


def decode_list(value: object, at: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """Decode the items of a list.

    Raises:
        UsageError: it is no list.
    """
    if not isinstance(value, list):
        raise UsageError(f"{at}: {value!r} is not a list")
    return tuple(read(item, f"{at}[{i}]") for i, item in enumerate(value))


def split_kind(
    value: object, key: str, at: str, known: Iterable[str]
) -> tuple[str, dict[str, Any]]:
    """Split a table into its kind, the value under ``key``, and the rest.

    Raises:
        UsageError: it is no table, does not say it, or says something unknown.
    """
    table = dict(as_table(value, at))
    known = tuple(known)
    if key not in table:
        raise UsageError(f"{key_path(at, key)}: missing (known: {', '.join(known)})")
    name = table.pop(key)
    if not isinstance(name, str) or name not in known:
        raise UsageError(f"{key_path(at, key)}: {unknown(key, str(name), known)}")
    return name, table


def _read(hint: Any, value: object, at: str, special: Special) -> Any:
    if get_origin(hint) in (Union, UnionType) and hint not in special:
        hint = _choice([each for each in get_args(hint) if each is not NoneType], value)
    if hint in special:
        return special[hint](value, at)
    if get_origin(hint) in _LISTS:
        if not isinstance(value, list):
            raise UsageError(f"{at}: {value!r} is not a list")
        item = get_args(hint)[0]
        made = _LISTS[get_origin(hint)]
        return made(_read(item, each, f"{at}[{i}]", special) for i, each in enumerate(value))
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise UsageError(f"{at}: {unknown('setting', str(value), get_args(hint))}")
        return value
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    if isinstance(hint, type) and is_dataclass(hint):
        return decode(hint, value, at, special)
    fitting, complaint = _SCALARS[hint]
    if not isinstance(value, fitting) or (isinstance(value, bool) and hint is not bool):
        raise UsageError(f"{at}: {value!r} is {complaint}")
    try:
        return hint(value)
    except OverflowError:  # a whole number beyond any float
        raise UsageError(f"{at}: {value} is too large") from None


def _choice(options: list[Any], value: object) -> Any:
    """Return the type among several that the value may have: tables are values of classes."""
    of_classes = [each for each in options if each not in _SCALARS]
    scalars = [each for each in options if each in _SCALARS]
    if isinstance(value, Mapping):
        of_classes.sort(key=lambda each: _unknown_keys(each, value))
    fitting = of_classes if isinstance(value, Mapping | list) else scalars
    return (fitting or options)[0]


def _unknown_keys(of: Any, table: Mapping[str, Any]) -> int:
    """Count the keys of a table that are no parameters of a class."""
    return len(table.keys() - signature(of).parameters.keys()) if isinstance(of, type) else 0


def _error_path(message: str, names: list[str], at: str) -> str:
    """Return the path of the parameter in a constructor's error: ``sigma is 20`` names
    ``sigma``."""
    pattern = re.compile(rf"\b({'|'.join(names) or '(?!)'})(\[\d+\])? is\b")
    found = pattern.search(message)
    return key_path(at, found[1]) + (found[2] or "") if found else at
