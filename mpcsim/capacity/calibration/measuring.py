"""Load generator for a real service: latencies of its calls, and CPU time of its processes.

>>> with run_measured_service() as service:
...     full = service.closed("sign secp256k1", in_flight=32, calls=1000)
...     half = service.open("sign secp256k1", full.per_s / 2, calls=1000, seed=1)
>>> half.percentile(99), half.cpu_ms["node"]
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import defaultdict, deque
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.calibration.callers import Callers, Key, build_request, store_response
from mpcsim.capacity.calibration.service import (
    ServiceProcesses,
    all_processes_ms,
    busy_ms,
    run_service,
)
from mpcsim.capacity.model.speed import interpreter_us
from mpcsim.capacity.model.workload import OPERATIONS
from mpcsim.errors import UsageError
from mpcsim.service.web.meter import CURVES_VARIABLE, VARIABLE
from mpcsim.sim.streams import generator

T = TypeVar("T")

CALLER: Final = "caller"
KERNEL: Final = "kernel"
WARM_UP: Final = 0.1
"""Calls before those that count, relative to them."""
KEYS: Final = 64
"""Keys in use at a rate by default."""
LOOK_S: Final = 0.1
"""Interval between samples of the memory."""


@dataclass(frozen=True)
class Measurement:
    """Results of the calls of one measurement."""

    operation: str
    load: str
    """Load as text: ``32 at a time``, or ``80.0 a second``."""
    latencies_ms: NDArray[np.float64] = field(repr=False)
    """Latency of each call, from when it was due."""
    errors: int
    """Calls without a good answer; they are not among the latencies."""
    seconds: float
    cpu_ms: Mapping[str, float]
    """CPU time for each call: of the parts, of the callers, and of the kernel (accounted to no
    process)."""
    idle_mb: Mapping[str, float]
    """Memory of the parts before."""
    peak_mb: Mapping[str, float]
    """Largest memory of the parts meanwhile."""
    speed_us: float
    """Time of a piece of Python just before and after."""
    window_s: tuple[float, float]
    """Beginning and end, by the monotonic clock."""

    @property
    def per_s(self) -> float:
        """Throughput."""
        return len(self.latencies_ms) / self.seconds

    @property
    def in_flight(self) -> float:
        """Mean calls in flight."""
        return float(self.latencies_ms.sum()) / 1000 / self.seconds

    def percentile(self, q: float) -> float:
        """Return a percentile of the latencies (ms)."""
        return float(np.percentile(self.latencies_ms, q))


@contextmanager
def run_measured_service(environment: Mapping[str, str] = {}) -> Iterator[Service]:
    """Run a service of four processes, with its callers in this one, for the length of a block.

    Args:
        environment: variables of the service's processes.

    Raises:
        UsageError: it does not start.
    """
    loop = lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())  # noqa: E731
    # Only this selector has timeouts finer than a millisecond.
    with run_service(environment) as service, asyncio.Runner(loop_factory=loop) as runner:
        made = Service(service, runner)
        yield made


def meter_environment(folder: Path, *, curves: bool = False) -> dict[str, str]:
    """Return the environment of a service whose meters write into a folder when it stops.

    Args:
        curves: whether they time curve arithmetic, too.
    """
    return {VARIABLE: str(folder)} | ({CURVES_VARIABLE: "1"} if curves else {})


class Service:
    """Service under measurement."""

    def __init__(self, run_service: ServiceProcesses, runner: asyncio.Runner) -> None:
        self.served = run_service
        self.callers = Callers(run_service.address)
        self._runner = runner
        self._keys: dict[str, list[Key]] = defaultdict(list)
        self._numbers = 0

    # ------------------------------------------------------------------ measurements

    def closed(self, operation: str, in_flight: int, calls: int) -> Measurement:
        """Measure a closed workload without think time: each of ``in_flight`` keys is used again at
        once.

        Raises:
            UsageError: unknown operation, or preparing calls fail.
        """
        keys = self._prepare_keys(operation, in_flight, calls)
        return self._run(self._closed(operation, keys, in_flight, calls))

    def open(
        self, operation: str, per_s: float, calls: int, seed: int, *, keys: int = KEYS
    ) -> Measurement:
        """Measure an open workload: Poisson arrivals.

        Args:
            keys: used in turn. If none is free, a call waits until one is.

        Raises:
            UsageError: as ``closed``.
        """
        ready = self._prepare_keys(operation, min(keys, calls), calls)
        gaps = generator(seed, "load").exponential(1 / per_s, round(calls * (1 + WARM_UP)))
        return self._run(self._open(operation, ready, per_s, np.cumsum(gaps)))

    async def _closed(
        self, operation: str, keys: deque[Key], in_flight: int, calls: int
    ) -> Measurement:
        warm = max(in_flight, round(calls * WARM_UP))
        watch = _MeasurementWindow(self.served, operation, f"{in_flight} at a time", warm, calls)

        async def caller() -> None:
            while not watch.over:
                due = time.monotonic()
                key = keys.popleft()
                ok = await self._call(operation, key)
                keys.append(key)
                watch.note(due, ok)

        return await watch.run_load([caller() for _ in range(in_flight)])

    async def _open(
        self, operation: str, keys: deque[Key], per_s: float, due: NDArray[np.float64]
    ) -> Measurement:
        calls = round(len(due) / (1 + WARM_UP))
        watch = _MeasurementWindow(
            self.served, operation, f"{per_s:.4g} a second", len(due) - calls, calls
        )
        began = time.monotonic()
        free = asyncio.Semaphore(len(keys))

        async def call(at: float) -> None:
            async with free:
                key = keys.popleft()
                ok = await self._call(operation, key)
                keys.append(key)
            watch.note(at, ok)

        async def arrivals() -> None:
            async with asyncio.TaskGroup() as group:
                for each in due:
                    if (left := began + each - time.monotonic()) > 0:
                        await asyncio.sleep(left)
                    group.create_task(call(began + each))

        return await watch.run_load([arrivals()])

    async def _call(self, operation: str, key: Key) -> bool:
        self._numbers += 1
        path, body = build_request(operation, key, self._numbers)
        status, answer = await self.callers.post(path, key.token, body)
        if status == 200:
            store_response(operation, key, answer)
        return status == 200 and answer.get("result") is not False

    # ------------------------------------------------------------------ preparation

    def _prepare_keys(self, operation: str, keys: int, calls: int) -> deque[Key]:
        """Return keys with which an operation can be asked for."""
        if operation not in OPERATIONS:
            raise UsageError(f"unknown operation {operation!r}")
        verb, curve, _ = OPERATIONS[operation]
        if verb == "generate":
            # Each key needs a user without one.
            count = 2 * keys + round(calls * (1 + WARM_UP))
            return deque(Key(self._token(), curve, {}) for _ in range(count))
        curve = curve or "secp256k1"
        have = self._keys[curve]
        while len(have) < keys:
            key = Key(self._token(), curve, {})
            self._run(self._call_or_fail(f"generate {curve}", key))
            have.append(key)
        for key in have:
            key.presignatures.clear()
        if verb == "presigned":
            # Keys that are answered sooner use more.
            each = 2 * round(calls * (1 + WARM_UP)) // keys + 16
            for key in have[:keys]:
                while len(key.presignatures) < each:
                    self._run(self._call_or_fail(f"presign {curve}", key))
        return deque(have[:keys])

    def _token(self) -> str:
        self._numbers += 1
        return self.served.token(f"user-{self._numbers}")

    async def _call_or_fail(self, operation: str, key: Key) -> None:
        if not await self._call(operation, key):
            raise UsageError(f"{operation}: the service refuses it")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def alone() -> T:
            try:
                return await work
            finally:
                # The node closes idle connections, which only the next request would notice.
                self.callers.close()

        return self._runner.run(alone())


class _MeasurementWindow:
    """Window of the calls that count: reads all clocks at its beginning and end."""

    def __init__(
        self, run_service: ServiceProcesses, operation: str, load: str, warm: int, calls: int
    ) -> None:
        self._served = run_service
        self._named = operation, load
        self._warm, self._calls = warm, calls
        self._count = 0
        self._errors = 0
        self._latencies: list[float] = []
        self._idle = self._most = run_service.resident_mb()
        self._began: _Clocks
        self._ended: _Clocks
        self.over = False

    def note(self, due: float, ok: bool) -> None:
        """Record the end of a call."""
        now = time.monotonic()
        self._count += 1
        if self._warm < self._count <= self._warm + self._calls:
            if ok:
                self._latencies.append((now - due) * 1000)
            else:
                self._errors += 1
        # Reading the clocks of all processes takes a while, which is not measured.
        if self._count == self._warm:
            unaccounted_ms = busy_ms() - all_processes_ms()
            self._began = _Clocks.now(self._served, unaccounted_ms)
        elif self._count == self._warm + self._calls:
            ended = _Clocks.now(self._served)
            self._ended = replace(ended, unaccounted_ms=busy_ms() - all_processes_ms())
            self.over = True

    async def run_load(self, work: list[Coroutine[Any, Any, None]]) -> Measurement:
        """Run the load."""
        before_us = interpreter_us()
        looking = asyncio.create_task(self._watch_memory())
        try:
            async with asyncio.TaskGroup() as group:
                for each in work:
                    group.create_task(each)
        finally:
            looking.cancel()
        after_us = interpreter_us()
        began, ended, calls = self._began, self._ended, self._calls
        cpu = {name: (ended.cpu_ms[name] - ms) / calls for name, ms in began.cpu_ms.items()}
        return Measurement(
            *self._named,
            np.array(self._latencies),
            self._errors,
            ended.at_s - began.at_s,
            cpu | {KERNEL: (ended.unaccounted_ms - began.unaccounted_ms) / calls},
            self._idle,
            self._most,
            (before_us + after_us) / 2,
            (began.at_s, ended.at_s),
        )

    async def _watch_memory(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now = self._served.resident_mb()
            self._most = {name: max(most, now[name]) for name, most in self._most.items()}


@dataclass(frozen=True)
class _Clocks:
    at_s: float
    cpu_ms: Mapping[str, float]
    unaccounted_ms: float
    """Busy time of the cores that is accounted to no process."""

    @classmethod
    def now(cls, run_service: ServiceProcesses, unaccounted_ms: float = 0.0) -> _Clocks:
        cpu = run_service.cpu_ms() | {CALLER: time.process_time() * 1000}
        return cls(time.monotonic(), cpu, unaccounted_ms)
