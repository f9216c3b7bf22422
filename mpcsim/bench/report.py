"""Report of all benchmarks: figures by name, and tables."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator, Mapping

from mpcsim.bench import capacity, notebooks, realtime, rest, service, simulator, starting
from mpcsim.bench.defaults import FULL_RUNS
from mpcsim.bench.memory import memory_figures
from mpcsim.bench.primitives import primitive_costs
from mpcsim.bench.protocols import (
    CURVE_OPERATIONS,
    Figures,
    call_figures,
    curve_floor_ms,
    keys,
    measure,
    operations,
    presigned_figures,
    round_trip_figures,
    share_figures,
    step_times,
)
from mpcsim.ids import PartyId

TARGETS: Mapping[str, float] = {
    "sign_secp256k1_2p_ms": 5.0,
    "sign_secp256k1_2p_calls": 5000.0,
    "sign_presigned_secp256k1_2p_ms": 1.0,
    "presigned_offline_and_online_of_full_percent": 110.0,
    "sign_ed25519_2p_ms": 1.0,
    "keygen_secp256k1_ms": 400.0,
}
"""Figures this project promises, milliseconds unless they say otherwise, on a machine with a point
multiplication of about 24 us."""


def all_figures(runs: int = FULL_RUNS) -> tuple[dict[str, float], dict[str, Figures]]:
    """Measure protocols and primitives; return figures by name, and records of protocols."""
    flat = dict(primitive_costs())
    measured: dict[str, Figures] = {}
    for name, make, share in operations():
        figures = measure(make, max(3, round(runs * share)))
        measured[name] = figures
        flat[f"{name}_ms"] = figures.total_ms
        flat[f"{name}_party_ms"] = figures.party_ms
        flat[f"{name}_bytes"] = figures.bytes_sent
        flat[f"{name}_messages"] = figures.messages
        flat[f"{name}_delays"] = figures.delays
    for name in CURVE_OPERATIONS:
        flat[f"{name}_curve_floor_ms"] = curve_floor_ms(name, flat)
    flat |= presigned_figures(measured)
    flat |= round_trip_figures()
    flat |= call_figures()
    flat |= share_figures()
    secp = keys("secp256k1")
    flat |= memory_figures((secp[PartyId(1)].to_bytes(), secp[PartyId(2)].to_bytes()))
    return flat, measured


def sections(
    chosen: Collection[str], runs: int = FULL_RUNS
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure the chosen sections one by one; yield each as text and as figures by name."""
    if "protocols" in chosen:
        flat, measured = all_figures(runs)
        yield render(flat, measured), flat
    if "simulator" in chosen:
        figures = simulator.simulator_figures(runs)
        yield simulator.table(figures), figures
    if "accuracy" in chosen:
        figures = realtime.accuracy_figures(min(runs, realtime.RUNS))
        yield realtime.table(figures), figures
    if "rest" in chosen:
        figures = rest.rest_figures(min(runs, rest.REAL_RUNS))
        yield rest.table(figures), figures
    if "service" in chosen:
        requests = max(service.KEYS, round(service.REQUESTS * min(1.0, runs / FULL_RUNS)))
        figures = service.service_figures(requests)
        yield service.table(figures), figures
    if "capacity" in chosen:
        part = min(1.0, runs / FULL_RUNS)
        yield capacity.capacity_figures(
            max(2, round(capacity.REPEATS * part)), max(5.0, capacity.SECONDS * part)
        )
    if "starting" in chosen:
        figures = starting.starting_figures(runs=min(runs, starting.RUNS))
        yield starting.table(figures), figures
    if "notebooks" in chosen:
        figures = notebooks.notebook_figures()
        yield notebooks.table(figures), figures


def render(flat: Mapping[str, float], measured: Mapping[str, Figures]) -> str:
    """Return the figures as text tables."""
    lines = [f"Python {platform.python_version()}, {platform.machine()}", ""]
    lines.append(f"{'primitive':<28}{'microseconds':>14}")
    for name, value in flat.items():
        if name.endswith("_us"):
            lines.append(f"{name.removesuffix('_us'):<28}{value:>14.2f}")
    lines += ["", _row("operation", "CPU ms", "busiest", "point mults", "bytes", "msgs", "delays")]
    for name, f in measured.items():
        unit = flat["ed25519_scalar_mult_us" if "ed25519" in name else "scalar_mult_us"]
        lines.append(
            _row(
                name,
                f"{f.total_ms:.2f}",
                f"{f.party_ms:.2f}",
                f"{f.total_ms * 1000 / unit:.0f}",
                f"{f.bytes_sent}",
                f"{f.messages}",
                f"{f.delays}",
            )
        )
    lines += ["", "CPU ms: all parties together, median; point mults: the same in units of one"]
    lines += ["variable-base multiplication on this machine.", ""]
    for name, steps in step_times(50).items():
        floor = flat[f"{name}_curve_floor_ms"]
        lines.append(f"{name}: where the time goes (floor set by curve operations {floor:.2f} ms)")
        lines += [f"{ms:>8.3f} ms  {step}" for step, ms in steps.items()]
        lines.append("")
    shown = ("share_", "signing_memory", "import_memory")
    for name, value in flat.items():
        if name.startswith(shown) or name.endswith(("round_trips", "calls")):
            lines.append(f"{name:<48}{value:>12.1f}".removesuffix(".0"))
    lines.append("")
    for name, target in TARGETS.items():
        verdict = "reached" if flat[name] <= target else "NOT reached"
        lines.append(f"{name:<48}{flat[name]:>12.2f}   target {target:g}: {verdict}")
    return "\n".join(lines)


def _row(name: str, *cells: str) -> str:
    return f"{name:<26}" + "".join(f"{cell:>12}" for cell in cells)
