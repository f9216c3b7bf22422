"""Where the time of a message went: the parts of a transfer add up, whatever the network."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.sim.network.transport import Connection, Draws
from tests.sim.network.tcp.lab import Line, parts, plain, took

ways = st.floats(0, 300)
rates = st.sampled_from([0.05, 1.0, 20.0, 1000.0, math.inf])
losses = st.sampled_from([0.0, 0.0, 0.01, 0.2, 0.5])


@st.composite
def connections(draw: Any, **fixed: Any) -> Connection:
    tls = draw(st.integers(0, 2))
    resumption = draw(st.booleans())
    return Connection(
        cold=draw(st.booleans()),
        tls_round_trips=tls,
        initial_window=draw(st.sampled_from([1, 2, 3, 10, 40])),
        slow_start_after_idle=draw(st.booleans()),
        profile=draw(st.sampled_from(["linux", "ns3"])),
        congestion=draw(st.sampled_from(["cubic", "reno"])),
        pool=draw(st.sampled_from([1, 2, 8])),
        resumption=resumption,
        early_data=tls == 1 and resumption and draw(st.booleans()),
        **fixed,
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
        assert transfer.propagation_ms == draws.forward_ms
        least = draws.forward_ms + size * 8 / (rates[back] * 1000)
        assert took(transfer) >= least - 1e-6


@given(connections(http="1.1"), rates, rates, losses, losses, messages)
def test_any_messages(
    connection: Connection, rate: float, back_rate: float, loss: float, back_loss: float, said: Any
) -> None:
    line = Line(
        connection, mbit_per_s=rate, back_mbit_per_s=back_rate, loss=loss, back_loss=back_loss
    )
    now, sent = 0.0, []
    for pause, size, back, pair, key, latencies in said:
        now += pause
        draws = Draws(*latencies)
        line.send(now, size, back=back, pair=pair, key=key, draws=draws)
        sent.append((size, back, draws))
    check(line, sent, (rate, back_rate))


@given(connections(http="2"), rates, rates, losses, losses, ways, ways, messages)
def test_messages_of_one_connection_arrive_in_order(
    connection: Connection,
    rate: float,
    back_rate: float,
    loss: float,
    back_loss: float,
    way: float,
    back_way: float,
    said: Any,
) -> None:
    line = Line(
        connection,
        mbit_per_s=rate,
        back_mbit_per_s=back_rate,
        loss=loss,
        back_loss=back_loss,
        way=way,
        back_way=back_way,
    )
    now, sent = 0.0, []
    for pause, size, back, pair, key, _ in said:
        now += pause
        line.send(now, size, back=back, pair=pair, key=key)
        sent.append((size, back, line.draws[back]))
    check(line, sent, (rate, back_rate))
    for side in (False, True):
        order = [number for number in line.order if sent[number][1] == side]
        assert order == sorted(order)
