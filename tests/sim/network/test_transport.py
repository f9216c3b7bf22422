"""The transport against closed forms with the arithmetic written out, and loss against dice.

Throughout: a full segment is 1448 bytes of payload and 52 of headers, 1500 in all; at 100 Mbit/s
that is 12 000 bit / (100 000 bit/ms) = 0.12 ms. One way takes 40 ms, there and back 80 ms.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import UsageError
from mpcsim.sim.network.latency import Constant
from mpcsim.sim.network.topology import Link, Network, Site
from mpcsim.sim.network.transport import (
    MAX_LOSS_LEVEL,
    MAX_WINDOW,
    SEGMENT_BYTES,
    Connection,
    Draws,
    Pipe,
    Transfer,
    loss_distribution,
    recovery_ms,
    rto_ms,
    segments,
    wire_ms,
)
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.trace import Trace
from tests.helpers.toy import toy_parties

SEGMENT_MS = 0.12
HALF = Draws(40.0, 40.0)
"""40 ms each way."""


def warm(mbit_per_s: float = 100.0, loss: float = 0.0) -> Pipe:
    return Pipe(mbit_per_s, loss)


def took(transfer: Transfer) -> float:
    return transfer.arrived_ms - transfer.given_ms


def adds_up(transfer: Transfer) -> bool:
    parts = (
        transfer.queueing_ms,
        transfer.handshake_ms,
        transfer.window_ms,
        transfer.transmission_ms,
        transfer.propagation_ms,
        transfer.recovery_ms,
    )
    return min(parts) >= 0 and math.isclose(sum(parts), took(transfer), rel_tol=1e-9, abs_tol=1e-6)


# ------------------------------------------------------------------ one message


def test_pieces() -> None:
    assert [segments(size) for size in (0, 1, 1448, 1449, 14480, 14481)] == [1, 1, 1, 2, 10, 11]
    assert wire_ms(1448, 1, 100) == pytest.approx(SEGMENT_MS)
    assert wire_ms(948, 1, 100) == pytest.approx(1000 * 8 / 100_000)
    assert rto_ms(80) == 280


def test_one_segment() -> None:
    """448 bytes are 500 with headers: 4000 bit, 0.04 ms at 100 Mbit/s; then 40 ms of way."""
    transfer = warm().transfer(5.0, 448, HALF)
    assert transfer.arrived_ms == pytest.approx(5 + 0.04 + 40)
    assert transfer.window_ms == transfer.handshake_ms == transfer.queueing_ms == 0
    assert adds_up(transfer)


def test_ten_segments_leave_at_once() -> None:
    """10 x 0.12 ms, then 40 ms."""
    transfer = warm().transfer(0.0, 10 * SEGMENT_BYTES, HALF)
    assert took(transfer) == pytest.approx(1.2 + 40)
    assert transfer.window_ms == 0


def test_the_eleventh_segment_waits_for_the_first_acknowledgement() -> None:
    """The first segment has left at 0.12 and is acknowledged at 80.12; the eleventh leaves by
    80.24 and arrives at 120.24."""
    transfer = warm().transfer(0.0, 11 * SEGMENT_BYTES, HALF)
    assert took(transfer) == pytest.approx(0.12 + 80 + 0.12 + 40)
    assert transfer.window_ms == pytest.approx(80.12 - 1.2)
    assert transfer.transmission_ms == pytest.approx(11 * 0.12)
    assert adds_up(transfer)


FIFTY_KB_WARM = 160.24 + 0.5456 + 40
"""50 000 bytes are 35 segments, the last of 768 bytes; windows of 10, 20 and 40.

