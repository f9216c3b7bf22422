"""Calibration: the real service under several loads on this machine, and the costs that follow.

Three services run side by side, one of them at a time under load: unmodified, which gives the CPU
time of each part for each call; with meters (``mpcsim.service.web.meter``), which divide it among
messages; and with meters that also time curve arithmetic. Loads alternate in short measurements,
repeatedly, so that other activity of the machine meets all of them alike; all times are in units of
the machine's own speed, from a piece of Python before and after each. The machine's primitives take
turns with the loads, too: a machine is not always equally fast, and they describe these times.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, Self

import numpy as np

from mpcsim.capacity.calibration import reading
from mpcsim.capacity.calibration.fitting import Fit, Observations, fit, stages
from mpcsim.capacity.calibration.measuring import (
    KERNEL,
    Measurement,
    Service,
    meter_environment,
    run_measured_service,
)
from mpcsim.capacity.calibration.prediction import Load, handling_parts
from mpcsim.capacity.calibration.reading import Samples
from mpcsim.capacity.model.costs import TWIN, Costs
from mpcsim.capacity.model.operations import RESPONSE
from mpcsim.capacity.model.speed import Speed
from mpcsim.capacity.model.workload import OPERATIONS
from mpcsim.capacity.recording import record_operation
from mpcsim.errors import UsageError, unknown

ProgressReport = Callable[[str, float], None]
"""Callback: what is being done, and which share of all is done."""

IN_FLIGHT: Final = 32
"""Calls in flight of the saturated service."""
LIGHT, MIDDLE, HEAVY, SATURATED, ALONE = "light", "middle", "heavy", "saturated", "one at a time"
AT_A_TIME: Final = {ALONE: 1, "four at a time": 4, "twelve at a time": 12, SATURATED: IN_FLIGHT}
"""Closed workloads without think time: keys that are used again and again."""
PARTS_OF_FULL: Final = {LIGHT: 0.3, MIDDLE: 0.6, HEAVY: 0.85}
"""Open workloads: rates relative to the saturated throughput."""
REST_S: Final = 2.0
SHORT_S: Final = 2.5
"""Duration of each measurement."""
FEW: Final = 6
"""Calls of a measurement at least."""
_QUICK: Final = ("sign", "presigned", "validate/share")
"""Operations that are measured under all loads. The others compute for long: iterations hardly
matter."""


@dataclass
class _OperationMeasurements:
    """Measurements of an operation so far, by load."""

    plain: defaultdict[str, list[Measurement]] = field(default_factory=lambda: defaultdict(list))
    metered: defaultdict[str, list[Measurement]] = field(default_factory=lambda: defaultdict(list))
    curves: list[Measurement] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        """Saturated throughput."""
        return median(each.per_s for each in self.plain[SATURATED])


def calibrate(
    operations: Iterable[str] = OPERATIONS,
    minutes: float = 6.0,
    report: ProgressReport = lambda what, done: None,
) -> Costs:
    """Measure the costs of this service on this machine.

    Args:
        operations: of ``OPERATIONS``.
        minutes: duration of the measurements, once everything is ready; at least two rounds are
            made. Recording the operations, and fitting, are additional.

    Raises:
        UsageError: an unknown operation, no time, or the service does not start.
    """
    if not 0 < minutes < math.inf:
        raise UsageError(f"calibrate minutes is {minutes}: above 0, and finite")
    with Calibration(operations, report) as calibration:
        began = time.monotonic()
        while True:
            calibration.measure_round(lambda: (time.monotonic() - began) / (60 * minutes))
            rounds = calibration.rounds
            passed = time.monotonic() - began
            if rounds >= 2 and passed * (rounds + 1) / rounds > 60 * minutes:
                report("fitting", 1.0)
                return calibration.costs()


class Calibration:
    """Calibration in progress, round by round. A context manager, in which three services run."""

    def __init__(
        self, operations: Iterable[str], report: ProgressReport = lambda what, done: None
    ) -> None:
        """
        Raises:
            UsageError: an unknown operation, or none.
        """
        names = list(dict.fromkeys(operations))
        for name in names:
            if name not in OPERATIONS:
                raise UsageError(unknown("operation", name, OPERATIONS))
        if not names:
            raise UsageError("calibrate: no operations")
        self.rounds = 0
        self._found = {name: _OperationMeasurements() for name in names}
        self._report = report
        self._opened: ExitStack
        self._running: ExitStack
        self._services: _Services
        self._folder: Path
        self._speeds: list[Speed] = []

    def __enter__(self) -> Self:
        """Start the services, and measure them at rest.

        Raises:
            UsageError: they do not start.
        """
        self._report("recording the operations", 0.0)
        for name in self._found:
            record_operation(name)
        with ExitStack() as opened:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            self._folder = folder
            running = opened.enter_context(ExitStack())
            self._services = _Services(running, folder)
            self._services.measure_once(self._found, self._report)
            self._running, self._opened = running, opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    @property
    def service(self) -> Service:
        """Service without meters."""
        return self._services.plain

    def measure_round(self, done: Callable[[], float] = lambda: 0.0) -> None:
        """Measure everything once more.

        Args:
            done: returns the share of all rounds that is over.
        """
        for name, of in self._found.items():
            self._speeds.append(Speed.measured(str(self._folder)))
            for what, measure in _round_measurements(self._services, name, of, self.rounds):
                self._report(f"round {self.rounds + 1}: {name}, {what}", min(done(), 0.99))
                measure()
        self.rounds += 1

    def costs(self) -> Costs:
        """Stop the services, whose meters then write, and return the costs of all rounds; at least
        one."""
        self._running.close()
        return _fit_costs(self._found, self._services, Speed.median(self._speeds))


class _Services:
    """Three services: unmodified, with meters, and with meters for curve arithmetic."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.folders = {"metered": folder / "metered", "curves": folder / "curves"}
        for each in self.folders.values():
            each.mkdir()
        self.plain = stack.enter_context(run_measured_service())
        self.metered = stack.enter_context(
            run_measured_service(meter_environment(self.folders["metered"]))
        )
        curves = meter_environment(self.folders["curves"], curves=True)
        self.curves = stack.enter_context(run_measured_service(curves))
        self.rest: Mapping[str, float] = {}
        """CPU time of the idle parts: milliseconds a second."""

    def measure_once(
        self, found: Mapping[str, _OperationMeasurements], report: ProgressReport
    ) -> None:
        """Make the measurements that are made once."""
        for name, of in found.items():
            report(f"{name}: how much of it is curve arithmetic", 0.0)
            of.curves.append(self.curves.closed(name, 1, FEW))
        report("idle service", 0.0)
        before = self.plain.served.cpu_ms()
        time.sleep(REST_S)
        after = self.plain.served.cpu_ms()
        self.rest = {part: (after[part] - ms) / REST_S for part, ms in before.items()}

    def samples(self, which: str, service: Service, of: Iterable[Measurement]) -> Samples:
        """Return the meters' samples of some measurements."""
        requests = {
            part: reading.read([self.folders[which] / f"{number}.jsonl"])
            for part, number in service.served.process_ids.items()
        }
        windows = [each.window_s for each in of]
        return reading.samples(requests, service.served.addresses, windows)


