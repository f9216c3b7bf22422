"""Which connection a message takes: HTTP/1.1 with its pool, and HTTP/2 with one for all.

On an infinitely fast line, so that connections do not get into each other's way.
"""

import math

import pytest

from mpcsim.sim.network.transport import Connection
from tests.helpers import losing
from tests.helpers.losing import LOSS, data
from tests.sim.network.tcp.lab import FULL, Line, plain, took


def fast(connection: Connection, loss: float = 0.0) -> Line:
    return Line(connection, mbit_per_s=math.inf, loss=loss)


def arrivals(line: Line) -> dict[int, float]:
    line.run()
    return {number: line.done[number].arrived_ms for number in sorted(line.done)}


# ------------------------------------------------------------------ HTTP/1.1


def test_a_pool_of_one_makes_the_second_message_wait() -> None:
    line = fast(plain(pool=1))
    for pair in range(3):
        line.send(0.0, 100, pair=pair)
    assert arrivals(line) == {0: 40, 1: 80, 2: 120}
    assert [line.done[k].queueing_ms for k in range(3)] == [0, 40, 80]


def test_whoever_waits_has_its_turn_in_order() -> None:
    """The size of a message does not matter, nor who sent it."""
    line = fast(plain(pool=1))
    sizes = [20 * FULL, 100, 30 * FULL, 1]
    for pair, size in enumerate(sizes):
        line.send(float(pair), size, pair=pair % 2)
    assert list(arrivals(line)) == list(line.done) == [0, 1, 2, 3]


def test_waiting_may_be_shorter_than_a_handshake_but_is_not_chosen() -> None:
    """With TLS 1.2 a connection is open after 3 x 80 ms."""
    line = fast(plain(cold=True, tls_round_trips=2))
    line(0.0, 100)
    line.send(1000.0, 100, pair=0)
    second = line(1000.0, 100, pair=1)
    assert (second.handshake_ms, took(second)) == (240, 280)


def test_a_pair_stays_with_its_connection() -> None:
    """Pair 0 has widened the window of its connection to 20; pair 1, whose turn is first later, has
    another."""
    line = fast(plain())
    line.send(0.0, 10 * FULL, pair=0)
    line.send(0.0, 100, pair=1)
    narrow = line.send(200.0, 20 * FULL, pair=1)
    wide = line.send(200.0, 20 * FULL, pair=0)
    line.run()
    assert took(line.done[narrow]) == 120
    assert took(line.done[wide]) == 40


def test_answers_have_their_own_way() -> None:
    """A pool of one: there and back do not wait for each other if they are of the same pair."""
    line = fast(plain(pool=1))
    line.send(0.0, 30 * FULL, pair=0)
    line.send(0.0, 100, pair=0, back=True)
    line.send(0.0, 100, pair=1, back=True)
    assert arrivals(line) == {0: 120, 1: 40, 2: 160}


def test_sessions_have_connections_of_their_own() -> None:
    """Each pays for its handshake; and again once it was over."""
    line = fast(plain(cold=True, pool=1))
    for session in (1, 2):
        assert took(line(1000.0 * session, 100, session=session)) == 120
        assert took(line(1000.0 * session + 500, 100, session=session)) == 40
    line.traffic.close_session(1)
    assert took(line(3000.0, 100, session=1)) == 120
    assert took(line(3000.0 + 200, 100, session=2)) == 40


# ------------------------------------------------------------------ exchanges


def test_an_exchange_has_its_connection_until_it_is_over() -> None:
    """A request at 0, its answer at 60; the next request may go when the exchange is given up, at
    150, though nothing was under way since 100."""
    line = fast(plain(pool=1))
    line.send(0.0, 100, pair=0, exclusive=True)
    line.send(10.0, 100, pair=1, exclusive=True)
    line.send(60.0, 100, pair=0, exclusive=True, back=True)
    line.run(150.0)
    assert list(line.done) == [0, 2]
    line.traffic.release(0, 150.0)
    assert arrivals(line) == {0: 40, 1: 190, 2: 100}
    assert line.done[1].queueing_ms == 140


def test_an_exchange_that_is_over_leaves_an_open_connection() -> None:
    line = fast(plain(cold=True, pool=1))
    line(0.0, 100, pair=0, exclusive=True)
    line.traffic.release(0, 200.0)
    line.run(200.0)
    assert took(line(300.0, 100, pair=1, exclusive=True)) == 40


# ------------------------------------------------------------------ HTTP/2


def test_http2_has_one_connection() -> None:
    """It is opened once, and nobody waits for anybody."""
    line = fast(plain(http="2", cold=True, pool=1))
    for pair in range(5):
        line.send(0.0, 100, pair=pair)
    assert set(arrivals(line).values()) == {120}


@pytest.mark.parametrize(("http", "second"), [("1.1", 40), ("2", 120)])
def test_a_lost_segment_holds_up_what_is_behind_it(http: str, second: float) -> None:
    """The first of ten segments is lost, and goes again once three behind it are known to have
    come, at 80. A message that is whole at 40 waits for it, if it is on the same connection."""
    of = {data(k, tries) for k in range(10) for tries in range(3)}
    line = fast(plain(http=http, initial_window=20), LOSS)
    line.send(0.0, 10 * FULL, pair=0, key=losing.key(data(0), of=of))
    line.send(0.0, FULL, pair=1, key=losing.key(of=of))
    assert arrivals(line) == {0: 120, 1: second}
    held = line.done[1]
    assert held.queueing_ms == second - 40
    assert held.recovery_ms == 0


def test_messages_share_a_window() -> None:
    """HTTP/2: ten segments may be under way together, so that the eleventh waits for a round trip;
    with a connection each none does."""
    for http, last in (("1.1", 40), ("2", 120)):
        line = fast(plain(http=http))
        for pair in range(11):
            line.send(0.0, FULL, pair=pair)
        found = arrivals(line)
        if http == "2":
            assert [found[k] for k in range(11)] == [40] * 10 + [last]
        else:
            assert [found[k] for k in range(8)] == [last] * 8  # the pool


def test_an_answer_that_waits_for_a_handshake_with_early_data() -> None:
    """The only connection there may be is being opened from the other end."""
    settings = plain(cold=True, tls_round_trips=1, resumption=True, early_data=True, pool=1)
    line = fast(settings)
    line.send(0.0, 100)
    line.send(0.0, 100, back=True)
    line.run(100_000.0)
    assert sorted(line.done) == [0, 1]
