"""Text page about a run."""

from __future__ import annotations

from collections.abc import Iterator

from mpcsim.capacity.results import answers
from mpcsim.capacity.results.record import RunRecord
from mpcsim.errors import UsageError


def page(run: RunRecord) -> Iterator[str]:
    """Yield the lines of the page."""
    outcomes = run.outcomes()
    yield (
        f"{answers.format_clock(run.length_s)} of {run.workload.arrivals}, seed {run.seed}: "
        f"{sum(outcomes.values()):,} attempts, "
        + ", ".join(f"{count:,} {name}" for name, count in outcomes.items() if count)
    )
    if not (too_much := answers.overload(run)):
        for name in run.operations:
            yield f"  {name}: {_percentiles(run, name)}"
    else:
        yield f"  {too_much}"
    yield f"  {answers.first_to_break(run)}"
    yield f"  answered: {run.throughput_per_s():,.4g} a second"
    yield "  the slowest 1 %, on average, ms: " + _breakdown_text(run.made_of(0.01))
    yield "  all of them: " + _breakdown_text(run.made_of())
    check = run.littles_law
    yield (
        f"  Little's law: {check.under_way:.4g} under way, {check.throughput_times_latency:.4g} by "
        f"rate and time of what was answered ({check.off_by:.2%} apart)"
    )
    if run.deployment.extrapolated:
        yield "  extrapolated: " + "; ".join(run.deployment.extrapolated)


def _percentiles(run: RunRecord, operation: str) -> str:
    try:
        found = {percent: run.percentile(percent, operation) for percent in (50, 95, 99)}
    except UsageError as error:  # none succeeded
        return str(error)
    sizes = ", ".join(f"p{percent} {each.text}" for percent, each in found.items())
    return sizes + found[99].restriction


def _breakdown_text(made_of: dict[str, float]) -> str:
    large = sorted(((ms, name) for name, ms in made_of.items() if ms >= 0.05), reverse=True)
    return ", ".join(f"{name} {ms:,.1f}" for ms, name in large)