def _round_measurements(
    services: _Services, name: str, of: _OperationMeasurements, nth: int
) -> Iterable[tuple[str, Callable[[], None]]]:
    """Yield the measurements of an operation in a round."""

    def closed(service: Service, into: dict[str, list[Measurement]], label: str, most: int) -> None:
        known = of.plain[label] or of.plain[ALONE]
        per_s = known[-1].per_s if known else FEW / SHORT_S
        calls = max(FEW, 2 * most, round(per_s * SHORT_S))
        into[label].append(service.closed(name, most, calls))

    def opened(service: Service, into: dict[str, list[Measurement]], label: str) -> None:
        per_s = of.per_s * PARTS_OF_FULL[label]
        calls = max(FEW, round(per_s * SHORT_S))
        into[label].append(service.open(name, per_s, calls, nth, keys=IN_FLIGHT))

    plain = services.plain, of.plain
    with_meters = services.metered, of.metered
    yield ALONE, partial(closed, *plain, ALONE, 1)
    if OPERATIONS[name].verb not in _QUICK:
        yield f"{ALONE}, with meters", partial(closed, *with_meters, ALONE, 1)
        return
    for label, most in AT_A_TIME.items():
        if label != ALONE:
            yield label, partial(closed, *plain, label, most)
    for label in PARTS_OF_FULL:
        yield label, partial(opened, *plain, label)
    yield f"{LIGHT}, with meters", partial(opened, *with_meters, LIGHT)
    yield f"{SATURATED}, with meters", partial(closed, *with_meters, SATURATED, IN_FLIGHT)


