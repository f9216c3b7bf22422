"""Run as a point of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.model.arrivals import Steady
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.parts import Part
from mpcsim.capacity.model.workload import Workload
from mpcsim.capacity.results import answers
from mpcsim.capacity.results.run import Run
from mpcsim.errors import UsageError
from mpcsim.sim.experiments.sweep import Plain

MINUTES: Final = 10.0
"""Length of each run by default."""


def capacity_point(
    *,
    seed: int,
    deployment: Deployment | None = None,
    workload: Workload | None = None,
    minutes: float = MINUTES,
    costs: Costs | str | Path | None = None,
    per_s: float | None = None,
    **parts: int | float,
) -> dict[str, Plain]:
    """Run a workload once, as a point of a sweep's grid.

        >>> grid = {"per_s": [20, 40, 80], "node_replicas": [1, 2]}
        >>> table = sweep(grid, capacity_point, executor=client.get_executor())

    Args:
        per_s: offered load, in place of the workload's.
        parts: fields of the deployment's parts in place of its own: ``node_replicas``,
            ``gateway_cores``, ``operator_speed``, and so on.

    Returns:
        ``offered_per_s``, ``answered_per_s``; ``p50_ms``, ``p95_ms``, ``p99_ms`` with
        ``p99_low_ms`` and ``p99_high_ms`` (of the whole run but its first tenth, growing queues
        included: see ``overload``; 0 and infinite: too short a run for an interval); ``refused``,
        ``timed_out``, ``broken`` (shares of the attempts); ``busiest`` and its ``utilisation``;
        ``overload``: a sentence, or empty.

    Raises:
        UsageError: bad input.
    """
    work = workload or Workload()
    if per_s is not None:
        work = replace(work, arrivals=Steady(per_s))
    run = with_parts(deployment or Deployment(), parts).run(
        work, minutes=minutes, seed=seed, costs=costs
    )
    return summary_row(run)


def summary_row(run: Run) -> dict[str, Plain]:
    """Return the results of a run as a row of a table."""
    whole = (run.length_s / 10, run.length_s)
    attempts = run.outcomes(whole)
    every = max(1, sum(attempts.values()))
    found: dict[str, Plain] = {
        "offered_per_s": run.offered_per_s(whole),
        "answered_per_s": run.throughput_per_s(whole),
    }
    try:
        p50, p95, p99 = (run.percentile(percent, between_s=whole) for percent in (50, 95, 99))
        found |= {"p50_ms": p50.ms, "p95_ms": p95.ms, "p99_ms": p99.ms}
        found |= {"p99_low_ms": p99.low_ms, "p99_high_ms": p99.high_ms}
    except UsageError:  # nothing succeeded
        found |= dict.fromkeys(
            ("p50_ms", "p95_ms", "p99_ms", "p99_low_ms", "p99_high_ms"), math.inf
        )
    found |= {
        name.replace(" ", "_"): attempts[name] / every
        for name in ("refused", "timed out", "broken")
    }
    busiest, utilisation = answers.busiest(run)
    return found | {"busiest": busiest, "utilisation": utilisation, "overload": run.overload}


def with_parts(deployment: Deployment, parts: Mapping[str, int | float]) -> Deployment:
    """Return the deployment with some fields of its parts changed.

    Raises:
        UsageError: no such part, or it has no such field.
    """
    for name, value in parts.items():
        part, _, of_it = name.partition("_")
        if part not in deployment.parts or of_it not in Part.__dataclass_fields__:
            raise UsageError(
                f"{name}: no part of the deployment; they are called like node_replicas and "
                "operator_cores"
            )
        fields: dict[str, Any] = {of_it: value}
        changed: dict[str, Any] = {part: replace(deployment.parts[part], **fields)}
        deployment = replace(deployment, **changed)
    return deployment
