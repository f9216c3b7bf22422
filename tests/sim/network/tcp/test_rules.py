"""Rules of RFC 9438, RFC 6298 and Linux, each in a scenario whose times it alone decides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from mpcsim.sim.network.latency import Uniform
from tests.helpers import losing
from tests.helpers.losing import data, syn
from tests.sim.network.tcp.lab import FULL, LONG_TICK, TICK, Line, plain, took

HALF = 0.5
"""A loss with which several packets in a row may be lost, or arrive."""


@pytest.mark.parametrize(
    ("lost", "seconds"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 7), (7, 11)]
)
def test_linux_waits_a_second_for_five_syns_and_then_twice_as_long_each(
    lost: int, seconds: int
) -> None:
    """``tcp_syn_linear_timeouts`` is 4: so many retransmissions leave the timeout as it is."""
    packets = {syn(nth) for nth in range(1, 9)} | {data(0)}
    key = losing.key(*(syn(nth) for nth in range(1, lost + 1)), of=packets, loss=HALF)
    line = Line(plain(cold=True), mbit_per_s=math.inf, loss=HALF)
    waited = line(0.0, FULL, key=key).handshake_ms - 80
    assert waited == pytest.approx(1000 * seconds, abs=lost * 5 * LONG_TICK)


@pytest.mark.parametrize("deviation_ms", [60.0, 120.0, 240.0])
def test_a_warm_connection_knows_how_much_its_round_trips_deviate(deviation_ms: float) -> None:
    """RFC 6298, 2.3: RTO = SRTT + 4 RTTVAR, where that is over Linux's 200 ms. A segment is lost
    twice, and each time nothing but the timer finds it: a probe after 2 SRTT would be later."""
    half = deviation_ms / math.sqrt(2) * math.sqrt(3)
    way = Uniform(400.0 - half, 400.0 + half)
    line = Line(plain(), mbit_per_s=math.inf, loss=HALF, way=way)  # type: ignore[arg-type]
    of = {data(0, tries) for tries in range(3)}
    took_ms = took(line(0.0, FULL, key=losing.key(data(0), data(0, 1), of=of, loss=HALF)))
    quiet = Line(plain(), mbit_per_s=math.inf, loss=HALF, way=400.0)
    without_ms = took(quiet(0.0, FULL, key=losing.key(data(0), data(0, 1), of=of, loss=HALF)))
    assert took_ms - without_ms == pytest.approx(2 * (4 * deviation_ms - 200), abs=2 * LONG_TICK)


@pytest.mark.parametrize(("round_trip_ms", "probe_ms", "rto_ms"), [(80, 280, 280), (300, 800, 900)])
def test_the_first_timeout_is_three_round_trips(
    round_trip_ms: float, probe_ms: float, rto_ms: float
) -> None:
    """RFC 6298, 2.2: after the handshake's round trip R, RTTVAR = R/2 and RTO = R + max(4 RTTVAR,
    200 ms). A segment is lost, so is its probe (after 2 R + 200 ms, or RTO if that is sooner; RFC
    8985, 7.2), and the timer finds it."""
    line = Line(plain(cold=True), mbit_per_s=math.inf, loss=HALF, way=round_trip_ms / 2)
    of = {syn(), *(data(0, tries) for tries in range(3))}
    found = line(0.0, FULL, key=losing.key(data(0), data(0, 1), of=of, loss=HALF))
    assert found.handshake_ms == round_trip_ms
    assert found.recovery_ms == pytest.approx(probe_ms + rto_ms + 2 * LONG_TICK)


@pytest.mark.parametrize("profile", ["linux", "ns3"])
@pytest.mark.parametrize(("algorithm", "share"), [("cubic", 0.7), ("reno", 0.5)])
def test_a_recovery_sends_its_share_of_what_arrives(
    profile: str, algorithm: str, share: float
) -> None:
    """Proportional rate reduction (RFC 6937): of 20 segments the first is lost. What goes in the
    round trip in which that shows, the repetition among it, is 20 times the reduction of the
    window, and comes with the 19 that were there."""
    line = Line(plain(profile, algorithm, initial_window=20), mbit_per_s=math.inf, loss=losing.LOSS)
    of = {data(k) for k in range(60)} | {data(0, 1)}
    found = line.flights(0.0, 60, key=losing.key(data(0), of=of))
    assert sum(segments for at, segments in found if at < 122) == 19 + round(20 * share)


def by_round_trip(profile: str, way: float, lossy: Sequence[int], segments: int) -> list[int]:
    """Segments of the last message that arrive in each round trip, after messages of which each
    loses its first segment."""
    loss = 0.0005
    stack = plain(profile, "cubic", cold=True, initial_window=lossy[0])
    line = Line(stack, mbit_per_s=math.inf, loss=loss, way=way)
    for size in lossy:
        of = {data(k) for k in range(size)} | {data(0, 1)}
        line(line.now + 300, size * FULL, key=losing.key(data(0), of=of, loss=loss))
    trips = [0] * 100
    of = {data(k) for k in range(segments)}
    for at, arrived in line.flights(line.now + 300, segments, key=losing.key(of=of, loss=loss)):
        trips[int((at - way) // (2 * way))] += arrived
    return trips


def test_cubic_grows_as_reno_would_where_that_is_quicker() -> None:
    """Reno-friendly region (RFC 9438, 4.3), over 20 ms after one loss of 20: from 0.7 x 20 = 14 by
    3 (1 - beta) / (1 + beta) = 0.53 segments a round trip. CUBIC alone comes back to W_max = 20
    after K = cbrt(6 / 0.4) = 2.5 s, 123 round trips, and is below 17 after 25 of them."""
    trips = by_round_trip("linux", 10.0, (20,), 600)
    assert trips[0] == pytest.approx(14, abs=1)
    assert sum(trips[20:25]) / 5 == pytest.approx(14 + 0.53 * 22, abs=2)


def test_cubic_gives_room_to_others_when_it_loses_before_its_last_maximum() -> None:
    """Fast convergence (RFC 9438, 4.7), over 400 ms after one loss of 100 and one of 70: W_max =
    W (1 + beta) / 2 = 59, not 70. From 0.7 x 70 = 49 it is reached after K = cbrt((59 - 49) / 0.4)
    = 2.9 s; 70 would make it some 68 by then."""
    trips = by_round_trip("ns3", 200.0, (100, 70), 1500)
    assert trips[0] == pytest.approx(49, abs=2)
    at_k = int(2.9 / 0.4)
    assert trips[at_k] == pytest.approx(59, abs=2)


@pytest.mark.parametrize("messages", [1, 2, 3])
def test_each_round_trip_moves_the_timeout_of_ns3(messages: int) -> None:
    """RFC 6298, 2.3, alpha 1/8 and beta 1/4. The handshake takes 400 ms; the first message is
    acknowledged at once, each further one after 40 ms. The next is lost, and the timer finds it."""
    line = Line(plain("ns3", cold=True), mbit_per_s=math.inf, loss=HALF, way=200.0)
    srtt_ms, rttvar_ms = 400.0, 200.0
    for nth in range(messages):
        line(line.now + 500 * nth, FULL, key=losing.key(of={syn(), data(0)}, loss=HALF))
        rtt_ms = 440.0 if nth else 400.0
        rttvar_ms += (abs(rtt_ms - srtt_ms) - rttvar_ms) / 4
        srtt_ms += (rtt_ms - srtt_ms) / 8
    key = losing.key(data(0), of={data(0), data(0, 1)}, loss=HALF)
    found = line(line.now + 500, FULL, key=key)
    assert found.recovery_ms == pytest.approx(srtt_ms + 4 * rttvar_ms)


def test_the_clock_of_ns3_has_whole_milliseconds() -> None:
    """A handshake of 80.6 ms is one of 80: three times that is the first timeout."""
    line = Line(plain("ns3", cold=True), mbit_per_s=math.inf, loss=HALF, way=40.3)
    key = losing.key(data(0), of={syn(), data(0), data(0, 1)}, loss=HALF)
    assert line(0.0, FULL, key=key).recovery_ms == pytest.approx(3 * 80)


@pytest.mark.parametrize("messages", [1, 2, 3])
def test_what_linux_expects_of_round_trips_calms_down(messages: int) -> None:
    """Each of 400 ms takes a quarter off the deviation (RFC 6298, 2.3), and in Linux off what
    RTTVAR is above it, from the second message on. Then a segment is lost, so is its probe, after
    2 SRTT + 200 ms, and the timer finds it."""
    line = Line(plain(cold=True), mbit_per_s=math.inf, loss=HALF, way=200.0)
    deviation_ms = variation_ms = 800.0
    for nth in range(messages):
        line(line.now + 500 * nth, FULL, key=losing.key(of={syn(), data(0)}, loss=HALF))
        deviation_ms *= 3 / 4
        variation_ms -= (variation_ms - deviation_ms) / 4 if nth else 0
    of = {data(0, tries) for tries in range(3)}
    found = line(line.now + 500, FULL, key=losing.key(data(0), data(0, 1), of=of, loss=HALF))
    expected = 1000 + 400 + variation_ms + 2 * LONG_TICK
    assert found.recovery_ms == pytest.approx(expected, abs=2 * TICK)


def test_the_timeout_of_ns3_doubles_up_to_a_minute() -> None:
    """RFC 6298, 5.5 and 2.5: three round trips of 4 s at first; a segment is lost five times."""
    line = Line(plain("ns3", cold=True), mbit_per_s=math.inf, loss=HALF, way=2000.0)
    sent = [data(0, tries) for tries in range(6)]
    found = line(0.0, FULL, key=losing.key(*sent[:5], of={syn(), *sent}, loss=HALF))
    assert found.recovery_ms == pytest.approx(1000 * (12 + 24 + 48 + 60 + 60))


def test_linux_does_not_widen_a_window_that_is_not_used() -> None:
    """RFC 7661, in congestion avoidance: half of 20 after a loss, and still after 40 messages of
    8 segments, each a round trip or more."""
    loss = 0.0005
    line = Line(plain("linux", "reno", initial_window=20), mbit_per_s=math.inf, loss=loss)
    of = [data(k) for k in range(40)]
    line(0.0, 20 * FULL, key=losing.key(data(0), of={*of[:20], data(0, 1)}, loss=loss))
    for _ in range(40):
        line(line.now + 100, 8 * FULL, key=losing.key(of=of[:8], loss=loss))
    assert line.flights(line.now + 100, 40, key=losing.key(of=of, loss=loss))[0][1] == 10
