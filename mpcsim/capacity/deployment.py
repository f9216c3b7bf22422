"""``Deployment``: a service as it is deployed, run, drawn, and kept in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mpcsim.capacity.drawing import description
from mpcsim.capacity.model import files
from mpcsim.capacity.model.parts import Exactness, Model
from mpcsim.sim.network.files import toml

if TYPE_CHECKING:
    from mpcsim.capacity.model.costs import Costs
    from mpcsim.capacity.model.workload import Workload
    from mpcsim.capacity.results.run import Run
    from mpcsim.sim.figures import Chart

__all__ = ["Deployment"]


@dataclass(frozen=True)
class Deployment(Model):
    """A service as it is deployed.

    >>> Deployment(Network.preset("seoul", institution="frankfurt"), node=Part(4, replicas=2))
    """

    def run(
        self,
        workload: Workload,
        *,
        hours: float = 0.0,
        minutes: float = 0.0,
        seconds: float = 0.0,
        seed: int = 1,
        costs: Costs | str | Path | None = None,
        exactness: Exactness = "recorded",
        progress: Callable[[float], None] = lambda part: None,
    ) -> Run:
        """What comes of a workload.

        >>> run = Deployment().run(Workload(Steady(40.0)), hours=1)
        >>> print(run)
        >>> run.percentile(99)

        Args:
            costs: what handling messages takes, or a file of ``mpcsim calibrate``; by default as
                it was measured for this version.
            exactness: ``recorded`` (the messages of recorded calls, with sampled costs, for hours
                of load) or ``real`` (the real node, gateway and MPC nodes, every signature made
                and verified, for minutes); ``live`` is ``real``, but computing is charged as it
                takes here and now, on one core, and never comes out the same twice.
            progress: is told which part of the run is over, from 0 to 1.

        Raises:
            UsageError: no length, costs of another version of the service, or a deployment that the
                exactness does not know.
        """
        from mpcsim.capacity import running  # here: it comes with the compiled simulation

        length_s = 3600 * hours + 60 * minutes + seconds
        return running.run(
            self, workload, length_s, seed=seed, costs=costs, exactness=exactness, progress=progress
        )

    # ------------------------------------------------------------------ shown

    def __str__(self) -> str:
        return description.text(self)

    def _repr_html_(self) -> str:
        return description.html(self)

    def plot(self) -> Chart:
        """Sites with machines, processes and disks, and the links between them; needs matplotlib.

        Raises:
            UsageError: it is taller than a screen.
        """
        from mpcsim.capacity.drawing.picture import picture  # here: it comes with matplotlib

        return picture(self)

    # ------------------------------------------------------------------ files

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The deployment in a TOML file; ``mpcsim.capacity.plan`` says what it looks like.

        Raises:
            UsageError: not TOML, or an entry that is unknown, missing or out of range: says which.
            OSError: the file cannot be read.
        """
        return files.read(path, cls.of)

    def save(self, path: str | Path, note: str = "") -> None:
        """Write a file that ``load`` reads as this deployment; it is a plan's, too.

        Args:
            note: comes first, as a comment.

        Raises:
            UsageError: a latency is of a class that files do not know.
            OSError: the file cannot be written.
        """
        Path(path).write_text(toml.text(self.table(), note), encoding="utf-8")

    @classmethod
    def of(cls, table: Mapping[str, Any], folder: str | Path = ".") -> Self:
        """The deployment in a table, as a file has it.

        Args:
            folder: where the path of a network file begins.

        Raises:
            UsageError: an entry that is unknown, missing or out of range: says which.
        """
        return files.deployment(cls, table, Path(folder))

    def table(self) -> dict[str, Any]:
        """What ``of`` makes this deployment of.

        Raises:
            UsageError: a latency is of a class that files do not know.
        """
        return files.deployment_table(self)
