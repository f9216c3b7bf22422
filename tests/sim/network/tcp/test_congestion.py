"""What losses and pauses leave of a window, and how it grows then: seen by the next message.

On an infinitely fast line, where everything that leaves together arrives together, so that the
first arrivals of a message count the window.
"""

import math

import pytest

from tests.helpers import losing
from tests.helpers.losing import LOSS, data
from tests.sim.network.tcp.lab import FULL, Line, plain, took

both = pytest.mark.parametrize("profile", ["linux", "ns3"])


def lucky(segments: int, loss: float = LOSS) -> int:
    """A key with which nothing is lost the first time."""
    return losing.key(of={data(k) for k in range(segments)}, loss=loss)


def after_losing(
    profile: str, algorithm: str, segments: int, *lost: losing.GraphMessage, **settings: object
) -> Line:
    """A connection whose first message has arrived, of which exactly these packets were lost."""
    line = Line(plain(profile, algorithm, **settings), mbit_per_s=math.inf, loss=LOSS)
    line.lose(0.0, segments, *lost)
    return line


# ------------------------------------------------------------------ after a loss


@pytest.mark.parametrize(
    ("profile", "algorithm", "window"),
    [("linux", "reno", 5), ("linux", "cubic", 7), ("ns3", "reno", 7), ("ns3", "cubic", 8)],
)
def test_a_window_after_fast_recovery(profile: str, algorithm: str, window: int) -> None:
    """The first of ten: half of the window is left (RFC 5681, section 3.2), or 0.7 of it (RFC 9438,
    section 4.6). In ns-3 the acknowledgement that ends the recovery, of ten segments, counts, too:
    two windows of five are two segments more; and by CUBIC's clock, which has seen 80 ms, the
    window is 10 - 0.4 (cbrt(3 / 0.4) - 0.08)^3 = 7.4, for ns-3 one segment more."""
    line = after_losing(profile, algorithm, 10, data(0))
    assert took(line.done[0]) == 120
    assert line.flights(line.now + 200, 20, key=lucky(20))[0] == (40, window)


def test_no_window_is_smaller_than_two() -> None:
    """Three segments, the first is lost and only the timer finds it: ssthresh is max(3 / 2, 2), and
    the window one segment (RFC 5681, section 3.1), which grows by one a round trip: 1, 2, 3."""
    line = after_losing("ns3", "reno", 3, data(0), initial_window=3)
    flights = line.flights(line.now + 200, 6, key=lucky(6))
    assert flights == [(40, 1), (160, 2), (240, 3)]


@pytest.mark.parametrize(
    ("algorithm", "flights"),
    [
        ("reno", [(40, 2), (120, 4), (200, 5), (280, 6), (360, 7)]),
        ("cubic", [(40, 2), (120, 4), (200, 7), (280, 7)]),
    ],
)
def test_a_window_after_a_timeout(algorithm: str, flights: list[tuple[float, int]]) -> None:
    """A single segment, lost twice in Linux: the probe was lost, too. The window is 1, and 2 when
    what was sent again is acknowledged; slow start up to half of ten (RFC 5681, section 3.1) or 0.7
    of it; then one more a round trip, or for CUBIC hardly any."""
    line = after_losing("linux", algorithm, 1, data(0), data(0, 1))
    count = sum(segments for _, segments in flights)
    assert line.flights(line.now + 200, count, key=lucky(count)) == flights


def test_a_second_timeout_leaves_the_threshold_to_linux() -> None:
    """RFC 5681, section 3.1: ssthresh is held when a segment is lost that was sent again already.
    ns-3 does not: it is down to 2 then."""
    for profile, lost, third in (("linux", 3, 5), ("ns3", 2, 3)):
        packets = [data(0, tries) for tries in range(lost)]
        line = after_losing(profile, "reno", 1, *packets)
        flights = line.flights(line.now + 200, 30, key=lucky(30))
        assert flights[2][1] == third


# ------------------------------------------------------------------ congestion avoidance

RARE = 0.0005
"""A loss with which thousands of segments may all arrive."""


def by_round_trip(profile: str, algorithm: str, count: int) -> list[int]:
    """The first of 100 segments is lost; how many of the next ones arrive in each round trip of
    400 ms then."""
    of = {data(k) for k in range(100)} | {data(0, 1)}
    line = Line(
        plain(profile, algorithm, cold=True, initial_window=100),
        mbit_per_s=math.inf,
        loss=RARE,
        way=200.0,
    )
    first = line(0.0, 100 * FULL, key=losing.key(data(0), of=of, loss=RARE))
    assert took(first) == 400 + 3 * 200
    trips = [0] * 100
    for at, segments in line.flights(line.now + 300, count, key=lucky(count, RARE)):
        trips[int((at - 200) // 400)] += segments
    return trips[: trips.index(0) - 1]  # the last one is cut short


@both
def test_reno_grows_by_one_segment_a_round_trip(profile: str) -> None:
    """From half of 100 on (RFC 5681, section 3.1). Delayed acknowledgements blur the count."""
    trips = by_round_trip(profile, "reno", 1900)
    assert len(trips) > 25
    for number, segments in enumerate(trips):
        assert segments == pytest.approx(50 + number, abs=4)


@both
def test_cubic_grows_as_its_formula_says(profile: str) -> None:
    """W(t) = 0.4 (t - K)^3 + 100, K = cbrt((100 - 70) / 0.4) = 4.217 s, and what is to be reached
    is its value one round trip later (RFC 9438, sections 4.2 and 4.4)."""
    trips = by_round_trip(profile, "cubic", 3300)
    k = (30 / 0.4) ** (1 / 3)
    assert len(trips) > 25
    assert trips[0] == pytest.approx(70, abs=1)
    for number, segments in enumerate(trips[1:], 1):
        t = 0.4 * number
        now, then = (0.4 * (at - k) ** 3 + 100 for at in (t, t + 0.4))
        assert now * 0.97 - 1 <= segments <= then * 1.03 + 1, number


# ------------------------------------------------------------------ pauses


def idle(profile: str, round_trips: float, **settings: object) -> int:
    """The window after a pause, in timeouts of 280 ms. It was 80 at its beginning."""
    line = Line(plain(profile, **settings), mbit_per_s=math.inf)
    last = 0.0
    for count in (10, 20, 40):
        line(last, count * FULL)
        last += 100.0
    return line.flights(200.0 + round_trips * 280, 100)[0][1]


@pytest.mark.parametrize(
    ("timeouts", "window"),
    [(0.99, 80), (1.01, 40), (1.99, 40), (2.01, 20), (3.01, 10), (4.01, 10), (1000, 10)],
)
def test_a_window_halves_for_every_timeout_of_a_pause(timeouts: float, window: int) -> None:
    """RFC 2861, down to the initial window (RFC 5681, section 4.1). The round trip is 80 ms and the
    timeout 280."""
    assert idle("linux", timeouts) == window