The second window opens at 0.12 + 80 = 80.12, the third 80.12 ms later. It takes the last 5
segments, 50 000 - 30 x 1448 = 6560 bytes, with headers 6820: 0.5456 ms. Then 40 ms.
"""


def test_50_kb_on_a_warm_connection() -> None:
    transfer = warm().transfer(0.0, 50_000, HALF)
    assert took(transfer) == pytest.approx(FIFTY_KB_WARM)
    assert transfer.transmission_ms == pytest.approx((50_000 + 35 * 52) * 8 / 100_000)
    assert adds_up(transfer)


@pytest.mark.parametrize(("tls", "round_trips"), [(0, 1), (1, 2), (2, 3)])
def test_50_kb_on_a_cold_connection(tls: int, round_trips: int) -> None:
    """One round trip for TCP, 0 without TLS, 1 for TLS 1.3, 2 for TLS 1.2; then as above."""
    connection = Connection(cold=True, tls_round_trips=tls)
    assert connection.handshake_round_trips == round_trips
    pipe = Pipe(100.0, handshake_round_trips=round_trips)
    transfer = pipe.transfer(0.0, 50_000, HALF)
    assert transfer.handshake_ms == round_trips * 80
    assert took(transfer) == pytest.approx(round_trips * 80 + FIFTY_KB_WARM)
    assert pipe.transfer(transfer.arrived_ms, 100, HALF).handshake_ms == 0


def test_a_slow_line_never_waits_for_acknowledgements() -> None:
    """At 1 Mbit/s a segment takes 12 ms and ten take 120: the first acknowledgement, after
    12 + 80 = 92 ms, comes before they are out. So 35 segments leave one behind the other."""
    transfer = warm(mbit_per_s=1.0).transfer(0.0, 50_000, HALF)
    assert transfer.window_ms == 0
    assert took(transfer) == pytest.approx((50_000 + 35 * 52) * 8 / 1000 + 40)


def test_an_infinitely_fast_line() -> None:
    """Two round trips for windows of 10, 20 and the rest."""
    transfer = warm(mbit_per_s=math.inf).transfer(0.0, 50_000, HALF)
    assert took(transfer) == 2 * 80 + 40


def test_the_window_has_a_limit() -> None:
    pipe = warm(mbit_per_s=math.inf)
    pipe.transfer(0.0, 100_000_000, HALF)
    assert pipe.window == MAX_WINDOW


def test_there_and_back_may_differ() -> None:
    """30 ms there and 10 back make a round trip of 40: the eleventh segment leaves at 40.12."""
    transfer = warm().transfer(0.0, 11 * SEGMENT_BYTES, Draws(30.0, 10.0))
    assert took(transfer) == pytest.approx(0.12 + 40 + 0.12 + 30)


# ------------------------------------------------------------------ several messages


def test_one_message_behind_another() -> None:
    """The line is busy for 5 x 0.12 = 0.6 ms; the second message waits and follows."""
    pipe = warm()
    pipe.transfer(0.0, 5 * SEGMENT_BYTES, HALF)
    second = pipe.transfer(0.1, SEGMENT_BYTES, HALF)
    assert second.queueing_ms == pytest.approx(0.5)
    assert second.arrived_ms == pytest.approx(0.6 + 0.12 + 40)
    assert adds_up(second)


def test_the_window_goes_on_for_the_next_message() -> None:
    """6 + 6 segments: two of the second message find the window of 10 full, and wait until
    80.12, when the first acknowledgement is back."""
    pipe = warm()
    pipe.transfer(0.0, 6 * SEGMENT_BYTES, HALF)
    second = pipe.transfer(1.0, 6 * SEGMENT_BYTES, HALF)
    assert second.window_ms == pytest.approx(80.12 - (1 + 4 * 0.12))
    assert second.arrived_ms == pytest.approx(80.12 + 2 * 0.12 + 40)
    assert adds_up(second)


def test_the_window_has_grown_when_the_acknowledgements_are_back() -> None:
    """Ten segments acknowledged: the window is 20 from 80.12 on, so that 20 segments leave at
    once at 100 ms; and 30 after one more round trip wait for nothing at 200 ms."""
    pipe = warm()
    pipe.transfer(0.0, 10 * SEGMENT_BYTES, HALF)
    second = pipe.transfer(100.0, 20 * SEGMENT_BYTES, HALF)
    assert took(second) == pytest.approx(20 * 0.12 + 40)
    third = pipe.transfer(200.0, 40 * SEGMENT_BYTES, HALF)
    assert took(third) == pytest.approx(40 * 0.12 + 40)


def test_a_window_grows_by_what_was_used_only() -> None:
    """4 segments acknowledged: 10 + 4."""
    pipe = warm()
    pipe.transfer(0.0, 4 * SEGMENT_BYTES, HALF)
    assert pipe.transfer(100.0, 14 * SEGMENT_BYTES, HALF).window_ms == 0
    assert (pipe.window, pipe.used) == (14, 14)


@pytest.mark.parametrize(("idle_ms", "window"), [(279.9, 20), (280.1, 10)])
def test_an_idle_connection_starts_again(idle_ms: float, window: int) -> None:
    """After the retransmission timeout, 80 + 200 ms, since the last byte left."""
    pipe = warm()
    pipe.transfer(0.0, 10 * SEGMENT_BYTES, HALF)
    pipe.transfer(1.2 + idle_ms, 100, HALF)
    assert pipe.window == window


def test_a_window_may_be_kept_while_idle() -> None:
    """Ten segments acknowledged: 20 leave at once, even after an hour."""
    pipe = Connection(slow_start_after_idle=False).pipe(100.0, 0.0)
    pipe.transfer(0.0, 10 * SEGMENT_BYTES, HALF)
    later = pipe.transfer(3_600_000.0, 20 * SEGMENT_BYTES, HALF)
    assert took(later) == pytest.approx(20 * 0.12 + 40)


def test_a_wider_window_to_begin_with() -> None:
    """40 segments leave at once, the 41st when the first is acknowledged; and again after an hour
    of silence."""
    pipe = Connection(initial_window=40).pipe(100.0, 0.0)
    for now in (0.0, 3_600_000.0):
        transfer = pipe.transfer(now, 41 * SEGMENT_BYTES, HALF)
        assert took(transfer) == pytest.approx(0.12 + 80 + 0.12 + 40)


@pytest.mark.parametrize(("cold", "round_trips"), [(False, 0), (True, 3)])
def test_the_first_message_pays_for_a_cold_connection(cold: bool, round_trips: int) -> None:
    pipe = Connection(cold, tls_round_trips=2).pipe(100.0, 0.0)
    assert pipe.transfer(0.0, 448, HALF).handshake_ms == round_trips * 80
    assert pipe.transfer(1000.0, 448, HALF).handshake_ms == 0


def test_messages_arrive_in_order() -> None:
    """The second has a faster way, and waits at the end for the first."""
    pipe = warm()
    first = pipe.transfer(0.0, 448, Draws(40.0, 40.0))
    second = pipe.transfer(1.0, 448, Draws(10.0, 40.0))
    assert second.arrived_ms == first.arrived_ms
    assert second.queueing_ms == pytest.approx(40.04 - (1 + 0.04 + 10))
    assert adds_up(second)


def test_a_lost_message_holds_up_the_next() -> None:
    """Alone in the flow: no segment behind it, so the timeout, 280 ms, finds the loss."""
    pipe = warm(loss=0.01)
    first = pipe.transfer(0.0, 448, Draws(40.0, 40.0, loss=0.995))
    assert first.recovery_ms == 280
    second = pipe.transfer(1.0, 448, Draws(40.0, 40.0, loss=0.5))
    assert second.recovery_ms == 0
    assert second.arrived_ms == first.arrived_ms == pytest.approx(0.04 + 40 + 280)


# ------------------------------------------------------------------ through the engine


def blob_trace(network: Network, size: int = 50_000) -> Trace:
    """A question whose envelope and transport overhead are ``size`` bytes together."""
    overhead = network.connection.overhead_bytes
    trace = VirtualRun(toy_parties(size - overhead), network).run()
    assert trace.messages[0].size + overhead == size
    return trace


def direct(cold: bool) -> Network:
    sites = {name: Site(name) for name in ("a", "b")}
    links = (Link("a", "b", Constant(40.0), 100.0),)
    return Network(sites, links, {1: "a", 2: "b"}, Connection(cold=cold))


def two_hops(cold: bool, service_ms: float = 3.0) -> Network:
    sites = {
        "a": Site("a"),
        "gateway": Site("gateway", service_ms=service_ms),
        "b": Site("b"),
    }
    links = (
        Link("a", "gateway", Constant(40.0), 100.0),
        Link("b", "gateway", Constant(40.0), 100.0),
    )
    return Network(sites, links, {1: "a", 2: "b"}, Connection(cold=cold))


@pytest.mark.parametrize(("cold", "handshake"), [(False, 0.0), (True, 160.0)])
def test_50_kb_over_one_hop(cold: bool, handshake: float) -> None:
    question = blob_trace(direct(cold)).messages[0]
    assert len(question.hops) == 1
    assert question.received_ms == pytest.approx(handshake + FIFTY_KB_WARM)


@pytest.mark.parametrize(("cold", "handshake"), [(False, 0.0), (True, 160.0)])
def test_50_kb_through_the_gateway(cold: bool, handshake: float) -> None:
    """Stored whole, 3 ms of service, then the same again on a connection of its own."""
    question = blob_trace(two_hops(cold)).messages[0]
    once = handshake + FIFTY_KB_WARM
    assert [hop.service_ms for hop in question.hops] == [3.0, 0.0]
    assert [str(hop.target) for hop in question.hops] == ["gateway", "b"]
    assert question.hops[1].transfer.given_ms == pytest.approx(once + 3)
    assert question.received_ms == pytest.approx(once + 3 + once)


def test_the_answer_has_a_connection_of_its_own() -> None:
    """Cold both ways: 100 bytes and 300 of overhead are 452 with headers: 0.03616 ms."""
    trace = blob_trace(direct(cold=True))
    question, answer = trace.messages
    assert answer.sent_ms == question.received_ms
    assert answer.received_ms == pytest.approx(answer.sent_ms + 160 + 0.03616 + 40)
    assert trace.finished_ms == answer.received_ms


def test_one_site_needs_no_transport() -> None:
    network = Network({"a": Site("a")}, (), {1: "a", 2: "a"})
    trace = blob_trace(network)
    assert trace.finished_ms == 0
    assert all(message.hops == () for message in trace.messages)


# ------------------------------------------------------------------ loss

COUNTS = (1, 2, 3, 4, 10, 35)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("loss", [0.0, 1e-4, 0.01, 0.2, 0.9])
def test_the_loss_distribution_is_one(count: int, loss: float) -> None:
    cumulative = loss_distribution(count, loss)
    assert len(cumulative) == MAX_LOSS_LEVEL
    assert list(cumulative) == sorted(cumulative)
    assert cumulative[-1] == 1
    assert cumulative[0] == pytest.approx((1 - loss) ** count)


@given(count=st.integers(1, 100), loss=st.floats(0, 0.5))
def test_more_segments_lose_more(count: int, loss: float) -> None:
    few, many = loss_distribution(count, loss), loss_distribution(count + 1, loss)
    assert all(a >= b - 1e-12 for a, b in zip(few, many, strict=True))


def test_levels_are_in_order_of_their_time() -> None:
    """0; 80; 280; 280 + 80; 280 + 560; ..."""
    times = [recovery_ms(level, 80.0) for level in range(MAX_LOSS_LEVEL)]
    assert times[:5] == [0, 80, 280, 360, 840]
    assert times == sorted(times)


def dice(count: int, loss: float, rtt: float, trials: int) -> np.ndarray:
    """Recovery times of messages whose segments are lost one by one, attempt by attempt."""
    generator = np.random.default_rng([count, int(loss * 1000)])
    losses = generator.geometric(1 - loss, (trials, count)) - 1
    rto = rtt + 200.0
    # the n-th timeout is twice as long as the one before
    by_timeout = (2.0**losses - 1) * rto
    # the first loss is found by duplicate acknowledgements after one round trip
    fast = np.where(losses > 0, rtt + (2.0 ** np.maximum(losses - 1, 0) - 1) * rto, 0.0)
    has_three_behind = np.arange(count) < count - 3
    return np.where(has_three_behind, fast, by_timeout).max(axis=1)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("loss", [0.01, 0.2])
def test_the_loss_distribution_is_that_of_independent_segments(count: int, loss: float) -> None:
    trials = 100_000
    found = dice(count, loss, 80.0, trials)
    cumulative = (0.0, *loss_distribution(count, loss))
    for level in range(8):
        p = cumulative[level + 1] - cumulative[level]
        seen = np.isclose(found, recovery_ms(level, 80.0)).mean()
        assert abs(seen - p) <= 5 * math.sqrt(p * (1 - p) / trials) + 1e-5, level


def expected_recovery(count: int, loss: float, rtt: float) -> float:
    cumulative = (0.0, *loss_distribution(count, loss))
    return sum(
        (cumulative[level + 1] - cumulative[level]) * recovery_ms(level, rtt)
        for level in range(MAX_LOSS_LEVEL)
    )


@pytest.mark.parametrize("loss", [1e-4, 0.01, 0.05])
def test_the_mean_recovery_of_one_segment(loss: float) -> None:
    """k losses, of probability (1 - p) p^k, cost (2^k - 1) RTO; the sum over k is
    (1 - p) / (1 - 2p) - 1 = p / (1 - 2p) times RTO."""
    assert expected_recovery(1, loss, 80.0) == pytest.approx(280 * loss / (1 - 2 * loss), rel=1e-6)


@pytest.mark.parametrize("count", COUNTS)
def test_the_mean_recovery_of_a_pipe(count: int) -> None:
    """Uniform draws through a pipe give the mean of the distribution."""
    trials, loss, total = 20_000, 0.05, 0.0
    pipe = warm(loss=loss)
    for n in range(trials):
        drawn = Draws(40.0, 40.0, (n + 0.5) / trials)
        total += pipe.transfer(n * 1e4, count * SEGMENT_BYTES, drawn).recovery_ms
    assert total / trials == pytest.approx(expected_recovery(count, loss, 80.0), rel=0.01)


def test_without_a_draw_nothing_is_lost() -> None:
    assert warm(loss=0.5).transfer(0.0, 100, HALF).recovery_ms == 0


# ------------------------------------------------------------------ anything

times = st.floats(0, 300)


@given(
    rate=st.floats(0.1, 10_000),
    loss=st.sampled_from([0.0, 0.01, 0.5]),
    handshake=st.integers(0, 3),
    messages=st.lists(
        st.tuples(times, st.integers(0, 200_000), times, times, st.floats(0, 1, exclude_max=True)),
        min_size=1,
        max_size=12,
    ),
)
def test_parts_add_up_and_time_does_not_run_back(rate, loss, handshake, messages) -> None:
    pipe = Pipe(rate, loss, handshake)
    now = arrived = 0.0
    for pause, size, forward, backward, uniform in messages:
        now += pause
        transfer = pipe.transfer(now, size, Draws(forward, backward, uniform))
        assert transfer.given_ms == now
        assert adds_up(transfer)
        least = wire_ms(size, segments(size), rate) + forward
        assert took(transfer) >= least - 1e-6 * (1 + least)
        assert transfer.arrived_ms >= arrived
        assert pipe.used <= pipe.window <= MAX_WINDOW
        arrived = transfer.arrived_ms


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tls_round_trips": 3}, "tls_round_trips"),
        ({"tls_round_trips": -1}, "tls_round_trips"),
        ({"overhead_bytes": -1}, "overhead_bytes"),
        ({"overhead_bytes": math.nan}, "overhead_bytes"),
        ({"overhead_bytes": 1.5}, "overhead_bytes"),
        ({"initial_window": 0}, "initial_window"),
        ({"initial_window": 2.5}, "initial_window"),
        ({"initial_window": MAX_WINDOW + 1}, "initial_window"),
    ],
)
def test_bad_connections(changes: dict, field: str) -> None:
    with pytest.raises(UsageError, match=field):
        Connection(**changes)
