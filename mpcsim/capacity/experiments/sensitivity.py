"""Which input matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mpcsim.capacity.arrivals import Arrivals, Steady, Users
from mpcsim.capacity.costs import Costs
from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.experiments.points import MINUTES, with_parts
from mpcsim.capacity.workload import Workload
from mpcsim.errors import UsageError
from mpcsim.sim.network.topology import Link, Network
from mpcsim.sim.traces.frame import load_pandas

if TYPE_CHECKING:
    import pandas as pd


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
    """Which input moves a percentile most: one after the other is made worse and better by a tenth,
    with the same draws.

    Args:
        progress: is told which part of it is over, from 0 to 1.

    Returns:
        A row for each input, what moves most first: ``input``, ``less_ms`` and ``more_ms`` (the
        percentile with 1 - change and 1 + change of the input), ``moves`` (their difference over
        the percentile as it is).

    Raises:
        Overloaded: the deployment has not enough capacity as it is.
        UsageError: bad input.
    """
    if not 0 < change < 1:
        raise UsageError(f"change is {change}: between 0 and 1")

    def value(changed: Deployment, work: Workload) -> float:
        run = changed.run(work, minutes=minutes, seed=seed, costs=costs)
        return run.percentile(percent, between_s=(run.length_s / 10, run.length_s)).ms

    first = deployment.run(workload, minutes=minutes, seed=seed, costs=costs)
    usual = first.percentile(percent).ms
    rows = []
    inputs = _inputs(deployment, workload)
    for nth, (name, changed) in enumerate(inputs.items()):
        progress((1 + 2 * nth) / (1 + 2 * len(inputs)))
        less, more = (value(*changed(1 + sign * change)) for sign in (-1, 1))
        rows.append(
            {"input": name, "less_ms": less, "more_ms": more, "moves": (more - less) / usual}
        )
    progress(1.0)
    table = load_pandas().DataFrame(rows)
    return table.sort_values("moves", key=abs, ascending=False, ignore_index=True)


_Changed = Callable[[float], tuple[Deployment, Workload]]


def _inputs(deployment: Deployment, workload: Workload) -> Mapping[str, _Changed]:
    """What can be made a little more of: how, by name."""
    arrivals = workload.arrivals

    def come(factor: float) -> tuple[Deployment, Workload]:
        more: Arrivals = arrivals
        if isinstance(arrivals, Steady):
            more = Steady(arrivals.per_s * factor)
        elif isinstance(arrivals, Users):
            more = replace(arrivals, count=max(1, round(arrivals.count * factor)))
        return deployment, replace(workload, arrivals=more)

    def speed(name: str, factor: float) -> tuple[Deployment, Workload]:
        part = deployment.parts[name]
        return with_parts(deployment, {f"{name}_speed": part.speed * factor}), workload

    def slower(link: Link, factor: float) -> tuple[Deployment, Workload]:
        return replace(deployment, network=_slowed(deployment.network, link, factor)), workload

    found: dict[str, _Changed] = {}
    if isinstance(arrivals, Steady | Users):
        found["calls that come" if isinstance(arrivals, Steady) else "users"] = come
    found |= {f"speed of {name}": partial(speed, name) for name in deployment.parts}
    return found | {
        f"latency {link.a} to {link.b}": partial(slower, link) for link in deployment.network.links
    }


def _slowed(network: Network, link: Link, factor: float) -> Network:
    back = link.back_latency and link.back_latency.scaled(factor)
    return network.with_link(link.a, link.b, latency=link.latency.scaled(factor), back_latency=back)
