"""Latencies in network files: a number, the name of a distribution, or a table with its kind.

Your own distribution has a kind once it is registered, in every process that uses such files::

    register_latency("two-paths", TwoPaths)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.bursts import Bursts
from mpcsim.sim.network.files import tables
from mpcsim.sim.network.latency import (
    Constant,
    Empirical,
    Gamma,
    Latency,
    LogNormal,
    Normal,
    Pareto,
    Uniform,
)

L = TypeVar("L", bound=Latency)


class _Kind(NamedTuple):
    of: type[Latency]
    attributes: Mapping[str, str] = {}
    """Attributes by parameter, where their names differ."""


KINDS: Final[dict[str, _Kind]] = {
    "constant": _Kind(Constant),
    "uniform": _Kind(Uniform),
    "normal": _Kind(Normal, {"mean_ms": "centre_ms", "std_ms": "spread_ms"}),
    "log-normal": _Kind(LogNormal),
    "gamma": _Kind(Gamma),
    "pareto": _Kind(Pareto),
    "empirical": _Kind(Empirical),
    "bursts": _Kind(Bursts),
}
"""Distributions by their names in files."""


def register_latency(kind: str, family: type[L], *, replace: bool = False) -> type[L]:
    """Register a latency distribution of your own for files, as ``kind``; return it.

    The keys of its table are the parameters of the class: numbers, texts, truth values and tuples
    of those, each with a type, and an attribute of the same name for when it is written.

    Args:
        replace: replace another class of that kind, as a notebook's cell does that runs again.

    Raises:
        UsageError: it is no subclass of ``Latency``, a parameter cannot be in a file, the kind is
            empty or another class's, or the class has another kind.
    """
    given: object = family
    if not (isinstance(given, type) and issubclass(given, Latency)):
        raise UsageError(f"latency kind {kind!r}: {family!r} is no subclass of Latency")
    tables.check_readable(family)
    if not kind:
        raise UsageError(f"latency class {family.__name__}: its kind is empty")
    if kind in KINDS and KINDS[kind].of is not family and not replace:
        raise UsageError(
            f"latency kind {kind!r} is that of the class {KINDS[kind].of.__name__}: choose another "
            "one, or replace=True"
        )
    if taken := [name for name, known in KINDS.items() if known.of is family and name != kind]:
        raise UsageError(f"latency class {family.__name__} has the kind {taken[0]!r} already")
    KINDS[kind] = _Kind(family)
    return family


def decode(value: object, at: str, named: Mapping[str, Latency]) -> Latency:
    """Decode a latency from a file.

    Args:
        named: the file's distributions.

    Raises:
        UsageError: unknown name, kind or parameter, or one out of range: names its path.
    """
    if isinstance(value, str):
        if value not in named:
            raise UsageError(f"{at}: {unknown('distribution', value, named)}")
        return named[value]
    if not isinstance(value, Mapping):
        return _constant(value, at)
    kind, own = tables.split_kind(value, "kind", at, KINDS)
    return tables.decode(KINDS[kind].of, own, at, {})


def encode(latency: Latency) -> dict[str, Any]:
    """Encode a latency as a table.

    Raises:
        UsageError: it is of a class that is not in ``KINDS``.
    """
    for name, kind in KINDS.items():
        if type(latency) is kind.of:
            return {"kind": name, **tables.encode(latency, names=kind.attributes)}
    raise UsageError(
        f"a latency of the class {type(latency).__name__} has no kind in files: register_latency "
        "gives it one"
    )


def _constant(value: object, at: str) -> Constant:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{at}: {value!r} is neither milliseconds, nor a name, nor a table")
    try:
        return Constant(value)
    except UsageError as error:
        raise UsageError(f"{at}: {error}") from None
