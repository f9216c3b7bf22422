"""Latency distribution that keeps the order of its samples, because round trips come in bursts.

Model: circular block bootstrap (Politis and Romano, "A circular block-resampling procedure for
stationary data", 1992): blocks of successive samples begin anywhere in the series, which is closed
to a ring, so that each sample is as likely as any other. Within a block neighbours stay neighbours;
from one block to the next there is no memory. Blocks should be longer than the bursts, and far
shorter than the series."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import UsageError
from mpcsim.sim.network.latency import Empirical, Latency
from mpcsim.sim.network.transport import is_whole_number
from mpcsim.sim.rich_display import counted

__all__ = ["Bursts"]


@dataclass(frozen=True, repr=False)
class Bursts(Latency):
    """Measured latencies, drawn in blocks of successive samples.

    Successive messages of one direction of a link get successive samples, whatever the time between
    them: samples that were taken a second apart do for messages of the same call, too. Moments are
    those of ``Empirical``.

    Runs on the engine use it (``Simulation``, sweeps, ``LocalService``, ``serve``); a replay needs
    independent samples for each message, and refuses it.
    """

    samples_ms: tuple[float, ...]
    """Samples in the order of the measurement."""
    block: int
    """Length of a block of successive samples: from 1 to their number."""
    _plain: Empirical = field(init=False, compare=False)

    def __post_init__(self) -> None:
        plain = Empirical(self.samples_ms)
        block = self.block
        if not is_whole_number(block, 1):
            raise UsageError(f"latency block is {block}: not a whole number from 1 on")
        if block > len(plain.samples_ms):
            raise UsageError(
                f"latency block is {block}: there are {counted(len(plain.samples_ms), 'sample')}"
            )
        object.__setattr__(self, "samples_ms", plain.samples_ms)
        object.__setattr__(self, "_plain", plain)

    @property
    def run(self) -> int:
        return self.block

    def series(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        if n < 0:
            raise UsageError(f"cannot draw {n} latencies")
        samples = np.array(self.samples_ms, dtype=np.float64)
        starts = generator.integers(0, len(samples), math.ceil(n / self.block))
        places = (starts[:, None] + np.arange(self.block)) % len(samples)
        drawn: NDArray[np.float64] = samples[places.ravel()[:n]]
        return drawn

    def _sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        raise UsageError(
            f"a latency in bursts (blocks of {self.block}) has no independent samples, which the "
            "replay needs: simulate its runs one by one (Simulation, sweep), or replay with "
            "Empirical(latency.samples_ms), which forgets the order"
        )

    @property
    def mean_ms(self) -> float:
        return self._plain.mean_ms

    @property
    def std_ms(self) -> float:
        return self._plain.std_ms

    def scaled(self, factor: float) -> Bursts:
        return Bursts(self._plain.scaled(factor).samples_ms, self.block)

    def shifted(self, ms: float) -> Bursts:
        return Bursts(self._plain.shifted(ms).samples_ms, self.block)

    def __repr__(self) -> str:
        return f"Bursts(<{counted(len(self.samples_ms), 'sample')}>, {self.block})"

    def __str__(self) -> str:
        return f"bursts of {self.block}, {self._plain}"
