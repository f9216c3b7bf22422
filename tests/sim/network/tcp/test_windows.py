"""Slow start (RFC 5681, section 3.1; RFC 6928): what may leave before acknowledgements are back."""

import math

import pytest

from mpcsim.sim.network.transport import Draws
from tests.sim.network.tcp.lab import ACK_MS, FULL, SEGMENT_MS, Line, parts, plain, took

both = pytest.mark.parametrize("profile", ["linux", "ns3"])


# ------------------------------------------------------------------ one message


@both
def test_the_eleventh_segment_waits_for_the_first_acknowledgement(profile: str) -> None:
    """Every second segment is acknowledged. The second has left at 0.24, its acknowledgement is
    there at 0.24 + 40 + 0.00416 + 40 = 80.24416; the eleventh leaves by 80.36416 and arrives at
    120.36416. It has waited since 1.2."""
    segment, ack = SEGMENT_MS[profile], ACK_MS[profile]
    opens = 2 * segment + 40 + ack + 40
    transfer = Line(plain(profile))(0.0, 11 * FULL)
    assert took(transfer) == pytest.approx(opens + segment + 40)
    assert transfer.window_ms == pytest.approx(opens - 10 * segment)
    assert transfer.transmission_ms == pytest.approx(11 * segment)
    assert sum(parts(transfer)) == pytest.approx(took(transfer))


@both
def test_the_window_has_a_limit(profile: str) -> None:
    """511 segments under way, 740 kB."""
    assert 511 * FULL == 739_928
    line = Line(plain(profile), mbit_per_s=math.inf)
    flights = line.flights(0.0, 3000)
    assert [count for _, count in flights[:7]] == [10, 20, 40, 80, 160, 320, 511]
    assert flights[6][0] == 6 * 80 + 40
    assert max(count for _, count in flights) == 511


# ------------------------------------------------------------------ several messages


def test_the_window_has_grown_when_the_acknowledgements_are_back() -> None:
    """Ten segments acknowledged: the window is 20 by 100 ms, so that 20 segments leave at once; and
    40 at 200 ms."""
    line = Line()
    line(0.0, 10 * FULL)
    for now, count in ((100.0, 20), (200.0, 40)):
        transfer = line(now, count * FULL)
        assert took(transfer) == pytest.approx(count * 0.12 + 40)
        assert transfer.window_ms == 0


@pytest.mark.parametrize(
    ("profile", "used", "window"),
    [("linux", 4, 10), ("linux", 6, 12), ("linux", 8, 16), ("ns3", 4, 14), ("ns3", 8, 18)],
)
def test_whether_a_window_grows_that_was_not_used(profile: str, used: int, window: int) -> None:
    """Every acknowledged segment widens ns-3's window by one; Linux's only as far as to twice what
    was under way (RFC 7661 says why)."""
    line = Line(plain(profile), mbit_per_s=math.inf)
    line(0.0, used * FULL)
    assert line.flights(100.0, 30)[0] == (40, window)


def test_one_message_behind_another() -> None:
    """The line is busy for 5 x 0.12 = 0.6 ms; the second message waits and follows."""
    line = Line(plain(http="2"))
    line.send(0.0, 5 * FULL)
    second = line(0.1, FULL)
    assert second.arrived_ms == pytest.approx(0.6 + 0.12 + 40)
    assert parts(second) == pytest.approx((0.5, 0, 0, 0.12, 40, 0))


def test_messages_of_a_connection_arrive_in_order() -> None:
    """The second has a faster way, and waits at the end for the first."""
    line = Line(plain(http="2"))
    first = line.send(0.0, 448)
    second = line(1.0, 448, draws=Draws(10.0, 40.0))
    assert second.arrived_ms == line.done[first].arrived_ms == pytest.approx(40.04)
    assert second.queueing_ms == pytest.approx(40.04 - (1 + 0.04 + 10))
    assert sum(parts(second)) == pytest.approx(took(second))
