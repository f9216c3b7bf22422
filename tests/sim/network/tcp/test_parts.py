"""Where the time of a message went: the parts of a transfer add up, whatever the network."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.sim.network.transport import Connection, Draws
from tests.sim.network.tcp.lab import FULL, Line, parts, plain, took

ways = st.floats(0, 300)
rates = st.sampled_from([0.05, 1.0, 20.0, 1000.0, math.inf])
losses = st.sampled_from([0.0, 0.0, 0.01, 0.2, 0.5])


@st.composite
def connections(draw: Any) -> Connection:
    tls = draw(st.integers(0, 2))
    resumption = draw(st.booleans())
    early_data = tls == 1 and resumption and draw(st.booleans())
    return Connection(
        cold=draw(st.booleans()),
        tls_round_trips=tls,
        initial_window=draw(st.sampled_from([1, 2, 3, 10, 40])),
        slow_start_after_idle=draw(st.booleans()),
        profile=draw(st.sampled_from(["linux", "ns3"])),
        congestion=draw(st.sampled_from(["cubic", "reno"])),
        pool=8 if early_data else draw(st.sampled_from([1, 2, 8])),
        resumption=resumption,
        early_data=early_data,
    )


messages = st.lists(
    st.tuples(
        st.floats(0, 500),  # after the one before
        st.integers(1, 60_000),
        st.booleans(),
        st.integers(0, 2),
        st.integers(0, 2**64 - 1),
        st.tuples(ways, ways),
    ),
    min_size=1,
    max_size=8,
)


def check(line: Line, sent: list[Any], rates: tuple[float, float]) -> None:
    line.run()
    assert sorted(line.done) == list(range(len(sent)))
    for number, (size, back, draws) in enumerate(sent):
        transfer = line.done[number]
        assert min(parts(transfer)) >= -1e-6, transfer
        assert sum(parts(transfer)) == pytest.approx(took(transfer), rel=1e-9, abs=1e-6)
        if number in line.failed:
            continue
        assert transfer.propagation_ms == draws.forward_ms
        least = draws.forward_ms + size * 8 / (rates[back] * 1000)
        assert took(transfer) >= least - 1e-6


@pytest.mark.parametrize("http", ["1.1", "2"])
@given(connections(), rates, rates, losses, losses, ways, ways, messages)
def test_any_messages(
    http: str,
    connection: Connection,
    rate: float,
    back_rate: float,
    loss: float,
    back_loss: float,
    way: float,
    back_way: float,
    said: Any,
) -> None:
    """Those of one connection, as HTTP/2 has it, arrive in order."""
    line = Line(
        replace(connection, http=http),
        mbit_per_s=rate,
        back_mbit_per_s=back_rate,
        loss=loss,
        back_loss=back_loss,
        way=way,
        back_way=back_way,
    )
    now, sent = 0.0, []
    for pause, size, back, pair, key, latencies in said:
        now += pause
        draws = Draws(*latencies) if http == "1.1" else line.draws[back]
        line.send(now, size, back=back, pair=pair, key=key, draws=draws)
        sent.append((size, back, draws))
    check(line, sent, (rate, back_rate))
    for side in (False, True):
        order = [number for number in line.done if sent[number][1] == side]
        assert http == "1.1" or order == sorted(order)


# ------------------------------------------------------------------ what was wrong


def test_a_message_that_begins_in_the_segment_of_another() -> None:
    """The end of a message that takes 10 ms and one that takes 100 leave in one segment."""
    line = Line(plain(http="2", initial_window=1), mbit_per_s=math.inf)
    line.send(0.0, 2 * FULL - 100, draws=Draws(10.0, 10.0))
    second = line(0.0, 50, draws=Draws(100.0, 10.0))
    assert min(parts(second)) >= 0
    assert took(second) >= 100


def test_a_message_behind_the_last_flight_of_a_handshake() -> None:
    """They share a segment, whose time is not that of a wait for acknowledgements."""
    settings = plain(cold=True, tls_round_trips=1)
    transfer = Line(settings, mbit_per_s=5.0)(0.0, FULL)
    assert transfer.transmission_ms >= FULL * 8 / 5000
    assert transfer.window_ms == pytest.approx(0, abs=0.3)


@pytest.mark.parametrize("cold", [False, True])
def test_an_empty_message(cold: bool) -> None:
    """It is a segment of headers only, which arrives after its way, and after the handshake."""
    line = Line(plain(cold=cold), mbit_per_s=math.inf)
    line.send(0.0, 0)
    line.run(10_000.0)
    assert [took(transfer) for transfer in line.done.values()] == [120 if cold else 40]
