"""When a receiver acknowledges: every second segment, or after a while (RFC 1122, section 4.2.3.2;
RFC 5681, section 4.2).

On an infinitely fast line, where only waiting takes time; a window of 1 makes the wait visible.
"""

import math

import pytest

from tests.helpers import losing
from tests.helpers.losing import LOSS, ack, late_ack, syn_ack
from tests.sim.network.tcp.lab import ACK_MS, FULL, SEGMENT_MS, TICK, Line, plain, took

DELAY = {"linux": 40 + TICK, "ns3": 40.0}
both = pytest.mark.parametrize("profile", ["linux", "ns3"])


def fast(profile: str, window: int, **settings: object) -> Line:
    connection = plain(profile, initial_window=window, **settings)
    return Line(connection, mbit_per_s=math.inf, back_loss=LOSS)


def lucky(segments: int) -> int:
    """A key with which nothing is lost on the way back."""
    acks = {kind(k) for k in range(segments) for kind in (ack, late_ack)}
    return losing.key(of=acks | {syn_ack()})


@both
def test_one_segment_is_acknowledged_after_40_ms(profile: str) -> None:
    """There at 40; acknowledged at 80, which is known at 120; the next is there at 160. Linux's
    timer is late."""
    line = fast(profile, 1)
    assert line.flights(0.0, 2, key=lucky(2)) == [(40, 1), (120 + DELAY[profile], 1)]


@both
def test_two_segments_are_acknowledged_at_once(profile: str) -> None:
    assert fast(profile, 2).flights(0.0, 6, key=lucky(6)) == [(40, 2), (120, 4)]


@both
def test_of_three_segments_two_are_acknowledged_at_once(profile: str) -> None:
    """At 80 the window grows by two to 5, and one segment is still under way: four go. That one is
    acknowledged after 40 ms: the window is 6, and has room for two more."""
    line = fast(profile, 3)
    expected = [(40, 3), (120, 4), (120 + DELAY[profile], 2)]
    assert line.flights(0.0, 9, key=lucky(9)) == expected


@both
def test_an_answer_takes_the_acknowledgement_along(profile: str) -> None:
    """The other end has something to send at 50, which is sooner than 80."""
    line = fast(profile, 1, http="2")
    question = line.send(0.0, 2 * FULL, key=lucky(2))
    line.send(50.0, 100, back=True)
    line.run(number=question)
    assert took(line.done[question]) == 50 + 40 + 40


def test_linux_acknowledges_full_segments_at_once_for_as_long_as_its_window_grows() -> None:
    """Sixteen acknowledgements are quick; each full segment lets the receive window grow, which
    makes one more quick. So the 17th does not wait either, and 2 x 17 go in the next flight."""
    line = fast("linux", 17, cold=True)
    assert line.flights(0.0, 51, key=lucky(51)) == [(120, 17), (200, 34)]


def test_linux_delays_acknowledgements_once_it_answers() -> None:
    """Of the three first segments of a new connection each is acknowledged at once, so that six
    follow; but after an answer they wait for the next one, or for 40 ms."""
    assert fast("linux", 3, cold=True).flights(0.0, 9, key=lucky(9)) == [(120, 3), (200, 6)]
    line = fast("linux", 3, cold=True)
    question = line(0.0, 100, key=lucky(1))
    answer = line(question.arrived_ms, 100, back=True)
    after = line.flights(answer.arrived_ms, 9, key=lucky(9))
    assert after == [(40, 3), (120, 4), (120 + DELAY["linux"], 2)]


# ------------------------------------------------------------------ lost ones


@both
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_acknowledgement_is_made_up_for_by_the_next(profile: str, lost: int) -> None:
    """The eleventh segment leaves once any acknowledgement is there, which come two segments apart
    each."""
    segment = SEGMENT_MS[profile]
    key = losing.key(
        *(ack(2 * k + 1) for k in range(lost)),
        of={kind(k) for k in range(10) for kind in (ack, late_ack)},
    )
    line = Line(plain(profile), back_loss=LOSS)
    expected = 2 * (lost + 1) * segment + 40 + ACK_MS[profile] + 40 + segment + 40
    assert took(line(0.0, 11 * FULL, key=key)) == pytest.approx(expected)


def only_the_first_lost(profile: str) -> Line:
    """The only acknowledgement of a message of one segment is lost."""
    key = losing.key(late_ack(0), of={kind(0, sent) for kind in (ack, late_ack) for sent in (1, 2)})
    line = fast(profile, 10)
    assert took(line(0.0, FULL, key=key)) == 40
    return line


def test_what_linux_sends_again_in_vain_does_not_narrow_its_window() -> None:
    """Its probe is answered with word that the segment was there already (RFC 2883, RFC 8985,
    section 7.4.2)."""
    assert only_the_first_lost("linux").flights(1000.0, 30, key=lucky(30)) == [(40, 10), (120, 20)]


def test_what_ns3_sends_again_in_vain_narrows_its_window() -> None:
    """To one segment, as after any timeout."""
    after = only_the_first_lost("ns3").flights(1000.0, 3, key=lucky(3))
    assert after == [(40, 1), (120 + DELAY["ns3"], 2)]
