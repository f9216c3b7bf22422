"""Copies of connections to go back to: of all that their records hold, what may change.

Segments that were acknowledged and messages that arrived are not looked at again in a way that
shows; packets under way never change. So a copy is some kilobytes instead of some hundred.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.sim.network.tcp.compiled import entry
from mpcsim.sim.network.tcp.state import CONNECTION, HALF, MESSAGES, RING, Record


def _fields(of: np.dtype[np.void]) -> Mapping[str, Any]:
    return of.fields or {}


_HALVES: Final[int] = _fields(CONNECTION)["half"][1]
_NUMBERS: Final[int] = _fields(HALF)["segment"][1]
"""Bytes of a half before its segments, messages and packets."""
_PARTS: Final = (
    (0, _HALVES + _NUMBERS),
    (_HALVES + HALF.itemsize, _HALVES + HALF.itemsize + _NUMBERS),
)


@entry
def copy(
    source: Record,
    source_bytes: NDArray[np.uint8],
    target: Record,
    target_bytes: NDArray[np.uint8],
    count: int,
) -> None:
    """Copy the first ``count`` connections.

    Args:
        source_bytes: the same as ``source``, a row of bytes each; ``target_bytes`` likewise.
    """
    for k in range(count):
        for begin, end in _PARTS:
            for at in range(begin, end):
                target_bytes[k, at] = source_bytes[k, at]
        for h in range(2):
            here, there = source[k].half[h], target[k].half[h]
            for i in range(here.una, here.nxt):
                there.segment[i & RING] = here.segment[i & RING]
            for m in range(here.delivered, here.given):
                there.message[m & MESSAGES] = here.message[m & MESSAGES]
