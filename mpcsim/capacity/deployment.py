"""``Deployment``: a service's machines and network, to be run, plotted, and kept in files."""

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
    """Deployment of a service.

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
        """Run a workload.

        >>> run = Deployment().run(Workload(Steady(40.0)), hours=1)
        >>> print(run)
        >>> run.percentile(99)

        Args:
            costs: service demands, or a file of ``mpcsim calibrate``; by default those measured for
                this version.
            exactness: ``recorded`` (the messages of recorded calls, with sampled costs, for hours
                of load) or ``real`` (the real node, gateway and MPC nodes, every signature made
                and verified, for minutes); ``live`` is ``real`` with the time that computing takes
                here and now, on one core: never twice the same.
            progress: called with the share of the run that is over, from 0 to 1.

        Raises:
            UsageError: no length, costs of another version of the service, or a deployment that the
                exactness does not support.
        """
        from mpcsim.capacity import running  # here: it comes with the compiled simulation

        length_s = 3600 * hours + 60 * minutes + seconds
        return running.run(
            self, workload, length_s, seed=seed, costs=costs, exactness=exactness, progress=progress
        )

    # ------------------------------------------------------------------ display

    def __str__(self) -> str:
        return description.text(self)

    def _repr_html_(self) -> str:
        return description.html(self)

    def plot(self) -> Chart:
        """Plot sites with machines, processes and disks, and the links between them; needs
        matplotlib.

        Raises:
            UsageError: it is taller than a screen.
        """
        from mpcsim.capacity.drawing.picture import picture  # here: it comes with matplotlib

        return picture(self)

    # ------------------------------------------------------------------ files

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the deployment in a TOML file (format: ``mpcsim.capacity.plan``).

        Raises:
            UsageError: not TOML, or an entry that is unknown, missing or out of range: says which.
            OSError: the file cannot be read.
        """
        return files.load(path, cls.of)

    def save(self, path: str | Path, note: str = "") -> None:
        """Write a file that ``load`` reads as this deployment; it is also a plan.

        Args:
            note: comes first, as a comment.

        Raises:
            UsageError: a latency is of a class that files do not know.
            OSError: the file cannot be written.
        """
        Path(path).write_text(toml.text(self.table(), note), encoding="utf-8")

    @classmethod
    def of(cls, table: Mapping[str, Any], folder: str | Path = ".") -> Self:
        """Return the deployment in a table, as in a file.

        Args:
            folder: where the path of a network file begins.

        Raises:
            UsageError: an entry that is unknown, missing or out of range: says which.
        """
        return files.decode_deployment(cls, table, Path(folder))

    def table(self) -> dict[str, Any]:
        """Return the table of which ``of`` makes this deployment.

        Raises:
            UsageError: a latency is of a class that files do not know.
        """
        return files.encode_deployment(self)
