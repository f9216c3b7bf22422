"""Losses in bursts, and queues without room, against closed forms with the arithmetic shown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.ids import PartyId
from mpcsim.sim import Connection, Declared, Link, Network, Site
from mpcsim.sim.network import Draws, GilbertElliott, TimedGilbertElliott, Traffic, losses
from mpcsim.sim.network.losses import describe_loss, mean_loss
from mpcsim.sim.network.transport import Transfer
from mpcsim.sim.replay import GraphMessage, MessageGraph, Step
from tests.helpers.reviewed import check_calls
from tests.sim.network.tcp.lab import parts, took

ONE, TWO = PartyId(1), PartyId(2)


def row(connection: Connection | None = None, **link: Any) -> Network:
    """Two sites, 40 ms apart."""
    return Network(
        {name: Site(name) for name in "ab"},
        (Link("a", "b", 40.0, **link),),  # type: ignore[arg-type]
        {ONE: "a", TWO: "b"},
        connection or Connection(overhead_bytes=0),
    )


def said(traffic: Traffic, *sizes: int, source: str = "a") -> list[Transfer]:
    """Messages that are given at once, each of a pair of its own: what became of each."""
    direction = traffic.network.links[0].direction(source)
    numbers = [
        traffic.send(direction, 0.0, size, Draws(40.0, 40.0, pair + 1), pair=pair)
        for pair, size in enumerate(sizes)
    ]
    found: dict[int, Transfer] = {}
    while len(found) < len(numbers):
        arrival = traffic.advance(0.0, math.inf)
        assert arrival is not None
        found[arrival.number] = traffic.take_transfer(arrival.number)
    return [found[number] for number in numbers]


# ------------------------------------------------------------------ bursts


def test_the_long_run() -> None:
    """A bad spell begins before one packet in 100 and ends before one in 4: 1/26 of the packets
    meet one, which loses half of them; the others lose one in 1000."""
    loss = GilbertElliott(0.01, 0.25, 0.5, 0.001)
    assert loss.bad_share == pytest.approx(1 / 26)
    assert loss.mean == mean_loss(loss) == pytest.approx(1 / 26 * 0.5 + 25 / 26 * 0.001)
    assert describe_loss(loss) == "2.02% in bursts of 4"
    assert [describe_loss(each) for each in (0.02, 4e-5, 0)] == ["2.00%", "0.004%", "0.00%"]


def test_by_mean_and_length() -> None:
    loss = GilbertElliott.of(0.02, packets=5)
    assert loss.mean == pytest.approx(0.02)
    assert 1 / loss.to_good == 5
    assert (loss.bad_loss, loss.good_loss) == (1.0, 0.0)
    assert GilbertElliott.of(0.0, packets=3).mean == 0


def test_bad_figures() -> None:
    check_calls(Path(__file__).with_name("wrong_losses.txt"), losses, Link=Link, math=math)


def graph(messages: int) -> MessageGraph:
    """So many small messages, one after the other."""
    steps = [Step(ONE, "toy", n + 1, "say", (), (n,)) for n in range(messages)]
    hears = [Step(TWO, "toy", n + 1, "hear", (n,), ()) for n in range(messages)]
    packets = tuple(GraphMessage("Word", ONE, TWO, 100, n) for n in range(messages))
    return MessageGraph("words", (*steps, *hears), packets)


def test_losses_are_as_many_and_as_long_as_said() -> None:
    """Ten packets leave at once, each on a connection of its own. A fresh link is bad in a share b
    of the samples; so nothing at all is lost in (1 - b) (1 - p)^9 of them."""
    loss = GilbertElliott.of(0.03, packets=4)
    ten = Connection(overhead_bytes=0, pool=10)
    network = row(ten, mbit_per_s=math.inf, loss=loss, back_loss=0.0)
    of, samples = graph(10), 20_000
    found = of.replay(network, samples, seed=4)
    clear = float(np.mean(found.finished_ms <= 40.0 + 1e-9))
    expected = (1 - loss.bad_share) * (1 - loss.to_bad) ** 9
    assert abs(clear - expected) < 5 * math.sqrt(expected * (1 - expected) / samples)
    # Independent losses of the same mean hit many more of the samples.
    alone = of.replay(row(ten, mbit_per_s=math.inf, loss=0.03, back_loss=0.0), samples, seed=4)
    assert float(np.mean(alone.finished_ms <= 40.0 + 1e-9)) == pytest.approx(0.97**10, abs=0.01)
    assert clear > 0.97**10 + 0.05


# ------------------------------------------------------------------ one rate for all


def test_two_calls_at_once_slow_each_other_down() -> None:
    """At 8 Mbit/s, 1000 bytes take 1 ms. 948 bytes are 1000 with headers: the first message takes
    1 + 40 ms, the other, on a connection of its own, leaves behind it: 2 + 40 ms."""
    first, second = said(Traffic(row(mbit_per_s=8.0)), 948, 948)
    assert took(first) == pytest.approx(41)
    assert took(second) == pytest.approx(42)
    assert (first.queueing_ms, second.queueing_ms) == (0, pytest.approx(1))


# ------------------------------------------------------------------ no room


def test_a_queue_with_room() -> None:
    """Ten full segments are 15 000 bytes; while the first leaves, 13 500 wait at most."""
    [whole] = said(Traffic(row(mbit_per_s=8.0, queue_bytes=13_500.0)), 14_480)
    assert took(whole) == pytest.approx(15 + 40)
    assert whole.recovery_ms == 0


def test_what_finds_no_room_is_dropped_and_sent_again() -> None:
    """With room for 3000 bytes, the segments that find 0, 1500 and 3000 ahead of them leave, by
    1.5, 3 and 4.5 ms; the fourth finds 4500 and is dropped, like all after it."""
    [whole] = said(Traffic(row(mbit_per_s=8.0, queue_bytes=3000.0)), 4 * 1448)
    assert whole.transmission_ms == pytest.approx(4.5)
    assert whole.recovery_ms > 80  # the sender hears of it a round trip later, at best
    [fits] = said(Traffic(row(mbit_per_s=8.0, queue_bytes=3000.0)), 3 * 1448)
    assert took(fits) == pytest.approx(4.5 + 40)


@given(
    st.lists(st.integers(1, 60_000), min_size=1, max_size=4),
    st.sampled_from([1.0, 8.0, 100.0]),
    st.sampled_from([0.0, 3000.0, 30_000.0, math.inf]),
    st.sampled_from(
        [0.0, 0.05, GilbertElliott.of(0.05, packets=3), TimedGilbertElliott.of(0.05, 30.0)]
    ),
    st.booleans(),
)
def test_everything_arrives_and_adds_up(
    sizes: list[int], rate: float, room: float, loss: float | GilbertElliott, cold: bool
) -> None:
    network = row(
        Connection(cold=cold, overhead_bytes=0), mbit_per_s=rate, queue_bytes=room, loss=loss
    )
    for transfer, size in zip(said(Traffic(network), *sizes), sizes, strict=True):
        assert min(parts(transfer)) >= -1e-9
        assert math.fsum(parts(transfer)) == pytest.approx(took(transfer), abs=1e-6)
        assert took(transfer) >= 40 + size * 8 / (rate * 1000) - 1e-9


# ------------------------------------------------------------------ bursts by time


def test_a_link_that_is_bad_for_a_while() -> None:
    """Good for 300 ms and bad for 100 on average, which is a share b of 1/4, loses all then. Of two
    messages t ms apart, nothing is lost if the link is good at the first, and good still or again
    at the second: (1 - b) (1 - b + b exp(-t (1/300 + 1/100)))."""
    loss, samples = TimedGilbertElliott(300.0, 100.0), 20_000
    assert (loss.bad_share, loss.mean) == (0.25, 0.25)
    assert loss == TimedGilbertElliott.of(0.25, burst_ms=100.0)
    assert describe_loss(loss) == "25.00% in bursts of 100 ms"
    two = Connection(overhead_bytes=0, pool=2)
    network = row(two, mbit_per_s=math.inf, loss=loss, back_loss=0.0)
    for apart in (0.0, 30.0, 100.0, 250.0):  # less than the time-out
        costs = Declared({("toy", "say"): apart, ("toy", "hear"): 0.0})
        found = graph(2).replay(network, samples, seed=4, costs=costs)
        clear = float(np.mean(found.finished_ms <= 2 * apart + 40 + 1e-6))
        expected = 0.75 * (0.75 + 0.25 * math.exp(-apart * (1 / 300 + 1 / 100)))
        assert abs(clear - expected) < 5 * math.sqrt(expected * (1 - expected) / samples)


def test_a_long_wait_finds_the_link_as_it_is_in_the_long_run() -> None:
    """By packet a burst lasts until so many repetitions are lost, however long they wait."""
    means = []
    for loss in (0.01, TimedGilbertElliott.of(0.01, 30.0), GilbertElliott.of(0.01, 4)):
        found = graph(1).replay(row(loss=loss, back_loss=0.0), 20_000, seed=2)
        means.append(found.mean_ms)
    assert means[0] < 45
    assert means[1] < 45
    assert means[2] > 80
