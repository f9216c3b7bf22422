"""Samples of the handling of each message, from the records of ``mpcsim.service.web.meter``.

Requests of one call have the same id in all processes. So the n-th request with it at the gateway
is the graph's n-th from node to gateway, and so on.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.model.costs import LATER, Kind, Stage
from mpcsim.capacity.model.operations import REQUEST
from mpcsim.service.web.meter import RequestPart

COLUMNS: Final = tuple(each.name for each in fields(RequestPart) if each.type == "int")
"""Columns of a meter's record about a part of a request."""
_STAGES: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("loop", "loop", "loop_curve"),
    ("loop_disk", "loop disk", ""),
    ("thread", "thread", "thread_curve"),
    ("free", "free thread", ""),
    ("thread_disk", "thread disk", ""),
    ("after", "loop", "loop_curve"),
    ("later", LATER, "loop_curve"),
)
"""Stages in the order of the handling of a message: columns, kinds, columns of their curve
arithmetic."""
SELDOM_MS: Final = 1e-3
"""Mean time below which a stage is left out."""


class Request(NamedTuple):
    """Record of a request at a server."""

    call: str
    began_s: float
    parts: list[tuple[str, NDArray[np.float64]]]
    """Parts of its handling: their cause, and milliseconds by ``COLUMNS``."""
    iterations: list[NDArray[np.float64]]
    """Milliseconds of the event-loop iterations of each part."""


@dataclass(frozen=True)
class Samples:
    """Samples of the handling of messages: a row for each time (ms), by ``COLUMNS``."""

    by_message: Mapping[str, NDArray[np.float64]]
    """Samples by message."""
    handled_at: Mapping[str, str]
    """Part that handled a message."""
    iterations: Mapping[str, Sequence[NDArray[np.float64]]] = field(default_factory=dict)
    """Event-loop iterations of which the column ``loop`` of each row consists."""

    def stages(self, message: str, curves: Samples) -> tuple[Stage, ...]:
        """Return the stages of the handling of a message.

        Args:
            curves: samples with curve arithmetic. These meters slow everything but the libraries,
                so that only the libraries' times are used.
        """
        found = []
        for column, kind, curve in _STAGES:
            samples = self._column(message, column)
            if not samples.size or samples.mean() < SELDOM_MS:
                continue
            share = self._curve_share(message, curve, curves)
            each = self._iterations(message, samples) if column == "loop" else (samples,)
            found += [Stage.from_samples(kind, ms, share) for ms in each]
        return tuple(found)

    def _iterations(
        self, message: str, samples: NDArray[np.float64]
    ) -> Iterable[NDArray[np.float64]]:
        """Return samples of each event-loop iteration: of handlings with the most frequent number
        of them, scaled to the mean of all."""
        every = self.iterations.get(message, ())
        if not every:
            return (samples,)
        usual, _ = Counter(map(len, every)).most_common(1)[0]
        some = np.array([iterations for iterations in every if len(iterations) == usual])
        spent = some.sum()
        return some.T * (samples.mean() * len(some) / spent) if spent else (samples,)

    def _curve_share(self, message: str, curve: str, curves: Samples) -> float:
        if not curve:
            return 0.0
        kind = curve.partition("_")[0]
        columns = ("loop", "after", "later") if kind == "loop" else ("thread", "free")
        spent = sum(float(self._column(message, each).mean()) for each in columns)
        times = curves._column(message, curve)
        return min(1.0, float(times.mean()) / spent) if times.size and spent else 0.0

    def _column(self, message: str, name: str) -> NDArray[np.float64]:
        rows = self.by_message.get(message, np.zeros((0, len(COLUMNS))))
        return rows[:, COLUMNS.index(name)]


def read(files: Iterable[Path]) -> list[Request]:
    """Return all records of a process's meter."""
    found = []
    for path in files:
        for line in path.read_text(encoding="utf-8").splitlines():
            call, _, began, parts = json.loads(line)
            rows = [(what, np.array(spent) / 1e6) for what, *spent, _ in parts]
            found.append(Request(call, began, rows, [np.array(part[-1]) / 1e6 for part in parts]))
    return found


def samples(
    requests: Mapping[str, Sequence[Request]],
    address_of: Mapping[str, str],
    windows: Iterable[tuple[float, float]],
) -> Samples:
    """Return the samples of messages in calls that began in one of some intervals.

    Args:
        requests: by part (``node``, ``gateway``, ...).
        address_of: address of each part.
    """
    within = list(windows)
    calls = {
        request.call
        for request in requests["node"]
        if any(began <= request.began_s < ended for began, ended in within)
    }
    found: defaultdict[str, list[NDArray[np.float64]]] = defaultdict(list)
    iterations: defaultdict[str, list[NDArray[np.float64]]] = defaultdict(list)
    handled_at: dict[str, str] = {}

    def add(
        message: str, part: str, spent: NDArray[np.float64], taken: NDArray[np.float64]
    ) -> None:
        found[message].append(spent)
        iterations[message].append(taken)
        handled_at[message] = part

    for part, each in requests.items():
        asking = {"node": "", "gateway": "client"}.get(part, "gateway")
        own = "client" if part == "node" else part
        requests_so_far: Counter[str] = Counter()
        answers_so_far: Counter[tuple[str, str]] = Counter()
        for request in sorted(each, key=lambda r: r.began_s):
            if request.call not in calls:
                continue
            requests_so_far[request.call] += 1
            nth = requests_so_far[request.call]
            (_, spent), *answers = request.parts
            taken, *later = request.iterations
            add(f"request {nth} {asking} → {part}" if asking else REQUEST, part, spent, taken)
            for (what, spent), taken in zip(answers, later, strict=True):
                peer = next((p for p, a in address_of.items() if what.startswith(f"{a}/")), None)
                if peer is None:
                    continue
                answers_so_far[request.call, peer] += 1
                nth = answers_so_far[request.call, peer]
                add(f"answer to request {nth} {own} → {peer}", part, spent, taken)
    return Samples({name: np.array(rows) for name, rows in found.items()}, handled_at, iterations)
