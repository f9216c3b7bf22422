"""Service demands: distributions of the times of stages, by operation and message, as measured.

``mpcsim calibrate`` measures them and writes a file; one comes with the package. A file of another
machine is scaled by four primitives (``speed.Speed``). A file is a JSON object:

    {
      "format": "mpcsim costs 3",
      "machine": {"curve_us": 22.5, ...},   the machine's primitives, as of Speed
      "version": {"sign secp256k1": "..."}, digest of the messages of each operation
      "turn_ms": {"gateway": 0.1, ...},     an iteration of the event loop itself, by part
      "cold_ms": {"gateway": 0.2, ...},     more of it after a long pause, by part
      "cooling_ms": 50.0,                   time constant of that
      "hop_ms": 0.05,                       a message between two processes of a machine
      "scheduling": {"together": 0.5, ...}, probabilities of the CPU scheduler (Scheduling)
      "memory_mb": {"gateway": [90, 0.1]},  a process at rest, and more for each call in flight
      "cpu_ms": {...},                      CPU time by operation, load and part: for the record
      "stages": {
        "sign secp256k1": {                 an operation
          "MESSAGE": [                      what follows when this message arrives, in order:
            ["loop", 0.4, [0.1, ..., 2.3], [0.0, ..., 1.0]]
          ]
        }
      }
    }

A stage is its kind, the share of it that is curve arithmetic, quantiles of its duration in
milliseconds, and their levels (without: equidistant ones). Kinds: ``loop`` occupies the event loop,
``loop disk`` that and the disk, ``thread`` a worker thread, ``free thread`` one that holds no
interpreter lock, ``thread disk`` one at the disk; ``later loop`` comes after the answer is sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mpcsim import strict_json
from mpcsim.capacity.model.operations import Operation
from mpcsim.capacity.model.speed import Speed
from mpcsim.errors import InvalidEncoding, UsageError
from mpcsim.frozen_dict import freeze_fields
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import Connection

T = TypeVar("T")

Kind = Literal["loop", "loop disk", "thread", "free thread", "thread disk", "later loop"]
KINDS: Final[tuple[Kind, ...]] = ("loop", "loop disk", "thread", "free thread", "thread disk")
"""Kinds of stages, in the order of the kernel's numbers."""
LATER: Final = "later loop"
"""Kind of the last stage of a message, if any: work of the event loop after the answer is sent."""
POINTS: Final = 33
"""Quantiles of each distribution at equidistant levels, both ends included."""
MOST_POINTS: Final = 64
"""Upper bound of the quantiles of a distribution, with those at additional levels."""
FORMAT: Final = "mpcsim costs 3"
MEASURED: Final = "measured.json"
"""Costs file that comes with the package."""
DIGITS: Final = 4
LEVEL_DIGITS: Final = 7
"""Digits of levels after the point."""
EXACT: Final = 1e-4
"""Accepted error of the second moment between two quantiles, relative to the whole."""
SEGMENTS: Final = 400
MBIT_PER_S: Final = 1e6
"""Bandwidth of a loopback interface: neither window nor rate delays anything."""
TWIN: Final = "twin"
"""Label, beside the parts in ``cpu_ms``, of what the model predicts for all of them."""
DISTURBED: Final = 0.05
"""Error of a fit above which its measurements were disturbed."""
AGAIN: Final = "mpcsim calibrate measures anew"


@dataclass(frozen=True)
class Stage:
    """Stage of the handling of a message: a CPU or disk burst with a distribution of its
    duration."""

    kind: Kind
    quantiles_ms: tuple[float, ...]
    """Quantiles, both ends included; between two of them the distribution is uniform."""
    curve: float = 0.0
    """Share of the time that is curve arithmetic; the rest is the interpreter's."""
    levels: tuple[float, ...] = ()
    """Levels of the quantiles, from 0 to 1; by default equidistant."""

    @classmethod
    def from_samples(cls, kind: Kind, samples_ms: NDArray[np.float64], curve: float = 0.0) -> Stage:
        """Return the distribution of measured times.

        Levels are added where the second moment, on which waiting times depend, differs most from
        that of the samples, so that rare long pauses are kept.
        """
        ordered = np.sort(np.maximum(samples_ms, 0.0))  # differences of clocks may be negative
        levels = _choose_levels(ordered)
        points = np.quantile(ordered, levels)
        if (mean := _mean(points, levels)) > 0:
            points *= ordered.mean() / mean
        return cls(kind, tuple(map(float, points)), curve, tuple(map(float, levels)))

    @property
    def at_levels(self) -> NDArray[np.float64]:
        """Levels of the quantiles."""
        return np.array(self.levels or np.linspace(0.0, 1.0, len(self.quantiles_ms)))

    @property
    def mean_ms(self) -> float:
        """Mean duration."""
        return _mean(np.array(self.quantiles_ms), self.at_levels)

    def increased_by(self, ms: float) -> Stage:
        """Return the stage with a constant added to its time; a negative one shrinks it in
        proportion."""
        if ms >= 0:
            quantiles = tuple(each + ms for each in self.quantiles_ms)
            before = self.mean_ms
            curve = self.curve * before / (before + ms) if before + ms > 0 else 0.0
            return replace(self, quantiles_ms=quantiles, curve=curve)
        factor = max(0.0, 1 + ms / self.mean_ms) if self.mean_ms > 0 else 1.0
        return replace(self, quantiles_ms=tuple(each * factor for each in self.quantiles_ms))

    def scaled_by(self, ratios: Mapping[str, float]) -> Stage:
        """Return the stage on a machine whose primitives take ``ratios`` times as long."""
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


