"""Messages that lose exactly the packets that a test wants to be lost.

Whether a packet is lost is a function of its message's key, its segment's place in the message, how
often that was sent before, and what it is. So there is a key for every pattern of losses; ``key``
looks for it.
"""

from collections.abc import Iterable
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from mpcsim.sim.network.tcp.wire import uniform

LOSS: Final = 0.05
"""For links, and to look for keys with."""


class GraphMessage(NamedTuple):
    place: int
    tries: int
    what: int


def data(place: int, tries: int = 0) -> GraphMessage:
    """A segment, by its place in the message from 0 on, and how often it was sent before."""
    return GraphMessage(place, tries, 0)


def ack(place: int, sent: int = 1) -> GraphMessage:
    """What acknowledges a segment at once, when that was sent so often."""
    return GraphMessage(place, sent, 1)


def late_ack(place: int, sent: int = 1) -> GraphMessage:
    """The same after a delay."""
    return GraphMessage(place, sent, 2)


def syn(nth: int = 1) -> GraphMessage:
    return GraphMessage(-1, nth, 3)


def syn_ack(nth: int = 1) -> GraphMessage:
    return GraphMessage(-1, nth, 4)


def third(nth: int = 1) -> GraphMessage:
    """The ACK that ends the handshake, in answer to the ``nth`` SYN-ACK."""
    return GraphMessage(-1, nth, 5)


def key(*lost: GraphMessage, of: Iterable[GraphMessage], loss: float = LOSS) -> int:
    """A message's key, on a link that loses packets with probability ``loss``.

    Args:
        lost: what will be lost.
        of: all packets that matter; the others among them will arrive.
    """
    kept = set(of) - set(lost)
    for candidate in count(1):
        drawn = np.uint64(candidate)
        if all(uniform(drawn, *packet) < loss for packet in lost) and all(
            uniform(drawn, *packet) >= loss for packet in kept
        ):
            return candidate
    raise AssertionError
