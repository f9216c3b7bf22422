"""Traffic that is simulated ahead and taken back is as if nobody had looked."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mpcsim.sim.network.transport import Connection, Transfer
from tests.sim.network.tcp.lab import Line

settings = st.builds(
    Connection,
    cold=st.booleans(),
    tls_round_trips=st.integers(0, 2),
    initial_window=st.sampled_from([1, 10]),
    profile=st.sampled_from(["linux", "ns3"]),
    congestion=st.sampled_from(["cubic", "reno"]),
    http=st.sampled_from(["1.1", "2"]),
    pool=st.sampled_from([1, 2, 8]),
)
steps = st.lists(
    st.tuples(
        st.floats(0, 400),  # after the one before
        st.integers(1, 40_000),
        st.booleans(),
        st.integers(0, 2),  # pair
        st.integers(1, 2**63),
        st.floats(0, 2000) | st.just(math.inf),  # how far ahead to look
        st.booleans(),  # whether the pair gives its connection up first
    ),
    min_size=1,
    max_size=8,
)


def look(line: Line, until: float) -> None:
    """Simulate to ``until`` and take it back."""
    before = line.traffic.save()
    now = line.now
    while (arrival := line.traffic.advance(now, until)) is not None:
        now = arrival.at_ms
    line.traffic.restore(before)


def run(
    connection: Connection, loss: float, exclusive: bool, said: list[Any], ahead: bool
) -> tuple[dict[int, Transfer], dict[int, Any]]:
    line = Line(connection, mbit_per_s=20.0, loss=loss, back_loss=loss)
    now = 0.0
    for pause, size, back, pair, key, horizon, over in said:
        now = max(now, line.now) + pause
        line.run(now)
        if over:
            line.traffic.release(pair, now)
        number = line.send(
            now, size, back=back, pair=pair, key=key, exclusive=exclusive, stream=bool(key % 2)
        )
        if ahead:
            look(line, now + horizon)
            look(line, now + horizon / 2)
        if key % 3 == 0:
            line.run(now + 50, number)
    line.run(1e9)
    return line.done, line.heard


@given(settings, st.sampled_from([0.0, 0.05, 0.3]), st.booleans(), steps)
def test_looking_ahead_changes_nothing(
    connection: Connection, loss: float, exclusive: bool, said: list[Any]
) -> None:
    expected = run(connection, loss, exclusive, said, ahead=False)
    assert run(connection, loss, exclusive, said, ahead=True) == expected


def test_looking_ahead_sees_what_will_be() -> None:
    """To the bit, if nothing comes in between."""
    line = Line(loss=0.1)
    line.send(0.0, 50_000, key=3)
    before = line.traffic.save()
    seen = line.traffic.advance(0.0, math.inf)
    line.traffic.restore(before)
    assert seen == line.traffic.advance(0.0, math.inf)
    assert seen is not None
    assert seen.whole
