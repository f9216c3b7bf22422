"""Dictionary that does not change, for the fields of frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from mpcsim.errors import UsageError

__all__ = ["FrozenDict", "freeze_fields"]

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """Dict that refuses changes: equal to a plain one, with its repr; pickles and deep-copies.

    Hashable if its values are. ``dict(frozen)`` and ``frozen | other`` are plain dicts again.
    """

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("this mapping is frozen: make another from dict(...) of it")

    __setitem__ = __delitem__ = __ior__ = clear = _refuse
    pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


def _frozen(value: Any) -> Any:
    """Return a value with plain mappings, lists and sets in it frozen, at every depth."""
    if type(value) is dict:
        return FrozenDict((key, _frozen(inner)) for key, inner in value.items())
    if type(value) is list:
        return tuple(map(_frozen, value))
    return frozenset(value) if type(value) is set else value


def freeze_fields(instance: object, *names: str) -> None:
    """Replace mappings in fields of a frozen dataclass by copies that do not change.

    Mappings, lists and sets among their values do not change either.

    Raises:
        UsageError: a field is no mapping.
    """
    for name in names:
        given = getattr(instance, name)
        if not isinstance(given, Mapping):
            raise UsageError(f"{name}: expected a mapping, not {type(given).__name__}")
        object.__setattr__(instance, name, _frozen(dict(given)))
