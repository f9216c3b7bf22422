"""Benchmark of the capacity twin: its speed, and its accuracy against the real service.

The real service runs here, driven over sockets from this process, which shares its cores. Measuring
costs and measuring loads take turns, so that other work of the machine affects both alike. Then the
twin runs the same loads with these costs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean, median, stdev
from typing import Final

from mpcsim.bench.primitives import primitive_costs
from mpcsim.capacity.calibration.calibrating import Calibration
from mpcsim.capacity.calibration.measuring import Measurement, Service
from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.model.arrivals import Steady, Users
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.workload import SIGN, Workload
from mpcsim.capacity.results.run import Run
from mpcsim.sim.network.topology import Network

REPEATS: Final = 5
SECONDS: Final = 30.0
"""Duration of each load in each repeat."""
IN_FLIGHT: Final = 32
LOADS: Final = (0.3, 0.6, 0.8, 0.9)
"""Rates of open loops, as parts of the closed loop's throughput."""
BOUNDS: Final[Mapping[float, tuple[float, float]]] = {
    0.3: (0.10, 0.20),
    0.6: (0.10, 0.20),
    0.8: (0.15, 0.25),
}
"""Relative errors allowed of p50 and p99, by load."""
THROUGHPUT: Final = 0.05
"""Relative error allowed of throughput, and of loads at which a percentile is reached."""
SATURATION: Final = 0.10
SCATTER: Final = 2.0
"""Error allowed in standard deviations of the service's own figure, where that is more."""
TWIN_MINUTES: Final = 20.0
HOUR_PER_S: Final = 100.0
HOUR_MINUTES: Final = 6.0
"""Simulated time for the figure of an hour."""
TARGET_US: Final = 24.0
"""Time of a multiplication on the machine that the hour's figures are promised on."""
HOUR_S: Final = {"loss-free": 60.0, "0.1 % loss": 120.0}


@dataclass(frozen=True)
class Comparison:
    """Comparison of one figure of the service with the twin's."""

    what: str
    measured: tuple[float, ...]
    """Figure in each repeat."""
    twin: float
    bound: float
    """Relative error allowed at least."""

    @property
    def service(self) -> float:
        """Median over all repeats."""
        return median(self.measured)

    @property
    def scatter(self) -> float:
        """Standard deviation from repeat to repeat, relative."""
        return stdev(self.measured) / mean(self.measured) if len(self.measured) > 1 else 0.0

    @property
    def relative_error(self) -> float:
        """Relative error of the twin."""
        return self.twin / self.service - 1

    @property
    def allowed_error(self) -> float:
        """Relative error allowed."""
        return max(self.bound, SCATTER * self.scatter)

    def row(self) -> str:
        """Return a line of the table."""
        verdict = "within" if abs(self.relative_error) <= self.allowed_error else "NOT within"
        return (
            f"{self.what:<44}{self.service:>10.2f}{self.scatter:>9.1%}{self.twin:>10.2f}"
            f"{self.relative_error:>+9.1%}   {verdict} {self.allowed_error:.0%}"
        )


def compare_with_twin(
    repeats: int = REPEATS, seconds: float = SECONDS
) -> tuple[list[Comparison], Costs]:
    """Measure the service, and compare it with the twin.

    Args:
        seconds: duration of each load in each repeat.
    """
    closed: list[Measurement] = []
    opened: dict[float, list[Measurement]] = {load: [] for load in LOADS}
    rates: dict[float, float] = {}
    with Calibration([SIGN]) as calibration:
        service = calibration.service
        for repeat in range(repeats):
            calibration.measure_round()
            closed.append(_run_closed(service, seconds))
            rates = rates or {load: load * closed[0].per_s for load in LOADS}
            for load, per_s in rates.items():
                calls = round(per_s * seconds)
                opened[load].append(service.open(SIGN, per_s, calls, seed=repeat))
        costs = calibration.costs()
    return _compare(costs, closed, opened, rates), costs


def _run_closed(service: Service, seconds: float) -> Measurement:
    first = service.closed(SIGN, IN_FLIGHT, 4 * IN_FLIGHT)
    return service.closed(SIGN, IN_FLIGHT, max(4 * IN_FLIGHT, round(first.per_s * seconds)))


