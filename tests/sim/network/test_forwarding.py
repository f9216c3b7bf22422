"""Messages that a site in the middle forwards as they arrive: pieces on a connection, and runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import UsageError
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import SEGMENT_BYTES, Burst, Connection, Draws, Pipe
from mpcsim.sim.replay import record
from mpcsim.sim.run.compute import Free
from mpcsim.sim.simulation import Simulation

ROUND_TRIP = Draws(50.0, 50.0)
SEGMENTS_PER_WINDOW = (10, 20, 40)


def through(size, first, second, *, stream, rates=(1000.0, 1000.0), loss=(0.0, 0.0), at_ms=0.0):
    """Both hops of a message: the transfers that are recorded."""
    one, other = Pipe(rates[0], loss[0]), Pipe(rates[1], loss[1])
    bursts: list[Burst] = []
    begun = one.transfer(at_ms, size, first, bursts)
    pieces = bursts if stream else [Burst(begun.arrived_ms, size)]
    for piece in pieces:
        last = other.transfer(piece.at_ms, piece.size, second)
    return begun, last


def parts(transfer):
    return (
        transfer.queueing_ms
        + transfer.handshake_ms
        + transfer.window_ms
        + transfer.transmission_ms
        + transfer.propagation_ms
        + transfer.recovery_ms
    )


def test_a_message_arrives_in_bursts_of_a_window_each():
    bursts: list[Burst] = []
    size = 35 * SEGMENT_BYTES + 7
    transfer = Pipe(1e6).transfer(0.0, size, ROUND_TRIP, bursts)
    assert [burst.size for burst in bursts] == [
        10 * SEGMENT_BYTES,
        20 * SEGMENT_BYTES,
        5 * SEGMENT_BYTES + 7,
    ]
    assert [burst.at_ms for burst in bursts] == pytest.approx([50, 150, 250], abs=0.01)
    assert bursts[-1].at_ms == transfer.arrived_ms


def test_asking_for_the_bursts_changes_nothing():
    assert Pipe(10.0, 0.1).transfer(3.0, 99_999, Draws(9, 8, 0.9)) == Pipe(10.0, 0.1).transfer(
        3.0, 99_999, Draws(9, 8, 0.9), []
    )


def test_a_lost_segment_holds_up_what_may_be_behind_it():
    bursts: list[Burst] = []
    transfer = Pipe(1e6, 0.1).transfer(0.0, 30 * SEGMENT_BYTES, Draws(50, 50, 0.9), bursts)
    assert transfer.recovery_ms > 0
    late = 50 + transfer.recovery_ms
    assert [burst.at_ms for burst in bursts] == pytest.approx([late, 100 + late], abs=0.01)


def test_hops_of_the_same_length_pay_for_the_windows_once():
    size = sum(SEGMENTS_PER_WINDOW) * SEGMENT_BYTES
    stored = through(size, ROUND_TRIP, ROUND_TRIP, stream=False, rates=(1e6, 1e6))[1].arrived_ms
    streamed = through(size, ROUND_TRIP, ROUND_TRIP, stream=True, rates=(1e6, 1e6))[1].arrived_ms
    assert stored == pytest.approx(100 + 2 * 200, abs=0.1)
    assert streamed == pytest.approx(100 + 200, abs=0.1)


@given(st.integers(1, 10 * SEGMENT_BYTES))
def test_what_fits_into_a_window_takes_as_long_as_ever(size):
    assert through(size, ROUND_TRIP, ROUND_TRIP, stream=True) == through(
        size, ROUND_TRIP, ROUND_TRIP, stream=False
    )


@given(
    st.integers(1, 400_000),
    *[st.floats(0.1, 400.0)] * 4,
    st.tuples(*[st.sampled_from([1.0, 10.0, 1000.0])] * 2),
    st.floats(0.0, 0.999),
)
def test_streaming_is_never_later_and_adds_up(size, a, b, c, d, rates, lost):
    first, second = Draws(a, b, lost), Draws(c, d)
    stored = through(size, first, second, stream=False, rates=rates, loss=(0.01, 0.0))
    streamed = through(size, first, second, stream=True, rates=rates, loss=(0.01, 0.0))
    assert streamed[0] == stored[0]
    assert streamed[1].arrived_ms <= stored[1].arrived_ms + 1e-6
    assert streamed[1].given_ms == streamed[0].arrived_ms
    for transfer in streamed:
        assert parts(transfer) == pytest.approx(transfer.arrived_ms - transfer.given_ms)


# ------------------------------------------------------------------ the setting


@pytest.mark.parametrize("wrong", ["streams", "", None, 1])
def test_no_such_forwarding(wrong):
    with pytest.raises(UsageError, match=r"unknown connection forwarding .*store, stream"):
        Network.star().with_connection(forwarding=wrong)


def test_the_near_match_is_named():
    with pytest.raises(UsageError, match="did you mean stream"):
        Connection(forwarding="streaming")


def test_a_network_says_that_it_streams():
    stored = Network.star()
    streamed = stored.with_connection(forwarding="stream")
    for text in (str(streamed), streamed._repr_html_()):
        assert "forwarding as bytes arrive" in text
    for text in (str(stored), stored._repr_html_()):
        assert "forwarding" not in text


# ------------------------------------------------------------------ runs


def sign(network, **options):
    simulation = Simulation(network, seed=4, **{"compute": Free(), **options})
    simulation.generate("secp256k1")
    return simulation.sign(signers=(1, 2))


def test_a_signature_pays_for_the_windows_once():
    network = Network.star(50.0, 50.0, 50.0)
    stored = sign(network)
    streamed = sign(network.with_connection(forwarding="stream"))
    assert stored.elapsed_ms == pytest.approx(600, abs=1)
    assert streamed.elapsed_ms == pytest.approx(500, abs=1)
    assert [m.kind for m in streamed.trace.messages] == [m.kind for m in stored.trace.messages]


def test_the_times_of_a_streamed_message_add_up():
    network = Network.star(50.0, 30.0, 20.0, loss=0.02, service_ms=2.0, mbit_per_s=20.0)
    trace = sign(network.with_connection(forwarding="stream")).trace
    for message in trace.messages:
        first, last = message.hops
        assert first.transfer.given_ms == message.sent_ms
        assert last.transfer.given_ms == first.transfer.arrived_ms + 2.0
        assert last.transfer.arrived_ms == message.received_ms
        for hop in message.hops:
            assert parts(hop.transfer) == pytest.approx(
                hop.transfer.arrived_ms - hop.transfer.given_ms
            )


def test_the_same_seed_gives_the_same_times():
    network = Network.preset("seoul", institution="frankfurt", access="lte")
    streamed = network.with_connection(forwarding="stream")
    times = [sign(streamed).elapsed_ms for _ in range(2)]
    assert times[0] == times[1] < sign(network).elapsed_ms


def test_without_a_site_in_the_middle_there_is_nothing_to_forward():
    mesh = Network.mesh([1, 2, 3], 50.0)
    assert sign(mesh).elapsed_ms == sign(mesh.with_connection(forwarding="stream")).elapsed_ms


@pytest.mark.slow
def test_real_time_agrees():
    network = Network.star(50.0, 50.0, 50.0).with_connection(forwarding="stream")
    assert 499 < sign(network, clock="real", compute=None).elapsed_ms < 600


def test_a_streaming_network_is_not_replayed():
    network = Network.star(50.0, 50.0, 50.0).with_connection(forwarding="stream")
    graph = record(sign(network).trace)
    with pytest.raises(
        UsageError, match="forwarding stream cannot be replayed: run the simulation"
    ):
        graph.replay(network, 10)