def _mean(points: NDArray[np.float64], levels: NDArray[np.float64]) -> float:
    """Return the mean of a distribution that is uniform between its quantiles."""
    return float(((points[:-1] + points[1:]) / 2 * np.diff(levels)).sum())


def _choose_levels(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
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


def loopback_network(hop_ms: float) -> Network:
    """Return the network of a single machine: a message takes ``hop_ms`` from process to
    process."""
    connection = Connection(initial_window=SEGMENTS)
    return Network.star(
        hop_ms, hop_ms, hop_ms, mbit_per_s=MBIT_PER_S, connection=connection, name="loopback"
    )


@dataclass(frozen=True)
class Scheduling:
    """Probabilities of the CPU scheduler (``kernel.cpu_scheduler`` says what they do).

    The names are those of costs files: ``together`` is wake-affine placement, ``ahead`` preemption
    at wake-up, ``takes`` stealing by an idle core, ``hot_ms`` the migration cost.
    """

    together: float = 0.0
    """Probability that a woken thread goes to its waker's core though another is idle."""
    ahead: float = 0.0
    """Probability that it preempts a thread there whose process has used more CPU time lately."""
    takes: float = 1.0
    """Probability that a core that becomes idle takes a thread from another's run queue."""
    hot_ms: float = 0.5
    """Least time that such a thread must have waited (a time, no probability): a sooner move would
    cost its caches more. So a core can be idle while others have queues; 0 leaves this out, as
    M/M/c does."""


@dataclass(frozen=True)
class Costs:
    """Service demands of one version of the service on one machine."""

    stages: Mapping[str, Mapping[str, tuple[Stage, ...]]] = field(repr=False)
    """Stages, by operation and message."""
    turn_ms: Mapping[str, float]
    """Cost of an event-loop iteration itself, by part; jobs of an iteration share it."""
    memory_mb: Mapping[str, tuple[float, float]]
    """Memory of a process at rest, and additional memory for each call in flight, by part."""
    machine: Speed
    version: Mapping[str, str]
    """Digest of each operation's messages, by operation: costs of another version are refused."""
    cold_ms: Mapping[str, float] = field(default_factory=dict)
    """Additional cost of an iteration after a long pause, by part: its caches are cold."""
    cooling_ms: float = 50.0
    """Time constant of that: after a pause of this length 63 % of it."""
    hop_ms: float = 0.0
    """Latency of a message between two processes of a machine, besides all work."""
    scheduling: Scheduling = field(default_factory=Scheduling)
    cpu_ms: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """Measured CPU time for each call, by operation, load and part: for the record, nothing uses
    it."""

    def __post_init__(self) -> None:
        freeze_fields(self, "stages", "turn_ms", "memory_mb", "version", "cold_ms", "cpu_ms")

    @property
    def network(self) -> Network:
        """Network of the machine that was measured."""
        return loopback_network(self.hop_ms)

    def stages_of(self, operation: str, message: str) -> tuple[Stage, ...]:
        """Return the stages of the handling of a message.

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

    def check_version(self, operations: Iterable[Operation]) -> None:
        """Check that these are costs of this version of the service.

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
        """Return the costs on another machine, scaled primitive by primitive."""
        ratios = self.machine.ratios(to)
        stages = {
            operation: {
                message: tuple(stage.scaled_by(ratios) for stage in each)
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

    @property
    def fit_error(self) -> float:
        """Relative error of the model's CPU time for a call, in the median of all operations and
        loads to which it was fitted; nan: none."""
        errors = [
            abs(parts[TWIN] / (sum(parts.values()) - parts[TWIN]) - 1)
            for loads in self.cpu_ms.values()
            if len(loads) > 1
            for parts in loads.values()
            if TWIN in parts
        ]
        return median(errors) if errors else math.nan

    @property
    def is_disturbed(self) -> bool:
        """Whether the measured times contradict each other: other programs had the cores, or the
        cores slowed each other."""
        return self.fit_error > DISTURBED

    # ------------------------------------------------------------------ files

    @classmethod
    def measured(cls) -> Costs:
        """Return the costs that come with the package, of the machine that they name."""
        return _read(MEASURED, (files(__package__) / MEASURED).read_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Costs:
        """Return the costs in a file.

        Raises:
            UsageError: it is no such file.
            OSError: it cannot be read.
        """
        return _read(str(path), Path(path).read_bytes())

    def save(self, path: str | Path) -> None:
        """Write the costs to a file; times have four digits.

        Raises:
            OSError: it cannot be written.
        """
        stages = {
            operation: {
                message: [
                    [
                        stage.kind,
                        _rounded(stage.curve),
                        [_rounded(ms) for ms in stage.quantiles_ms],
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
            "turn_ms": {part: _rounded(ms) for part, ms in self.turn_ms.items()},
            "cold_ms": {part: _rounded(ms) for part, ms in self.cold_ms.items()},
            "cooling_ms": self.cooling_ms,
            "hop_ms": _rounded(self.hop_ms),
            "scheduling": asdict(self.scheduling),
            "memory_mb": {part: list(map(_rounded, mb)) for part, mb in self.memory_mb.items()},
            "cpu_ms": {
                operation: {
                    load: {part: _rounded(ms) for part, ms in parts.items()}
                    for load, parts in loads.items()
                }
                for operation, loads in self.cpu_ms.items()
            },
            "stages": stages,
        }
        Path(path).write_text(_json_text(document), encoding="utf-8")


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _json_text(document: dict[str, Any]) -> str:
    """Return JSON text with a line for each message."""
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
            raise _InvalidCosts(f"its format is {document.get('format')!r}, not {FORMAT!r}")
        document.pop("format")
        known = {each.name for each in fields(Costs)}
        if document.keys() != known:
            raise _InvalidCosts(
                f"it has {', '.join(sorted(document))}; not {', '.join(sorted(known))}"
            )
        by_part = _object_of(_number)
        machine = _object(document["machine"], _number)
        if machine.keys() != {each.name for each in fields(Speed)}:
            raise _InvalidCosts(f"machine has {', '.join(machine)}")
        return Costs(
            _object(document["stages"], _object_of(_stages)),
            by_part(document["turn_ms"]),
            _object(document["memory_mb"], _pair),
            Speed(**machine),
            _object(document["version"], _text),
            by_part(document["cold_ms"]),
            _number(document["cooling_ms"]),
            _number(document["hop_ms"]),
            _scheduling(document["scheduling"]),
            _object(document["cpu_ms"], _object_of(_object_of(_number))),
        )
    except InvalidEncoding as error:
        why = str(error)
    except _InvalidCosts as error:
        why = str(error)
    except UsageError as error:
        why = str(error)
    raise UsageError(f"{name}: no costs: {why} (mpcsim calibrate writes such files)")


class _InvalidCosts(Exception):
    """Description of an error in a costs file."""


def _object(value: Any, each: Callable[[Any], T]) -> dict[str, T]:
    if not isinstance(value, dict):
        raise _InvalidCosts(f"an object is missing, at {_excerpt(value)}")
    return {name: each(member) for name, member in value.items()}


def _object_of(each: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: _object(value, each)


def _number(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < math.inf:
        raise _InvalidCosts(f"{_excerpt(value)} is no number from 0 on")
    return float(value)


def _scheduling(value: Any) -> Scheduling:
    chances = _object(value, _number)
    if chances.keys() != {each.name for each in fields(Scheduling)}:
        raise _InvalidCosts(f"scheduling has {', '.join(chances)}")
    hot_ms = chances.pop("hot_ms")
    if max(chances.values()) > 1:
        raise _InvalidCosts(f"scheduling has {_excerpt(value)}: chances are at most 1")
    return Scheduling(**chances, hot_ms=hot_ms)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _InvalidCosts(f"{_excerpt(value)} is no text")
    return value


def _list(value: Any, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise _InvalidCosts(f"{_excerpt(value)} is no list" + (f" of {length}" if length else ""))
    return value


def _pair(value: Any) -> tuple[float, float]:
    one, other = map(_number, _list(value, 2))
    return one, other


def _stages(value: Any) -> tuple[Stage, ...]:
    stages = tuple(_stage(each) for each in _list(value))
    if any(stage.kind == LATER for stage in stages[:-1]):
        raise _InvalidCosts(f"a {LATER} comes before something else")
    return stages


def _stage(value: Any) -> Stage:
    kind, curve, quantiles, *levels = _list(value, 4 if len(_list(value)) == 4 else 3)
    if kind not in (*KINDS, LATER):
        raise _InvalidCosts(f"{_excerpt(kind)} is none of {', '.join((*KINDS, LATER))}")
    points = tuple(map(_number, _list(quantiles, None if levels else POINTS)))
    if any(one > other for one, other in pairwise(points)):
        raise _InvalidCosts(f"quantiles of {_excerpt(quantiles)} do not rise")
    at = tuple(map(_number, _list(levels[0], len(points)))) if levels else ()
    if at and (len(at) < 2 or (at[0], at[-1]) != (0.0, 1.0)):
        raise _InvalidCosts(f"levels of {_excerpt(levels[0])} are not from 0 to 1")
    if any(one >= other for one, other in pairwise(at)):
        raise _InvalidCosts(f"levels of {_excerpt(levels[0])} do not rise")
    if _number(curve) > 1:
        raise _InvalidCosts(f"{curve} is no part of a time")
    return Stage(cast(Kind, kind), points, float(curve), at)


def _excerpt(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:40] + "…"
