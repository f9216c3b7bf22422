"""What handling messages costs, as measured: distributions, by operation, message and stage.

``mpcsim calibrate`` measures them and writes them to a file, which is read here; one of them comes
with the package. Costs of one machine become another's by four primitives (``speed.Speed``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mpcsim import strict_json
from mpcsim.capacity.model.operations import Operation
from mpcsim.capacity.model.speed import Speed
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import Connection

T = TypeVar("T")

Kind = Literal["loop", "loop disk", "thread", "free thread", "thread disk", "later loop"]
KINDS: Final[tuple[Kind, ...]] = ("loop", "loop disk", "thread", "free thread", "thread disk")
"""In the order of the kernel's numbers."""
LATER: Final = "later loop"
"""What the event loop does for a message when all that it leads to has been sent: always last."""
POINTS: Final = 33
"""Quantiles of each distribution at equal distances: the ends and 31 between them."""
MOST_POINTS: Final = 64
"""Quantiles of each distribution: those, and others where the distribution needs them."""
FORMAT: Final = "mpcsim costs 3"
MEASURED: Final = "measured.json"
"""The file in this package."""
DIGITS: Final = 4
LEVEL_DIGITS: Final = 7
"""Digits of levels after the point."""
EXACT: Final = 1e-4
"""Part of the second moment that may be off between two quantiles."""
SEGMENTS: Final = 400
MBIT_PER_S: Final = 1e6
"""Of a loopback interface: no window and no rate makes anything wait."""
AGAIN: Final = "mpcsim calibrate measures anew"


@dataclass(frozen=True)
class Stage:
    """One thing after the other that a process does about a message."""

    kind: Kind
    quantiles_ms: tuple[float, ...]
    """The ends included; times between two of them are uniform."""
    curve: float = 0.0
    """Part of its time that goes into curve arithmetic; what is left is the interpreter's."""
    levels: tuple[float, ...] = ()
    """Levels of the quantiles, from 0 to 1; by default they are at equal distances."""

    @classmethod
    def of(cls, kind: Kind, samples_ms: NDArray[np.float64], curve: float = 0.0) -> Stage:
        """Return the distribution of measured times.

        To quantiles at equal distances come those of times where the second moment, on which
        waiting depends, is furthest from that of the samples: so a seldom pause stays what it is.
        """
        ordered = np.sort(np.maximum(samples_ms, 0.0))  # clocks are read one after the other
        levels = _levels(ordered)
        points = np.quantile(ordered, levels)
        if (mean := _moment(points, levels)) > 0:
            points *= ordered.mean() / mean
        return cls(kind, tuple(map(float, points)), curve, tuple(map(float, levels)))

    @property
    def at_levels(self) -> NDArray[np.float64]:
        """The levels of the quantiles."""
        return np.array(self.levels or np.linspace(0.0, 1.0, len(self.quantiles_ms)))

    @property
    def mean_ms(self) -> float:
        """On average."""
        return _moment(np.array(self.quantiles_ms), self.at_levels)

    def plus(self, ms: float) -> Stage:
        """The same, with what it always takes on top. Less than nothing: in proportion."""
        if ms >= 0:
            quantiles = tuple(each + ms for each in self.quantiles_ms)
            before = self.mean_ms
            curve = self.curve * before / (before + ms) if before + ms > 0 else 0.0
            return replace(self, quantiles_ms=quantiles, curve=curve)
        factor = max(0.0, 1 + ms / self.mean_ms) if self.mean_ms > 0 else 1.0
        return replace(self, quantiles_ms=tuple(each * factor for each in self.quantiles_ms))

    def times(self, ratios: Mapping[str, float]) -> Stage:
        """On a machine on which the primitives take so many times as long."""
        match self.kind:
            case "free thread":
                factor = ratios["argon2"]
            case "loop disk" | "thread disk":
                factor = ratios["fsync"]
            case _:
                factor = self.curve * ratios["curve"] + (1 - self.curve) * ratios["interpreter"]
        curve = self.curve * ratios["curve"] / factor if self.curve else 0.0
        quantiles = tuple(each * factor for each in self.quantiles_ms)
        return replace(self, quantiles_ms=quantiles, curve=curve)


def _moment(points: NDArray[np.float64], levels: NDArray[np.float64]) -> float:
    """Return the mean of a distribution that is uniform between its quantiles."""
    return float(((points[:-1] + points[1:]) / 2 * np.diff(levels)).sum())


