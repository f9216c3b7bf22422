"""How a lost segment is found and sent again: by what came after it, by a probe, or by a timer."""

import math

import pytest

from tests.helpers import losing
from tests.helpers.losing import LOSS, data
from tests.sim.network.tcp.lab import LONG_TICK, SACK_MS, SEGMENT_MS, TICK, Line, parts, plain, took

both = pytest.mark.parametrize("profile", ["linux", "ns3"])


def after_losing(profile: str, segments: int, *lost: losing.GraphMessage, **line: object) -> Line:
    """A connection whose first message has arrived, of which exactly these packets were lost."""
    cold = bool(line.pop("cold", False))
    made = Line(plain(profile, cold=cold), loss=LOSS, **line)  # type: ignore[arg-type]
    made.lose(0.0, segments, *lost)
    return made


def time(*how: object, **line: object) -> float:
    """How long the first message took."""
    return took(after_losing(*how, **line).done[0])  # type: ignore[arg-type]


# ------------------------------------------------------------------ found by what came after it


@both
def test_three_segments_behind_it_show_that_one_is_lost(profile: str) -> None:
    """The third of ten. The sixth, the third one behind it, has left at 0.72 and is there 40 ms
    later; an acknowledgement with 8 bytes more, 0.0048 ms, says so, the third one that does; then
    the segment goes again. (Three duplicates, RFC 6675, section 5; RFC 8985, section 6.2.)"""
    transfer = after_losing(profile, 10, data(2)).done[0]
    segment = SEGMENT_MS[profile]
    expected = 6 * segment + 40 + SACK_MS[profile] + 40 + segment + 40
    assert took(transfer) == pytest.approx(expected)
    assert parts(transfer) == pytest.approx(
        (0, 0, 0, 10 * segment, 40, expected - 10 * segment - 40)
    )


@both
def test_two_lost_segments(profile: str) -> None:
    """The first two of ten: what shows that one is lost shows it of both. ns-3 sends one of them
    when it knows, and Linux too: the window is narrower now. The second goes with the next
    acknowledgement, 0.12 ms later, and is right behind the first; but Linux puts off
    acknowledgements from the fourth on, by 1 ms and a slack of 0.1."""
    segment = SEGMENT_MS[profile]
    expected = 5 * segment + 40 + SACK_MS[profile] + 40 + 2 * segment + 40
    expected += 1.1 if profile == "linux" else 0
    assert time(profile, 10, data(0), data(1)) == pytest.approx(expected)


def test_ns3_sends_again_what_may_be_lost_when_nothing_else_is_left() -> None:
    """The first and the last of ten: of the last nothing says that it is lost. It follows the first
    at 80, when the window has room and there are no new data (RFC 6675, section 4, NextSeg, rule
    3); otherwise the acknowledgement of the first, at 160, would be waited for."""
    assert time("ns3", 10, data(0), data(9), mbit_per_s=math.inf) == 80 + 40


def test_linux_waits_a_quarter_round_trip_for_two_segments_behind() -> None:
    """The eighth of ten: the two behind it may just be out of order (RFC 8985, section 6.2). They
    are known to have come at 80, and 80 / 4 = 20 ms later the eighth is taken for lost. The timer
    adds 2 ms and counts ticks of 4: 24."""
    assert time("linux", 10, data(7), mbit_per_s=math.inf) == 80 + 24 + TICK + 40


# ------------------------------------------------------------------ found by a probe


def test_linux_probes_for_a_lost_tail() -> None:
    """The last two of ten (RFC 8985, section 7). The first eight are acknowledged at 80: after two
    round trips and 2 ms of silence, 164 ms in whole ticks, the last segment goes again, late by
    half a tick.
    From then on the timer runs anew (section 7.3). The probe is acknowledged 80 ms later, which
    shows that the segment before it is lost."""
    probe = 80 + 164 + TICK
    assert time("linux", 10, data(8), data(9), mbit_per_s=math.inf) == probe + 80 + 40


def test_linux_probes_later_for_a_single_segment() -> None:
    """The last of ten, on a new connection, where the nine are acknowledged at once, at 160. Its
    acknowledgement may only be delayed, so that the probe waits for 200 ms more: 2 x 80 + 200, but
    not longer than the timeout, 80 + 200 (section 7.2)."""
    at = time("linux", 10, data(9), mbit_per_s=math.inf, cold=True)
    assert at == 80 + 80 + 280 + LONG_TICK + 40


# ------------------------------------------------------------------ found by the timer


@pytest.mark.parametrize(("count", "waits"), [(1, (280,)), (2, (280, 280)), (3, (280, 280, 560))])
def test_the_timer_of_linux_doubles(count: int, waits: tuple[float, ...]) -> None:
    """The timeout is the round trip and at least 200 ms. The first time it is a probe's, and the
    timer proper begins after it."""
    lost = [data(0, tries) for tries in range(count)]
    transfer = after_losing("linux", 1, *lost).done[0]
    late = count * LONG_TICK
    assert took(transfer) == pytest.approx(sum(waits) + late + 0.12 + 40)
    assert transfer.recovery_ms == pytest.approx(sum(waits) + late)


@both
def test_a_segment_that_is_lost_again(profile: str) -> None:
    """The first of ten, then its retransmission, which left at 80. Nothing comes after that, so the
    timer finds it: ns-3's has been running from the beginning, 80 + 4 x 40 ms. Linux's begins anew
    with the last acknowledgement, of segments sent before the retransmission, which were put
    together and came at 81.1; a round trip a bit above 80, and 200 ms, are 284 in whole ticks."""
    expected = {"ns3": 240 + 40, "linux": 81.1 + 284 + LONG_TICK + 40}[profile]
    lost = data(0), data(0, 1)
    assert time(profile, 10, *lost, mbit_per_s=math.inf) == pytest.approx(expected)
