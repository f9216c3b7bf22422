"""What is lost follows from a message's key and from nothing else."""

import math

import numpy as np
import pytest

from mpcsim.sim.network.tcp.wire import uniform
from tests.helpers.losing import ack, data, late_ack, syn
from tests.sim.network.tcp.lab import FULL, Line, parts, plain, took

LOSS = 0.1


def test_numbers_are_uniform_and_independent() -> None:
    """Mean 1/2, variance 1/12; neighbours in any of the four have no correlation."""
    shape = 10, 61, 6, 6
    four = (
        (np.uint64(key), place - 1, tries, what) for key, place, tries, what in np.ndindex(shape)
    )
    found = np.array([uniform(*these) for these in four]).reshape(shape)
    n = found.size
    assert 0 <= found.min() < found.max() < 1
    assert abs(found.mean() - 1 / 2) < 5 * math.sqrt(1 / 12 / n)
    assert abs(found.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / n)
    for axis in range(4):
        ahead = np.moveaxis(found, axis, 0)
        correlation = np.corrcoef(ahead[:-1].ravel(), ahead[1:].ravel())[0, 1]
        assert abs(correlation) < 5 / math.sqrt(n * 0.8)


def test_every_packet_of_a_message_has_its_own() -> None:
    """Segments, each time they are sent, acknowledgements, and the handshake."""
    packets = [
        *(data(place, tries) for place in range(100) for tries in range(5)),
        *(kind(place, sent) for kind in (ack, late_ack) for place in range(100) for sent in (1, 2)),
        *(syn(nth) for nth in range(1, 6)),
    ]
    assert len({uniform(np.uint64(7), *packet) for packet in packets}) == len(packets)


@pytest.mark.parametrize("profile", ["linux", "ns3"])
def test_the_same_key_loses_the_same(profile: str) -> None:
    """Alone, late, or with much else under way over the link: on a connection of its own a message
    takes as long. The others' keys change nothing."""

    def line() -> Line:
        return Line(plain(profile), mbit_per_s=math.inf, loss=LOSS, back_loss=LOSS)

    times = set()
    for key in range(1, 150):
        alone = line()(0.0, 12 * FULL, key=key)
        later = line()(1e6, 12 * FULL, key=key)
        busy = line()
        for other in range(3):
            busy.send(0.0, 30 * FULL, pair=1 + other, key=1000 * key + other, back=other == 1)
        among = busy(7.0, 12 * FULL, key=key)
        assert parts(alone) == pytest.approx(parts(later), abs=1e-6)
        assert parts(alone) == pytest.approx(parts(among), abs=1e-6)
        times.add(round(took(alone), 3))
    assert len(times) > 10


def many(line: Line, size: int, count: int) -> list[float]:
    """How long messages take, each on a connection of its own."""
    times = []
    for session in range(count):
        transfer = line(1e5 * session, size, key=3**30 * session, session=session)
        line.traffic.close_session(session)
        times.append(took(transfer))
    return times


@pytest.mark.parametrize("segments", [1, 5, 10])
def test_how_often_nothing_is_lost(segments: int) -> None:
    """(1 - p)^n of all messages; these take the way alone, and the others more."""
    count = 4000
    least = segments * 0.12 + 40
    times = many(Line(loss=LOSS), segments * FULL, count)
    assert min(times) == pytest.approx(least)
    kept = sum(at == pytest.approx(least) for at in times)
    expected = (1 - LOSS) ** segments
    assert abs(kept / count - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


def test_a_segment_may_be_lost_again_and_again() -> None:
    """A single segment, lost k times with probability p^k: 1, 2, 3 timeouts (see the losses)."""
    count = 4000
    waits = [0, 240, 240 + 480, 240 + 480 + 960]
    found = many(Line(plain("ns3"), mbit_per_s=math.inf, loss=0.5), 100, count)
    for lost, wait in enumerate(waits):
        share = sum(at == pytest.approx(40 + wait) for at in found) / count
        expected = 0.5 ** (lost + 1)
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / count)
