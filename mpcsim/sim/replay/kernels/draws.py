"""Draws for the replay: the randomness of transfers, for many samples at once."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mpcsim.errors import UsageError
from mpcsim.sim.network.draws import DrawSource, TransferKey, loss_keys
from mpcsim.sim.network.latency import Constant
from mpcsim.sim.network.topology import Direction
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.replay.kernels.arrays import Drawn, Part
from mpcsim.sim.streams import generator, stream_key


class ArraySource(Protocol):
    """Source of the random draws of a chunk of samples."""

    def __call__(self, key: TransferKey, direction: Direction, part: Part, samples: slice) -> Drawn:
        """Draw one part of a transfer, for a range of samples.

        Returns:
            An array of that length, or of length 1 if all samples have the same value; not to be
            modified.
        """
        ...


class SampledDraws:
    """Independent draws from the network's distributions; a generator for each chunk."""

    def __init__(self, seed: int, chunk: int, purpose: str = "samples") -> None:
        # NumPy's fastest generator: sampling takes most of the time.
        self._generator = np.random.Generator(np.random.SFC64(stream_key(seed, purpose, chunk)))

    def __call__(self, key: TransferKey, direction: Direction, part: Part, samples: slice) -> Drawn:
        return _draw(direction, part, self._generator, samples.stop - samples.start)

    def choices(self, of: int, n: int) -> NDArray[np.int64]:
        """Draw ``n`` integers from 0 to ``of`` - 1."""
        return self._generator.integers(0, of, n)


def _draw(direction: Direction, part: Part, source: np.random.Generator, n: int) -> Drawn:
    if part == "loss":
        return loss_keys(source, n)
    latency = direction.forward if part == "forward" else direction.backward
    if isinstance(latency, Constant):
        return np.array([latency.ms], dtype=np.float64)
    return latency.sample(source, n)


class DrawTable:
    """Common random numbers for the replay and for the engine.

    Draws are made on first use and kept: a table is for one network, and for thousands of samples,
    not millions. Sample k of a replay with the table equals, bit by bit, a ``VirtualRun`` with
    ``table.sample(k)``.

        >>> table = DrawTable(200, seed=1)
        >>> replay = graph.replay(network, 200, draws=table)
        >>> trace = VirtualRun(parties, network, draws=table.sample(7)).run()
        >>> assert trace.finished_ms == replay.finished_ms[7]
    """

    def __init__(self, samples: int, seed: int = 0) -> None:
        self.samples = samples
        self._seed = seed
        self._kept: dict[tuple[TransferKey, Part], Drawn] = {}

    def __call__(self, key: TransferKey, direction: Direction, part: Part, samples: slice) -> Drawn:
        if samples.stop > self.samples:
            raise UsageError(f"the table has draws for {self.samples} samples, not more")
        kept = self._kept.get((key, part))
        if kept is None:
            kept = _draw(direction, part, generator(self._seed, "table", *key, part), self.samples)
            self._kept[key, part] = kept
        return kept if len(kept) == 1 else kept[samples]

    def sample(self, k: int) -> DrawSource:
        """Return the draws of sample k, for the engine."""
        at = slice(k, k + 1)

        def draws(key: TransferKey, direction: Direction) -> Draws:
            forward, backward = (
                self(key, direction, "forward", at),
                self(key, direction, "backward", at),
            )
            lost = int(self(key, direction, "loss", at)[0]) if direction.is_lossy else 0
            return Draws(float(forward[0]), float(backward[0]), lost)

        return draws