def _levels(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the levels at which quantiles of sorted samples are kept."""
    of_samples = np.linspace(0.0, 1.0, len(ordered)) if len(ordered) > 1 else np.zeros(1)
    levels = np.linspace(0.0, 1.0, POINTS)
    while len(levels) < MOST_POINTS:
        kept = np.interp(of_samples, levels, np.quantile(ordered, levels))
        segment = np.clip(np.searchsorted(levels, of_samples, "right") - 1, 0, len(levels) - 2)
        off = np.bincount(segment, np.abs(ordered**2 - kept**2), len(levels) - 1)
        if off.max() <= EXACT * float((ordered**2).sum()):
            break
        inside = np.where(segment == off.argmax(), np.abs(ordered - kept), -1.0)
        levels = np.unique(np.append(levels, of_samples[inside.argmax()]))
    return levels


def loopback(hop_ms: float) -> Network:
    """The network of a machine that all parts are on: nothing but what a message takes from one
    process to another."""
    connection = Connection(initial_window=SEGMENTS)
    return Network.star(
        hop_ms, hop_ms, hop_ms, mbit_per_s=MBIT_PER_S, connection=connection, name="loopback"
    )


@dataclass(frozen=True)
class Scheduling:
    """How the operating system hands out cores: chances."""

    together: float = 0.0
    """Who wakes up goes to the core of who woke it, though another is free;"""
    ahead: float = 0.0
    """and before who computes there, or where it was last."""
    takes: float = 1.0
    """A core that becomes free takes over who waits for another,"""
    hot_ms: float = 0.5
    """and has waited for so long (no chance, but a time): a sooner move would cost its caches more.
    So of processes that work for about as long a core is idle while others wait; 0 leaves this out,
    as queueing theory does (M/M/c)."""


@dataclass(frozen=True)
class Costs:
    """Everything that was measured of one service on one machine."""

    stages: Mapping[str, Mapping[str, tuple[Stage, ...]]] = field(repr=False)
    """By operation and message."""
    turn_ms: Mapping[str, float]
    """What a turn of each part's event loop costs by itself: shared by what is done in it."""
    memory_mb: Mapping[str, tuple[float, float]]
    """Of each part's process: at rest, and for each call under way."""
    machine: Speed
    version: Mapping[str, str]
    """Of the service: a digest of each operation's messages."""
    cold_ms: Mapping[str, float] = field(default_factory=dict)
    """What a turn costs more if the part has done nothing for long: its caches are cold."""
    cooling_ms: float = 50.0
    """How long that is: after this time without work 63 % of it, and so on (exponential)."""
    hop_ms: float = 0.0
    """What a message takes from one process of a machine to another, besides all work."""
    scheduling: Scheduling = field(default_factory=Scheduling)
    cpu_ms: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """What was measured: by operation and load, of each part, for each call. Nothing is computed
    from it."""

    @property
    def network(self) -> Network:
        """That of the machine that was measured."""
        return loopback(self.hop_ms)

    def of(self, operation: str, message: str) -> tuple[Stage, ...]:
        """What handling a message costs.

        Raises:
            UsageError: it has not been measured.
        """
        try:
            return self.stages[operation][message]
        except KeyError:
            raise UsageError(
                f"costs of {operation}: nothing is known of {message}; they are of another version "
                f"of the service, or of other settings: {AGAIN}"
            ) from None

    def check(self, operations: Iterable[Operation]) -> None:
        """See whether these are costs of this service.

        Raises:
            UsageError: its messages are others, or were not measured.
        """
        for operation in operations:
            known = self.version.get(operation.name)
            if known is None:
                raise UsageError(f"costs: {operation.name} was not measured: {AGAIN}")
            if known != operation.digest:
                raise UsageError(f"costs from another version of the service: {AGAIN}")

    def scaled(self, to: Speed) -> Costs:
        """What the same service costs on another machine: times by what they consist of."""
        ratios = self.machine.ratios(to)
        stages = {
            operation: {
                message: tuple(stage.times(ratios) for stage in each)
                for message, each in messages.items()
            }
            for operation, messages in self.stages.items()
        }
        turn, cold = (
            {part: ms * ratios["interpreter"] for part, ms in each.items()}
            for each in (self.turn_ms, self.cold_ms)
        )
        return replace(
            self,
            stages=stages,
            turn_ms=turn,
            cold_ms=cold,
            hop_ms=self.hop_ms * ratios["interpreter"],
            machine=to,
        )

    # ------------------------------------------------------------------ files

    @classmethod
    def measured(cls) -> Costs:
        """Those that come with this package: of the machine that it says."""
        return _read(MEASURED, (files(__package__) / MEASURED).read_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Costs:
        """Those in a file.

        Raises:
            UsageError: it is no such file.
            OSError: it cannot be read.
        """
        return _read(str(path), Path(path).read_bytes())

    def save(self, path: str | Path) -> None:
        """Write them to a file: times to four digits.

        Raises:
            OSError: it cannot be written.
        """
        stages = {
            operation: {
                message: [
                    [
                        stage.kind,
                        _short(stage.curve),
                        [_short(ms) for ms in stage.quantiles_ms],
                        *(
                            [[round(level, LEVEL_DIGITS) for level in stage.levels]]
                            if stage.levels
                            else []
                        ),
                    ]
                    for stage in each
                ]
                for message, each in messages.items()
            }
            for operation, messages in self.stages.items()
        }
        document = {
            "format": FORMAT,
            "machine": asdict(self.machine),
            "version": dict(self.version),
            "turn_ms": {part: _short(ms) for part, ms in self.turn_ms.items()},
            "cold_ms": {part: _short(ms) for part, ms in self.cold_ms.items()},
            "cooling_ms": self.cooling_ms,
            "hop_ms": _short(self.hop_ms),
            "scheduling": asdict(self.scheduling),
            "memory_mb": {part: list(map(_short, mb)) for part, mb in self.memory_mb.items()},
            "cpu_ms": {
                operation: {
                    load: {part: _short(ms) for part, ms in parts.items()}
                    for load, parts in loads.items()
                }
                for operation, loads in self.cpu_ms.items()
            },
            "stages": stages,
        }
        Path(path).write_text(_lines(document), encoding="utf-8")


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _lines(document: dict[str, Any]) -> str:
    """JSON with a line for each message."""
    *head, (last, operations) = document.items()
    lines = [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in head]
    blocks = []
    for operation, messages in operations.items():
        rows = [
            f"{json.dumps(message, ensure_ascii=False)}: {json.dumps(each, separators=(',', ':'))}"
            for message, each in messages.items()
        ]
        blocks.append(f"{json.dumps(operation)}: {{\n" + ",\n".join(rows) + "\n}")
    return "{\n" + "\n".join(lines) + f'\n"{last}": {{\n' + ",\n".join(blocks) + "\n}\n}\n"


def _read(name: str, data: bytes) -> Costs:
    try:
        document = _object(strict_json.parse(data), lambda value: value)
        if document.get("format") != FORMAT:
            raise _Odd(f"its format is {document.get('format')!r}, not {FORMAT!r}")
        document.pop("format")
        known = {each.name for each in fields(Costs)}
        if document.keys() != known:
            raise _Odd(f"it has {', '.join(sorted(document))}; not {', '.join(sorted(known))}")
        by_part = _of(_number)
        machine = _object(document["machine"], _number)
        if machine.keys() != {each.name for each in fields(Speed)}:
            raise _Odd(f"machine has {', '.join(machine)}")
        return Costs(
            _object(document["stages"], _of(_stages)),
            by_part(document["turn_ms"]),
            _object(document["memory_mb"], _pair),
            Speed(**machine),
            _object(document["version"], _text),
            by_part(document["cold_ms"]),
            _number(document["cooling_ms"]),
            _number(document["hop_ms"]),
            _scheduling(document["scheduling"]),
            _object(document["cpu_ms"], _of(_of(_number))),
        )
    except InvalidEncoding as error:
        why = str(error)
    except _Odd as error:
        why = str(error)
    except UsageError as error:
        why = str(error)
    raise UsageError(f"{name}: no costs: {why} (mpcsim calibrate writes such files)")


class _Odd(Exception):
    """What is wrong in a document."""


def _object(value: Any, each: Callable[[Any], T]) -> dict[str, T]:
    if not isinstance(value, dict):
        raise _Odd(f"an object is missing, at {_shown(value)}")
    return {name: each(member) for name, member in value.items()}


def _of(each: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: _object(value, each)


def _number(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < math.inf:
        raise _Odd(f"{_shown(value)} is no number from 0 on")
    return float(value)


def _scheduling(value: Any) -> Scheduling:
    chances = _object(value, _number)
    if chances.keys() != {each.name for each in fields(Scheduling)}:
        raise _Odd(f"scheduling has {', '.join(chances)}")
    hot_ms = chances.pop("hot_ms")
    if max(chances.values()) > 1:
        raise _Odd(f"scheduling has {_shown(value)}: chances are at most 1")
    return Scheduling(**chances, hot_ms=hot_ms)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Odd(f"{_shown(value)} is no text")
    return value


def _list(value: Any, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise _Odd(f"{_shown(value)} is no list" + (f" of {length}" if length else ""))
    return value


def _pair(value: Any) -> tuple[float, float]:
    one, other = map(_number, _list(value, 2))
    return one, other


def _stages(value: Any) -> tuple[Stage, ...]:
    stages = tuple(_stage(each) for each in _list(value))
    if any(stage.kind == LATER for stage in stages[:-1]):
        raise _Odd(f"a {LATER} comes before something else")
    return stages


def _stage(value: Any) -> Stage:
    kind, curve, quantiles, *levels = _list(value, 4 if len(_list(value)) == 4 else 3)
    if kind not in (*KINDS, LATER):
        raise _Odd(f"{_shown(kind)} is none of {', '.join((*KINDS, LATER))}")
    points = tuple(map(_number, _list(quantiles, None if levels else POINTS)))
    if any(one > other for one, other in pairwise(points)):
        raise _Odd(f"quantiles of {_shown(quantiles)} do not rise")
    at = tuple(map(_number, _list(levels[0], len(points)))) if levels else ()
    if at and (len(at) < 2 or (at[0], at[-1]) != (0.0, 1.0)):
        raise _Odd(f"levels of {_shown(levels[0])} are not from 0 to 1")
    if any(one >= other for one, other in pairwise(at)):
        raise _Odd(f"levels of {_shown(levels[0])} do not rise")
    if _number(curve) > 1:
        raise _Odd(f"{curve} is no part of a time")
    return Stage(cast(Kind, kind), points, float(curve), at)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:40] + "…"
