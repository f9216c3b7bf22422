"""Messages that a site in the middle forwards as they arrive: on two connections, and in runs.

On lines of 50 ms each way, acknowledgements come back after 100 ms; a window begins with 10
segments and doubles with each.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.sim import Free, Network, Simulation
from tests.helpers import losing
from tests.sim.network.tcp import lab
from tests.sim.network.tcp.lab import FULL, Line

SEGMENTS_PER_WINDOW = (10, 20, 40)


def parts(transfer):
    return sum(lab.parts(transfer))


def line(mbit_per_s=math.inf, way=50.0, **options):
    return Line(mbit_per_s=mbit_per_s, way=way, **options)


def through(size, one, other, *, stream, key=0):
    """Both hops of a message: the transfers that are recorded."""
    number = one.send(0.0, size, key=key, stream=True)
    one.run(number=number)
    heard = one.heard[number] if stream else one.heard[number][-1:]
    at, there = heard[0]
    second = other.send(at, size, available=there)
    [name] = other._numbers
    for later, total in heard[1:]:
        other.run(later)
        other.traffic.extend(name, later, total - there)
        there = total
    other.run(number=second)
    return one.done[number], other.done[second]


def there(heard):
    """How much of a message is there, by the moments at which more of it comes."""
    return {round(at, 6): size for at, size in heard}


def test_a_message_arrives_in_windows():
    one = line()
    size = 35 * FULL + 7
    number = one.send(0.0, size, stream=True)
    one.run(number=number)
    assert there(one.heard[number]) == {50: 10 * FULL, 150: 30 * FULL, 250: size}
    assert one.done[number].arrived_ms == 250


def test_a_lost_segment_holds_up_what_is_behind_it():
    """The sixth is sent again after 100 ms, for others behind it have come; the five before it are
    there after 50."""
    lost = losing.key(
        losing.data(5),
        of=[p(i, t) for i in range(30) for p, t in ((losing.data, 0), (losing.ack, 1))],
    )
    one = line(loss=losing.LOSS)
    number = one.send(0.0, 30 * FULL, key=lost, stream=True)
    one.run(number=number)
    first, second, *_ = there(one.heard[number]).items()
    assert first == (50, 5 * FULL)
    assert second[0] == 150
    assert second[1] >= 10 * FULL


def test_hops_of_the_same_length_pay_for_the_windows_once():
    """Stored, each of the three windows waits for the one before it on both hops. Streamed, each
    window is at the site in the middle just when the window of the second hop opens."""
    size = sum(SEGMENTS_PER_WINDOW) * FULL
    stored = through(size, line(), line(), stream=False)[1].arrived_ms
    streamed = through(size, line(), line(), stream=True)[1].arrived_ms
    assert stored == 2 * (2 * 100 + 50)
    assert streamed == 2 * 100 + 2 * 50


def test_within_a_window_the_transmissions_overlap():
    """Five segments of 0.12 ms at 100 Mbit/s: the second hop has each when the first has the next;
    so it lags by one segment."""
    stored, streamed = (
        through(5 * FULL, line(100.0), line(100.0), stream=stream)[1].arrived_ms
        for stream in (False, True)
    )
    assert stored == pytest.approx(2 * (5 * 0.12 + 50))
    assert streamed == pytest.approx((5 + 1) * 0.12 + 2 * 50)


@given(
    st.integers(1, 400_000),
    *[st.floats(0.1, 400.0)] * 4,
    st.tuples(*[st.sampled_from([1.0, 10.0, 1000.0])] * 2),
    st.integers(0, 2**64 - 1),
)
def test_streaming_is_never_later_and_adds_up(size, a, b, c, d, rates, key):
    def lines():
        return line(rates[0], a, back_way=b, loss=0.01), line(rates[1], c, back_way=d)

    stored = through(size, *lines(), stream=False, key=key)
    streamed = through(size, *lines(), stream=True, key=key)
    assert streamed[0] == stored[0]
    assert streamed[1].arrived_ms <= stored[1].arrived_ms + 1e-6
    assert streamed[1].given_ms == streamed[0].arrived_ms
    for transfer in streamed:
        assert parts(transfer) == pytest.approx(lab.took(transfer))


# ------------------------------------------------------------------ the setting


# ------------------------------------------------------------------ runs


def sign(network, **options):
    simulation = Simulation(network, seed=4, **{"compute": Free(), **options})
    simulation.generate("secp256k1")
    return simulation.sign(signers=(1, 2))


def test_a_signature_pays_for_the_windows_once():
    """Four messages of 100 ms. The third has 29 segments; when it is sent, the 7 of the second have
    just been acknowledged, and the window is 14, twice what was used of it: 15 segments wait a
    round trip of 100 ms, those of stored messages on both hops."""
    network = Network.star(50.0, 50.0, 50.0)
    stored = sign(network)
    streamed = sign(network.with_connection(forwarding="stream"))
    assert stored.elapsed_ms == pytest.approx(600, abs=1)
    assert streamed.elapsed_ms == pytest.approx(500, abs=1)
    assert [m.kind for m in streamed.trace.messages] == [m.kind for m in stored.trace.messages]
