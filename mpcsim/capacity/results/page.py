"""Page about a run: its conclusion first, then tables; as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mpcsim.capacity.model.incidents import event_name
from mpcsim.capacity.results import answers
from mpcsim.capacity.results.record import Percentile, RunRecord
from mpcsim.errors import UsageError
from mpcsim.sim import rich_display
from mpcsim.sim.rich_display import PERCENTS, Table, document, interval_heads, interval_text

SLOWEST: Final = 0.01
"""Share of the calls whose times stand beside those of all."""
SHOWN_MS: Final = 0.05
"""Parts of a call's time that are shorter on average are left out."""


def text(run: RunRecord) -> str:
    """Return the page as text."""
    notes, tables = _contents(run)
    return rich_display.page(_headline(run), tables, notes=notes)


def html(run: RunRecord) -> str:
    """Return the page as HTML."""
    notes, tables = _contents(run)
    return document(_headline(run), tables, notes=notes)


def _headline(run: RunRecord) -> str:
    """Return what ran, and how its calls ended."""
    outcomes = run.outcomes()
    counts = ", ".join(f"{count:,} {name}" for name, count in outcomes.items() if count)
    return (
        f"{run.workload.arrivals} for {answers.format_clock(run.length_s)}, seed {run.seed}: "
        f"{sum(outcomes.values()):,} attempts: {counts}"
    )


def _contents(run: RunRecord) -> tuple[list[str], list[Table]]:
    """Return the conclusions, one statement a line, and the tables: the latencies of each
    operation, unless the run is overloaded, and where the time of a call goes."""
    tables = _breakdown(run)
    if too_much := answers.overload(run):
        return [too_much, *_notes(run, {})], tables
    found = _percentiles(run)
    return [*_notes(run, found)], [_latencies(found), *tables]


def _notes(run: RunRecord, latencies: Mapping[str, list[Percentile]]) -> Iterator[str]:
    yield answers.first_to_break(run)
    for event in run.workload.events:
        if event.at_s >= run.length_s:
            at = answers.format_clock(event.at_s)
            yield f"{event_name(event)} at {at}: never took place, the run was over by then"
    yield f"answered: {run.throughput_per_s():,.4g} calls a second"
    for operation, found in latencies.items():
        yield from _restrictions(operation, found)
    check = run.littles_law
    yield (
        f"Little's law: {check.under_way:.4g} calls in flight on average, throughput times latency "
        f"{check.throughput_times_latency:.4g} ({check.off_by:.2%} apart)"
    )
    if run.deployment.extrapolated:
        yield "extrapolated: " + "; ".join(run.deployment.extrapolated)


# ---------------------------------------------------------------------- latencies


def _percentiles(run: RunRecord) -> dict[str, list[Percentile]]:
    """Return the percentiles of each operation; none where no call succeeded."""
    found = {}
    for operation in run.operations:
        try:
            found[operation] = [run.percentile(percent, operation) for percent in PERCENTS]
        except UsageError:
            found[operation] = []
    return found


def _latencies(latencies: Mapping[str, list[Percentile]]) -> Table:
    columns = ["latency, ms", *interval_heads(unit="")]
    rows = []
    for operation, found in latencies.items():
        cells = [operation]
        for each in found:
            cells += [
                f"at least {each.ms:,.1f}" if each.at_least else f"{each.ms:,.1f}",
                "-" if each.why_none else interval_text(each.low_ms, each.high_ms, ",.1f"),
            ]
        rows.append([*cells, *["-"] * (len(columns) - len(cells))])
    return Table(columns, rows, frozenset(columns[1:]))


def _restrictions(operation: str, found: list[Percentile]) -> Iterator[str]:
    """Yield which calls the percentiles are of, if not of all, and why there is no interval."""
    if not found:
        yield f"{operation}: no call succeeded"
        return
    if found[-1].restriction:
        yield f"{operation}: percentiles{found[-1].restriction}"
    reasons: dict[str, list[str]] = {}
    for percent, each in zip(PERCENTS, found, strict=True):
        if each.why_none:
            reasons.setdefault(each.why_none, []).append(f"p{percent:g}{each.length_hint}")
    for why, without in reasons.items():
        yield f"{operation}: no interval of {', '.join(without)}: {why}"


# ---------------------------------------------------------------------- parts of a call's time


def _breakdown(run: RunRecord) -> list[Table]:
    every, slowest = run.made_of(), run.made_of(SLOWEST)
    shown = [
        name
        for name, ms in sorted(every.items(), key=lambda item: -item[1])
        if max(ms, slowest.get(name, 0.0)) >= SHOWN_MS
    ]
    if not shown:
        return []
    columns = ("a call's time, ms, on average", "all", f"slowest {SLOWEST:.0%}")
    rows = [[name, f"{every[name]:,.1f}", f"{slowest.get(name, 0.0):,.1f}"] for name in shown]
    return [Table(columns, rows, frozenset(columns[1:]))]
