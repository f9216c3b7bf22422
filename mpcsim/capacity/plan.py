"""Plan: a deployment, its workload and further requests, in one value and one file.

    hours = 1                        # of the run; or minutes, seconds
    seed = 1
    costs = "costs.toml"             # of mpcsim calibrate; by default as measured for this version
    deadline_ms = 500                # later answers are useless to callers
    making_limit = 4                 # of the gateway: keys that are made at a time

    [preset]                         # the network, in any of its spellings; or network = "net.toml"
    region = "seoul"
    institution = "frankfurt"

    [node]                           # fields of Part; also gateway, operator, institution, caller
    cores = 4
    replicas = 2

    [workload]
    users = 10_000
    skew = 0.8
    mix = { "sign secp256k1" = 0.95, "recover secp256k1" = 0.05 }
    client = { timeout_s = 5, attempts = 3, pause_s = 0.5, factor = 2 }

    [workload.arrivals]
    kind = "bursts"                  # steady, bursts, profile, times or users
    per_s = 40
    burst_per_s = 400
    lasting_s = 60
    first_s = 600

    [[workload.events]]
    event = "pauses"                 # dies, pauses, deploys, slows or reshares
    part = "institution"
    at_s = 1_800

    [curve]                          # load curve; requested by the presence of the table
    minutes = 5

    [cheapest]                       # the cheapest configuration that keeps a p99
    p99_ms = 400
    choices = { node_replicas = [1, 2, 3], operator_cores = [1, 2, 4] }

Keys are the fields of the classes; what is left out is as there. Times of ``kind = "times"`` are
``at_s = [...]``, or from a CSV: ``file = "calls.csv"`` with its ``column``. Paths begin at the
file's folder. A network is written as in a scenario
(``mpcsim.sim.network.network_specification``). An error begins with the path of its entry.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mpcsim.capacity.deployment import Deployment
from mpcsim.capacity.model import files
from mpcsim.capacity.model.parts import Exactness
from mpcsim.capacity.model.workload import Workload
from mpcsim.errors import UsageError
from mpcsim.frozen_dict import freeze_fields
from mpcsim.sim.network.files import tables, toml
from mpcsim.sim.network.files.toml import key_path
from mpcsim.sim.network.transport import is_whole_number

if TYPE_CHECKING:
    from mpcsim.capacity.results.run import Run

__all__ = ["Cheapest", "Curve", "Plan", "Sensitivity"]

MINUTES: Final = 10.0
"""Length of each run of an experiment of many runs."""


@dataclass(frozen=True)
class Curve:
    """Request for a load curve."""

    rates_per_s: tuple[float, ...] = ()
    """Offered loads; by default up to somewhat more than the capacity."""
    minutes: float = MINUTES
    """Length of each run."""

    def __post_init__(self) -> None:
        for rate in self.rates_per_s:
            if not 0 < rate < math.inf:
                raise UsageError(f"curve rates_per_s is {rate}: not above 0, or not finite")
        _minutes("curve", self.minutes)


@dataclass(frozen=True)
class Sensitivity:
    """Request for the sensitivity of a percentile to the inputs."""

    percent: float = 99.0
    change: float = 0.1
    """Change of each input, relative to it."""
    minutes: float = MINUTES

    def __post_init__(self) -> None:
        if not 0 < self.percent < 100:
            raise UsageError(f"sensitivity percent is {self.percent}: between 0 and 100")
        if not 0 < self.change < 1:
            raise UsageError(f"sensitivity change is {self.change}: between 0 and 1")
        _minutes("sensitivity", self.minutes)


@dataclass(frozen=True)
class Cheapest:
    """Request for the cheapest configuration that keeps a 99th percentile; every core costs the
    same."""

    p99_ms: float
    choices: Mapping[str, tuple[int | float, ...]]
    """Values of fields of parts, such as ``node_replicas``: more is better."""
    minutes: float = MINUTES

    def __post_init__(self) -> None:
        freeze_fields(self, "choices")
        if not 0 < self.p99_ms < math.inf:
            raise UsageError(f"cheapest p99_ms is {self.p99_ms}: not above 0, or not finite")
        if not self.choices or not all(self.choices.values()):
            raise UsageError("cheapest choices is empty: a field of a part and its values")
        _minutes("cheapest", self.minutes)


@dataclass(frozen=True)
class Plan:
    """Run of a workload on a deployment, and further requests; ``load(save(x)) == x``."""

    deployment: Deployment = field(default_factory=Deployment)
    workload: Workload = field(default_factory=Workload)
    hours: float = 0.0
    minutes: float = 0.0
    seconds: float = 0.0
    seed: int = 1
    costs: str | None = None
    """File of ``mpcsim calibrate``; by default the costs measured for this version."""
    exactness: Exactness = "recorded"
    deadline_ms: float = math.inf
    """Latency beyond which an answer is useless to its caller."""
    curve: Curve | None = None
    sensitivity: Sensitivity | None = None
    cheapest: Cheapest | None = None

    def __post_init__(self) -> None:
        for name in ("hours", "minutes", "seconds"):
            if not 0 <= (length := getattr(self, name)) < math.inf:
                raise UsageError(f"plan {name} is {length}: below 0, or not finite")
        if not is_whole_number(self.seed, 0):
            raise UsageError(f"plan seed is {self.seed}: not a whole number from 0 on")
        if not self.deadline_ms > 0:
            raise UsageError(f"plan deadline_ms is {self.deadline_ms}: not above 0")

    def run(self, progress: Callable[[float], None] = lambda part: None) -> Run:
        """Run the workload on the deployment, as ``Deployment.run`` does."""
        return self.deployment.run(
            self.workload,
            hours=self.hours,
            minutes=self.minutes,
            seconds=self.seconds,
            seed=self.seed,
            costs=self.costs,
            exactness=self.exactness,
            progress=progress,
        )

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Return the plan in a TOML file; a file of a deployment or a workload is one, too.

        Raises:
            UsageError: not TOML, or an entry that is unknown, missing or out of range: says which.
            OSError: the file cannot be read.
        """
        return files.load(path, _plan)

    @classmethod
    def loads(cls, text: str, source: str = "plan", folder: str | Path = ".") -> Plan:
        """Return the plan in a TOML text, as ``load`` does.

        Args:
            folder: where paths begin.
        """
        return files.decode_table(toml.loads(text, source), source, Path(folder), _plan)

    def save(self, path: str | Path, note: str = "") -> None:
        """Write a file that ``load`` reads as this plan.

        Args:
            note: comes first, as a comment.

        Raises:
            UsageError: a latency is of a class that files do not know.
            OSError: the file cannot be written.
        """
        from_there = self
        if self.costs is not None:
            from_there = replace(self, costs=os.path.relpath(self.costs, Path(path).parent))
        Path(path).write_text(from_there.dumps(note), encoding="utf-8")

    def dumps(self, note: str = "") -> str:
        """Return the TOML text of its file, with paths as they are."""
        without = frozenset({"deployment", "workload"})
        own = tables.encode(self, _encode_value, leave_out=without, defaults=False)
        load = {files.WORKLOAD: files.encode_workload(self.workload)}
        return toml.text(own | load | files.encode_deployment(self.deployment), note)

    def __str__(self) -> str:
        return self.dumps()


def _minutes(what: str, minutes: float) -> None:
    if not 0 < minutes < math.inf:
        raise UsageError(f"{what} minutes is {minutes}: not above 0, or not finite")


# ---------------------------------------------------------------------- files


def _plan(table: Mapping[str, Any], folder: Path) -> Plan:
    own = {name: value for name, value in table.items() if name in files.PLAN_KEYS}
    plan = tables.decode(
        Plan,
        own,
        "",
        {Mapping[str, tuple[int | float, ...]]: _choices},
        deployment=files.decode_deployment(Deployment, table, folder),
        workload=files.decode_workload(Workload, table.get(files.WORKLOAD, {}), folder),
    )
    return plan if plan.costs is None else replace(plan, costs=str(folder / plan.costs))


def _choices(value: Any, at: str) -> dict[str, tuple[int | float, ...]]:
    return {
        name: tables.decode_list(values, key_path(at, name), files.check_number)
        for name, values in tables.as_table(value, at).items()
    }


def _encode_value(value: Any) -> Any:
    match value:
        case Curve() | Sensitivity() | Cheapest():
            return tables.encode(value, _encode_value, defaults=False)
        case Mapping():
            return {name: list(each) for name, each in value.items()}
        case tuple():
            return list(value)
    return value
