"""Random draws of transfers: latencies, and keys of losses, from the links' distributions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mpcsim.ids import PartyId
from mpcsim.sim.network.topology import Direction
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.streams import generator


class TransferKey(NamedTuple):
    """Key of one transfer: the n-th message of a flow, on one of its hops."""

    sender: PartyId
    receiver: PartyId
    nth: int
    hop: int


class DrawSource(Protocol):
    """Source of the draws of transfers."""

    def __call__(self, key: TransferKey, direction: Direction) -> Draws: ...


class SeededDraws:
    """Draws from the links' distributions, with an independent generator for each link."""

    BLOCK = 32

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._generators: dict[tuple[str, str], np.random.Generator] = {}

    def __call__(self, key: TransferKey, direction: Direction) -> Draws:
        ends = direction.source, direction.target
        stream = self._streams.get(ends)
        if stream is None:
            stream = self._streams[ends] = _Stream(self._generator(*sorted(ends)), direction)
        return stream.next()

    def _generator(self, a: str, b: str) -> np.random.Generator:
        """Return the generator of a link, derived from the seed and its ends."""
        known = self._generators.get((a, b))
        if known is None:
            made = self._generators[a, b] = generator(self._seed, "link", a, b)
            return made
        return known


class _Stream:
    """Draws of one direction, made in blocks."""

    def __init__(self, source: np.random.Generator, direction: Direction) -> None:
        self._source = source
        self._direction = direction
        self._block: Iterator[tuple[float, float, int]] = iter(())

    def next(self) -> Draws:
        for drawn in self._block:
            return Draws(*drawn)
        source, direction = self._source, self._direction
        # Whole runs of both ways, so that none is cut short.
        runs = math.lcm(direction.forward.run, direction.backward.run)
        n = runs * math.ceil(SeededDraws.BLOCK / runs)
        forward = direction.forward.series(source, n).tolist()
        backward = direction.backward.series(source, n).tolist()
        keys = loss_keys(source, n).tolist() if direction.is_lossy else [0] * n
        self._block = iter(zip(forward, backward, keys, strict=True))
        return self.next()


def loss_keys(source: np.random.Generator, n: int) -> NDArray[np.uint64]:
    """Draw the loss keys of ``n`` messages, which determine the lost segments."""
    return source.integers(0, 1 << 64, n, dtype=np.uint64)
