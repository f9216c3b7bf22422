"""Sensitivity of a percentile to the inputs of the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.experiments.points import MINUTES, with_parts
from mpcsim.capacity.model.arrivals import Arrivals, Steady, Users
from mpcsim.capacity.model.costs import Costs
from mpcsim.capacity.model.workload import Workload
from mpcsim.capacity.results.intervals import student_t_quantile
from mpcsim.errors import UsageError
from mpcsim.sim.network.topology import Link, Network
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd


PARTS: Final = 5
"""Parts of a run, whose percentiles show the noise."""


def sensitivity(
    deployment: Deployment,
    workload: Workload,
    *,
    percent: float = 99.0,
    change: float = 0.1,
    minutes: float = MINUTES,
    seed: int = 1,
    costs: Costs | str | Path | None = None,
    progress: Callable[[float], None] = lambda part: None,
) -> pd.DataFrame:
    """Return how much a percentile changes when one input after the other is made a tenth worse and
    better, with common random numbers.

    Args:
        progress: called with the share that is done, from 0 to 1.

    Returns:
        A row for each input, the most influential first: ``input``, ``less_ms`` and ``more_ms``
        (the percentile with 1 - change and 1 + change of the input), ``moves`` (their difference
        relative to the unchanged percentile), and ``noise`` (half the width of its 95 % interval,
        from the differences between parts of the run): a smaller change may be none.

    Raises:
        Overloaded: the deployment has not enough capacity unchanged.
        UsageError: bad input.
    """
    if not 0 < change < 1:
        raise UsageError(f"change is {change}: between 0 and 1")

    def values(changed: Deployment, work: Workload) -> NDArray[np.float64]:
        """Return the percentile of a run, and of each of its parts."""
        run = changed.run(work, minutes=minutes, seed=seed, costs=costs)
        edges = np.linspace(run.length_s / 10, run.length_s, PARTS + 1)
        parts = [run.edges_s[np.abs(run.edges_s - edge).argmin()] for edge in edges]
        between = [run.bounds_s(), *pairwise(map(float, parts))]
        return np.array([run.percentile(percent, between_s=each).ms for each in between])

    first = deployment.run(workload, minutes=minutes, seed=seed, costs=costs)
    usual = first.percentile(percent).ms
    rows = []
    inputs = _scaled_inputs(deployment, workload)
    for nth, (name, changed) in enumerate(inputs.items()):
        progress((1 + 2 * nth) / (1 + 2 * len(inputs)))
        less, more = (values(*changed(1 + sign * change)) for sign in (-1, 1))
        moves = (more - less) / usual
        noise = student_t_quantile(PARTS - 1) * float(moves[1:].std(ddof=1)) / math.sqrt(PARTS)
        rows.append(
            {"input": name, "less_ms": less[0], "more_ms": more[0], "moves": moves[0]}
            | {"noise": noise}
        )
    progress(1.0)
    table = load_pandas().DataFrame(rows)
    return table.sort_values("moves", key=abs, ascending=False, ignore_index=True)


_Changed = Callable[[float], tuple[Deployment, Workload]]


def _scaled_inputs(deployment: Deployment, workload: Workload) -> Mapping[str, _Changed]:
    """Return functions that scale an input, by its name."""
    arrivals = workload.arrivals

    def scale_arrivals(factor: float) -> tuple[Deployment, Workload]:
        more: Arrivals = arrivals
        if isinstance(arrivals, Steady):
            more = Steady(arrivals.per_s * factor)
        elif isinstance(arrivals, Users):
            more = replace(arrivals, count=max(1, round(arrivals.count * factor)))
        return deployment, replace(workload, arrivals=more)

    def scale_speed(name: str, factor: float) -> tuple[Deployment, Workload]:
        part = deployment.parts[name]
        return with_parts(deployment, {f"{name}_speed": part.speed * factor}), workload

    def scale_latency(link: Link, factor: float) -> tuple[Deployment, Workload]:
        return replace(
            deployment, network=_with_slower_link(deployment.network, link, factor)
        ), workload

    found: dict[str, _Changed] = {}
    if isinstance(arrivals, Steady | Users):
        found["calls that come" if isinstance(arrivals, Steady) else "users"] = scale_arrivals
    found |= {f"speed of {name}": partial(scale_speed, name) for name in deployment.parts}
    return found | {
        f"latency {link.a} to {link.b}": partial(scale_latency, link)
        for link in deployment.network.links
    }


def _with_slower_link(network: Network, link: Link, factor: float) -> Network:
    """Return the network with the latencies of a link scaled."""
    back = link.back_latency and link.back_latency.scaled(factor)
    return network.with_link(link.a, link.b, latency=link.latency.scaled(factor), back_latency=back)
