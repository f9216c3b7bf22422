"""Digests of the contents of values, independent of how they are shown or where they are kept.

A text or path that names a file stands for the contents of the file, too; a function or class for
its code and all that this uses by name, except code of installed packages, which has a version.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import hashlib
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from mpcsim.errors import UsageError

VERSIONED: Final = sys.stdlib_module_names | {"mpcsim", "node"}
"""Packages whose code changes with their version alone, besides installed ones."""
LONGEST_NAME: Final = 4096
"""Longest name of a file, in characters; longer texts are not taken for names."""


def digest(value: Any) -> str:
    """Return the SHA-256 of what a value contains, as hexadecimal digits.

    Raises:
        UsageError: it contains something whose contents cannot be told, such as an open file.
    """
    return _digest(value, ()).hex()


def _digest(value: Any, within: tuple[int, ...]) -> bytes:
    if id(value) in within:
        return _joined("above", [within.index(id(value)).to_bytes(4, "big")])
    key_path = (*within, id(value))
    name, parts = _parts(value, key_path)
    return _joined(
        name,
        (part.value if isinstance(part, _Bytes) else _digest(part, key_path) for part in parts),
    )


@dataclasses.dataclass(frozen=True)
class _Bytes:
    """Bytes that are hashed as they are."""

    value: bytes


def _joined(name: str, parts: Iterable[bytes]) -> bytes:
    hashed = hashlib.sha256(name.encode())
    for part in parts:
        hashed.update(b"\0" + hashlib.sha256(part).digest())
    return hashed.digest()


def _parts(value: Any, within: tuple[int, ...]) -> tuple[str, Iterable[Any]]:
    """Return the kind of a value, and its parts: values again, or bytes as they are."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if value is None or isinstance(value, bool | int | float | complex):
        return kind, [_Bytes(repr(value).encode())]
    if isinstance(value, str | Path):
        return kind, [_Bytes(str(value).encode("utf-8", "surrogatepass")), *_contents(value)]
    if isinstance(value, bytes | bytearray):
        return kind, [_Bytes(bytes(value))]
    if isinstance(value, enum.Enum):
        return kind, [_Bytes(value.name.encode())]
    if isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
        shape = f"{value.dtype.str} {value.shape}".encode()
        return kind, [_Bytes(shape), _Bytes(np.ascontiguousarray(value).tobytes())]
    if isinstance(value, Mapping):
        pairs = sorted(_digest((key, item), within) for key, item in value.items())
        return kind, map(_Bytes, pairs)
    if isinstance(value, Set):
        return kind, map(_Bytes, sorted(_digest(each, within) for each in value))
    if isinstance(value, list | tuple):
        return kind, value
    if isinstance(value, partial):
        return kind, [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return kind, [value.__func__, value.__self__]
    if isinstance(value, types.CodeType):
        return kind, [value.co_code, value.co_names, value.co_varnames, value.co_consts]
    if isinstance(value, types.FunctionType) or _has_own_code(value):
        return kind, _code(value)
    if isinstance(value, type | types.BuiltinFunctionType):
        return f"{kind} {value.__module__}.{value.__qualname__}", []
    if dataclasses.is_dataclass(value):
        return kind, [type(value), *(getattr(value, f.name) for f in dataclasses.fields(value))]
    return kind, _state(value, kind)


def _has_own_code(value: Any) -> bool:
    """Return whether a value is a function or class that is of no package with a version."""
    if not isinstance(value, type | types.FunctionType):
        return False
    file = getattr(sys.modules.get(value.__module__), "__file__", None) or ""
    return value.__module__.partition(".")[0] not in VERSIONED and "-packages" not in file


def _code(value: types.FunctionType | type) -> Iterator[list[Any]]:
    """Yield the parts of a function or class, and of the functions and classes that it uses."""
    todo: list[types.FunctionType | type] = [value]
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        name = f"{each.__module__}.{each.__qualname__}"
        if isinstance(each, type):
            yield [name]
            used = _members(each) if _has_own_code(each) else {}
        else:
            closed = [cell.cell_contents for cell in each.__closure__ or ()]
            yield [name, each.__code__, each.__defaults__, each.__kwdefaults__, closed]
            known = each.__globals__ if _has_own_code(each) else {}
            used = {
                name: known[name] for name in sorted(_global_names(each.__code__) & known.keys())
            }
        for label, item in used.items():
            item = getattr(item, "__wrapped__", item)  # a function with a cache
            if isinstance(item, type | types.FunctionType):
                todo.append(item)
            else:
                yield [label, item.__name__ if isinstance(item, types.ModuleType) else item]


def _members(of: type) -> dict[str, Any]:
    """Return base classes, methods and plain values of a class, but those that are generated."""
    found: dict[str, Any] = {f"base {place}": base for place, base in enumerate(of.__bases__)}
    for name, member in vars(of).items():
        special = name.startswith("__")
        for inner in ("__func__", "fget", "func"):  # of static methods and properties
            member = getattr(member, inner, member)
        if isinstance(member, types.FunctionType):
            if not (special and member.__code__.co_filename == "<string>"):  # by a dataclass
                found[name] = member
        elif not special and isinstance(member, str | int | float | tuple | type):
            found[name] = member
    return found


def _global_names(code: types.CodeType) -> set[str]:
    """Return the names that code, and code within it, looks up in its module."""
    found = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return found.union(*map(_global_names, inner))


def _state(value: Any, kind: str) -> Iterable[Any]:
    """Return what an object of another class would be pickled as."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        reduced = None
    if not isinstance(reduced, tuple) or len(reduced) < 2:
        raise UsageError(f"the contents of a {kind} cannot be told apart from those of others")
    parts: list[Any] = [*reduced[:3]]
    for items in reduced[3:5]:
        parts.append(None if items is None else list(items))
    return parts


def _contents(value: str | Path) -> list[_Bytes]:
    """Return what a file contains that a text or path names, if there is one."""
    text = str(value)
    if not text or len(text) > LONGEST_NAME or "\0" in text:
        return []
    try:
        path = Path(text)
        return [_Bytes(hashlib.sha256(path.read_bytes()).digest())] if path.is_file() else []
    except OSError:
        return []