# ---------------------------------------------------------------------- costs


def _fit_costs(
    found: Mapping[str, _OperationMeasurements], services: _Services, machine: Speed
) -> Costs:
    every = [m for of in found.values() for loads in of.plain.values() for m in loads]
    speed_us = median(each.speed_us for each in every)
    kernel_ms = _unaccounted_ms(found)
    cpu = {
        name: _add_kernel_time(name, _cpu_per_call(of, speed_us, services.rest), kernel_ms)
        for name, of in found.items()
    }
    observed = [_observe(name, of, services, cpu[name], speed_us) for name, of in found.items()]
    best = fit(observed, os.cpu_count() or 1)
    return Costs(
        {each.operation.name: stages(each, best) for each in observed},
        best.turn_ms,
        _memory_by_part(found),
        machine,
        {each.operation.name: each.operation.digest for each in observed},
        best.cold_ms,
        best.cooling_ms,
        best.hop_ms,
        best.scheduling,
        {name: _label_loads(name, found[name], loads, best) for name, loads in cpu.items()},
    )


def _cpu_per_call(
    of: _OperationMeasurements, speed_us: float, rest: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return CPU time for each call, by load and part: medians of all rounds, less what idle
    processes take."""
    found = {}
    for label, measured in of.plain.items():
        found[label] = {
            part: median(
                (each.cpu_ms[part] - rest.get(part, 0.0) / each.per_s) * speed_us / each.speed_us
                for each in measured
            )
            for part in measured[0].cpu_ms
        }
        del found[label][KERNEL]
    return found


def _label_loads(
    name: str, of: _OperationMeasurements, cpu: Mapping[str, Mapping[str, float]], best: Fit
) -> dict[str, Mapping[str, float]]:
    """Return CPU times by loads with their throughput, and the model's prediction where it was
    fitted."""
    rates = {label: median(each.per_s for each in measured) for label, measured in of.plain.items()}
    loads = _fitted_loads(name, of)
    return {
        f"{label}, {rates[label]:.3g} a second": {
            **parts,
            **({TWIN: best.predicted_ms[name, loads[label]]} if label in loads else {}),
        }
        for label, parts in cpu.items()
    }


def _fitted_loads(name: str, of: _OperationMeasurements) -> dict[str, Load]:
    """Return the loads to which costs are fitted."""
    if OPERATIONS[name].verb not in _QUICK:
        return {ALONE: Load(1)}
    rates = {label: Load(per_s=of.per_s * part) for label, part in PARTS_OF_FULL.items()}
    return {**rates, **{label: Load(most) for label, most in AT_A_TIME.items()}}


def _unaccounted_ms(found: Mapping[str, _OperationMeasurements]) -> float:
    """Return the CPU time of a message that Linux accounts to no process.

    It is the least of the measurements of the saturated service, where other programs have the
    least room; their time is counted, too, if their processes end meanwhile.
    """
    every = [
        each.cpu_ms[KERNEL] / len(handling_parts(record_operation(name)))
        for name, of in found.items()
        for each in of.plain.get(SATURATED, [])
    ]
    return max(0.0, min(every, default=0.0))


def _observe(
    name: str,
    of: _OperationMeasurements,
    services: _Services,
    cpu: Mapping[str, Mapping[str, float]],
    speed_us: float,
) -> Observations:
    operation = record_operation(name)
    pooled = _pool_samples(
        [
            services.samples("metered", services.metered, measured)
            for measured in of.metered.values()
        ]
    )
    curves = services.samples("curves", services.curves, of.curves)
    parts = handling_parts(operation)
    missing = [each for each in parts if each != RESPONSE and each not in pooled.by_message]
    if missing:
        raise UsageError(f"{name}: the meters have nothing about {', '.join(missing)}")
    metered_stages = {
        message: pooled.stages(message, curves) for message in parts if message != RESPONSE
    }
    is_quick = OPERATIONS[name].verb in _QUICK
    loads = _fitted_loads(name, of)
    spent = {load: cpu[label] for label, load in loads.items()}
    slow = median([each.percentile(50) for each in of.plain[LIGHT]]) if is_quick else 0.0
    medians = {loads[LIGHT]: slow} if is_quick else {}
    per_s = _per_s(of, speed_us) if is_quick else {}
    return Observations(operation, spent, metered_stages, is_quick, medians, per_s)


def _per_s(of: _OperationMeasurements, speed_us: float) -> dict[Load, float]:
    """Return the throughput of closed workloads: medians of all rounds."""
    return {
        Load(most): median(each.per_s * each.speed_us for each in of.plain[label]) / speed_us
        for label, most in AT_A_TIME.items()
    }


def _pool_samples(each: Sequence[Samples]) -> Samples:
    """Return all samples together; those of each load are scaled to the same mean."""
    names = dict.fromkeys(name for samples in each for name in samples.by_message)
    found = {}
    for name in names:
        tables = [samples.by_message[name] for samples in each if name in samples.by_message]
        means = np.array([table.mean(axis=0) for table in tables])
        occurs = (means > 0).all(axis=0)  # under every load: others cannot be scaled
        factors = [
            np.divide(means.mean(axis=0), own, out=np.ones_like(own), where=occurs) for own in means
        ]
        found[name] = np.concatenate(
            [table * factor for table, factor in zip(tables, factors, strict=True)]
        )
    handled_at = {name: part for samples in each for name, part in samples.handled_at.items()}
    iterations = {
        name: [taken for samples in each for taken in samples.iterations.get(name, ())]
        for name in names
    }
    return Samples(found, handled_at, iterations)


def _add_kernel_time(
    name: str, cpu: Mapping[str, Mapping[str, float]], kernel_ms: float
) -> dict[str, dict[str, float]]:
    """Return CPU times with unaccounted time added: equal shares for each message that a part
    handles."""
    at = list(handling_parts(record_operation(name)).values())
    return {
        load: {part: ms + kernel_ms * at.count(part) for part, ms in parts.items()}
        for load, parts in cpu.items()
    }


def _memory_by_part(found: Mapping[str, _OperationMeasurements]) -> dict[str, tuple[float, float]]:
    """Return the memory of each part: at rest, and for each call in flight."""
    every = [m for of in found.values() for loads in of.plain.values() for m in loads]
    full = [m for of in found.values() for m in of.plain.get(SATURATED, [])]
    memory = {}
    for part in every[0].idle_mb:
        rest = min(each.idle_mb[part] for each in every)
        grows = [(each.peak_mb[part] - each.idle_mb[part]) / IN_FLIGHT for each in full]
        memory[part] = (rest, max([0.0, *grows]))
    return memory