def _compare(
    costs: Costs,
    closed: Sequence[Measurement],
    opened: Mapping[float, Sequence[Measurement]],
    rates: Mapping[float, float],
) -> list[Comparison]:
    def twin(arrivals: Steady | Users) -> Run:
        deployment = Deployment.on_one_machine(os.cpu_count() or 1, costs.network)
        workload = Workload(arrivals, users=1_000_000)
        return deployment.run(workload, minutes=TWIN_MINUTES, costs=costs)

    full = twin(Users(IN_FLIGHT))
    most = full.throughput_per_s()
    found = [Comparison("saturated, calls a second", _values(closed, _per_s), most, THROUGHPUT)]
    found += [
        Comparison(
            f"{IN_FLIGHT} at a time, p{percent} (ms)",
            _values(closed, partial(_percentile, percent)),
            full.percentile(percent).ms,
            SATURATION,
        )
        for percent in (50, 99)
    ]
    for load, measured in opened.items():
        run = twin(Steady(rates[load]))
        whole = (run.length_s / 10, run.length_s)
        what = f"open, {load:.0%}"
        found.append(
            Comparison(
                f"{what}, calls a second",
                _values(measured, _per_s),
                run.throughput_per_s(),
                THROUGHPUT,
            )
        )
        for nth, percent in enumerate((50, 99)):
            times = _values(measured, partial(_percentile, percent))
            if load in BOUNDS:
                says = run.percentile(percent, between_s=whole).ms
                found.append(Comparison(f"{what}, p{percent} (ms)", times, says, BOUNDS[load][nth]))
            else:
                at = _load_at(percent, median(times), rates[load], most, twin)
                found.append(
                    Comparison(
                        f"{what}, load (a second) with its p{percent}",
                        (rates[load],) * len(times),
                        at,
                        THROUGHPUT,
                    )
                )
    return found


def _load_at(
    percent: float, ms: float, near: float, most: float, twin: Callable[[Steady], Run]
) -> float:
    """Return the rate at which the twin has a percentile, by bisection."""
    low, high = 0.7 * near, most
    while high - low > 0.005 * near:
        middle = (low + high) / 2
        run = twin(Steady(middle))
        if run.percentile(percent, between_s=(run.length_s / 10, run.length_s)).ms > ms:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def _per_s(measured: Measurement) -> float:
    return measured.per_s


def _percentile(percent: float, measured: Measurement) -> float:
    return measured.percentile(percent)


def _values(
    measured: Sequence[Measurement], value: Callable[[Measurement], float]
) -> tuple[float, ...]:
    return tuple(value(each) for each in measured)


# ---------------------------------------------------------------------- speed


def hour_figures() -> dict[str, float]:
    """Return processor time of an hour of 100 secp256k1 signatures a second, on one core, and in
    this machine's multiplications a call; without and with losses."""
    unit_us = primitive_costs()["scalar_mult_us"]
    figures = {}
    for name, loss in (("loss-free", 0.0), ("0.1 % loss", 0.001)):
        network = Network.preset("seoul", institution="frankfurt", loss=loss)
        deployment = Deployment(network)
        workload = Workload(Steady(HOUR_PER_S))
        deployment.run(workload, seconds=5)  # compiled, and recorded
        began = time.process_time()
        run = deployment.run(workload, minutes=HOUR_MINUTES)
        spent_s = time.process_time() - began
        calls = sum(run.outcomes().values())
        figures[f"capacity_hour_{name}_cpu_s"] = spent_s * 60 / HOUR_MINUTES
        figures[f"capacity_call_{name}_multiplications"] = spent_s / calls * 1e6 / unit_us
    return figures


def capacity_figures(
    repeats: int = REPEATS, seconds: float = SECONDS
) -> tuple[str, dict[str, float]]:
    """Measure all figures of the twin; return them as text, and by name."""
    hour = hour_figures()
    found, _ = compare_with_twin(repeats, seconds)
    head = f"{'':<44}{'service':>10}{'scatter':>9}{'twin':>10}{'off':>9}"
    lines = ["the capacity twin", "", head, *(each.row() for each in found), ""]
    for name, seconds_allowed in HOUR_S.items():
        takes = hour[f"capacity_call_{name}_multiplications"]
        target = seconds_allowed * 1e6 / (3600 * HOUR_PER_S) / TARGET_US
        verdict = "reached" if takes <= target else "NOT reached"
        lines.append(
            f"an hour of {HOUR_PER_S:g} signatures a second, {name}: "
            f"{hour[f'capacity_hour_{name}_cpu_s']:.1f} CPU s; {takes:.2f} multiplications a call"
            f"   target {target:.1f}: {verdict}"
        )
    figures = dict(hour)
    for each in found:
        figures |= {
            f"capacity_{each.what}_service": each.service,
            f"capacity_{each.what}_scatter": each.scatter,
            f"capacity_{each.what}_twin": each.twin,
        }
    return "\n".join(lines), figures
