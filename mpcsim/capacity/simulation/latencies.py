"""Latencies of a run: drawn in blocks, each used once, in the order of sending."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.sim.network.latency import Latency
from mpcsim.sim.network.topology import Network
from mpcsim.sim.streams import generator

BLOCK: Final = 1 << 12
"""Latencies drawn at a time, for each direction of each link, there and back."""


class Latencies:
    """Streams of latencies of a network, of which two blocks each are at hand."""

    def __init__(self, network: Network, seed: int) -> None:
        self._streams: list[list[tuple[Latency, np.random.Generator]]] = []
        for link in network.links:
            for end, other in ((link.a, link.b), (link.b, link.a)):
                direction = link.direction(end)
                self._streams.append(
                    [
                        (latency, generator(seed, "latencies", end, other, way))
                        for way, latency in enumerate((direction.forward, direction.backward))
                    ]
                )

    def first(self) -> NDArray[np.float64]:
        """Return two blocks of each stream: by direction of a link, there and back."""
        draw_times = np.empty((len(self._streams), 2, 2 * BLOCK))
        for row, streams in zip(draw_times, self._streams, strict=True):
            for place, stream in zip(row, streams, strict=True):
                for first in (0, BLOCK):
                    place[first : first + BLOCK] = _block(*stream)
        return draw_times

    def replace_used(self, draw_times: NDArray[np.float64], used: NDArray[Any]) -> None:
        """Replace the used blocks in place; ``used`` counts from the first latency at hand."""
        for number, streams in enumerate(self._streams):
            for way, stream in enumerate(streams):
                while used[number, way] >= BLOCK:
                    draw_times[number, way, :BLOCK] = draw_times[number, way, BLOCK:]
                    draw_times[number, way, BLOCK:] = _block(*stream)
                    used[number, way] -= BLOCK


def _block(latency: Latency, source: np.random.Generator) -> NDArray[np.float64]:
    return latency.sample(source, BLOCK)
