"""Opening a connection: every byte of it on the wire, and what a lost packet of it costs.

At 5 Mbit/s a byte takes 8 / 5000 = 0.0016 ms. SYN and SYN-ACK are 60 bytes, an ACK is 52, and so
are the headers of each segment of the flights of TLS.
"""

import math

import pytest

from mpcsim.sim.network.transport import Connection
from tests.helpers import losing
from tests.helpers.losing import syn, syn_ack, third
from tests.sim.network.tcp.lab import FULL, LONG_TICK, Line, parts, plain, took

BYTE_MS = 0.0016


def segments(size: int) -> int:
    """Bytes of ``size`` bytes of data on the wire."""
    return size + 52 * math.ceil(size / 1448)


def cold(round_trips: int = 0, **settings: bool) -> Connection:
    return plain(cold=True, tls_round_trips=round_trips, **settings)


# ------------------------------------------------------------------ bytes


def test_tcp_alone() -> None:
    """SYN and SYN-ACK take 0.096 ms each. At 80.192 the ACK goes, 0.0832 ms, and behind it a full
    segment, 2.4 ms: it arrives at 80.192 + 0.0832 + 2.4 + 40."""
    line = Line(cold(), mbit_per_s=5.0)
    transfer = line(0.0, FULL)
    assert transfer.handshake_ms == pytest.approx(80.192)
    assert took(transfer) == pytest.approx(122.6752)
    assert sum(parts(transfer)) == pytest.approx(took(transfer))
    assert line(1000.0, FULL).handshake_ms == 0


@pytest.mark.parametrize(("round_trips", "resumption"), [(1, False), (1, True), (2, True)])
def test_tls_1_3_and_what_is_resumed(round_trips: int, resumption: bool) -> None:
    """Each side acknowledges the first flight of the other at once, before its answer; the last
    flight and the message go together: 1448 and the flight's bytes, in two segments. Resumed, it is
    one round trip with either version, and fewer bytes in it."""
    settings = cold(round_trips, resumption=resumption)
    hello, answer, finished = settings.tls_flights
    assert (answer < 1448 / 2) == resumption
    transfer = Line(settings, mbit_per_s=5.0)(0.0, FULL)
    ready = [60, 60, 52 + segments(hello), 52 + segments(answer)]
    assert transfer.handshake_ms == pytest.approx(4 * 40 + sum(ready) * BYTE_MS)
    rest = 52 + segments(finished + FULL)
    assert took(transfer) == pytest.approx(5 * 40 + (sum(ready) + rest) * BYTE_MS)
    assert sum(parts(transfer)) == pytest.approx(took(transfer))


def test_tls_1_2() -> None:
    """As above for the first flights. After that both sides know that they answer each other, and
    let their acknowledgements go along with their answers."""
    settings = cold(2)
    hello, certificates, keys, finished = settings.tls_flights
    transfer = Line(settings, mbit_per_s=5.0)(0.0, FULL)
    ready = [
        60, 60, 52 + segments(hello), 52 + segments(certificates), 52 + segments(keys),
        segments(finished),
    ]  # fmt: skip
    assert transfer.handshake_ms == pytest.approx(6 * 40 + sum(ready) * BYTE_MS)
    assert took(transfer) == pytest.approx(7 * 40 + (sum(ready) + 1500) * BYTE_MS)


def test_early_data() -> None:
    """The message goes behind the first flight, as soon as TCP's handshake is over (0-RTT)."""
    settings = cold(1, resumption=True, early_data=True)
    hello, _ = settings.tls_flights
    transfer = Line(settings, mbit_per_s=5.0)(0.0, FULL)
    ready = [60, 60]
    rest = 52 + segments(hello + FULL)
    assert transfer.handshake_ms == pytest.approx(2 * 40 + sum(ready) * BYTE_MS)
    assert took(transfer) == pytest.approx(3 * 40 + (sum(ready) + rest) * BYTE_MS)


@pytest.mark.parametrize("profile", ["linux", "ns3"])
@pytest.mark.parametrize(
    "settings",
    [
        {"tls_round_trips": 0},
        {"tls_round_trips": 1},
        {"tls_round_trips": 2},
        {"tls_round_trips": 1, "resumption": True},
        {"tls_round_trips": 2, "resumption": True},
        {"tls_round_trips": 1, "resumption": True, "early_data": True},
    ],
    ids=str,
)
def test_round_trips(profile: str, settings: dict[str, int]) -> None:
    """On an infinitely fast line only they take time, 80 ms each; then the windows of slow start,
    10, 20 and 5, another two."""
    connection = plain(profile, cold=True, **settings)
    for size, windows in ((FULL, 0), (35 * FULL, 2)):
        transfer = Line(connection, mbit_per_s=math.inf)(0.0, size)
        assert transfer.handshake_ms == connection.handshake_round_trips * 80
        if windows == 0 or profile == "linux":
            assert took(transfer) == transfer.handshake_ms + windows * 80 + 40


# ------------------------------------------------------------------ losses

PACKETS = {kind(nth) for kind in (syn, syn_ack, third) for nth in (1, 2, 3)} | {losing.data(0)}
LOSS = 0.2


def opened(profile: str, *lost: losing.GraphMessage) -> Line:
    """A connection whose first message, of one segment, has arrived; the line loses no more."""
    line = Line(plain(profile, cold=True), mbit_per_s=math.inf, loss=LOSS, back_loss=LOSS)
    line(0.0, FULL, key=losing.key(*lost, of=PACKETS, loss=LOSS))
    return line


@pytest.mark.parametrize(("profile", "late"), [("linux", LONG_TICK), ("ns3", 0.0)])
@pytest.mark.parametrize("kind", [syn, syn_ack])
def test_a_lost_syn_costs_a_second_another_one_two_more(
    profile: str, late: float, kind: losing.GraphMessage
) -> None:
    """RFC 6298: 1 s before a round trip is known (section 2.1), then twice as long (5.5); Linux
    waits 1 s for the first times (``tcp_syn_linear_timeouts``). A SYN-ACK that is lost costs as
    much: the opener asks again after 1 s."""
    costs = [1000 + late, 2000 + 2 * late if profile == "linux" else 3000]
    for count, cost in enumerate(costs, 1):
        lost = [kind(nth) for nth in range(1, count + 1)]
        transfer = opened(profile, *lost).done[0]
        waited = transfer.handshake_ms - 80
        # Linux's other end answers twice if its own timer rings in the step in which a SYN comes
        # again: then the second lost SYN-ACK costs nothing.
        assert waited == cost or (profile, kind, waited) == ("linux", syn_ack, costs[0])
        assert took(transfer) == transfer.handshake_ms + 40


@pytest.mark.parametrize(("profile", "late"), [("linux", LONG_TICK), ("ns3", 0.0)])
def test_a_syn_and_its_successors_answer(profile: str, late: float) -> None:
    """The first SYN is lost, so is the answer to the second: 1 s, then 2 s for the opener. The
    other end repeats its answer 1 s after it was sent, which is sooner."""
    transfer = opened(profile, syn(1), syn_ack(1)).done[0]
    assert transfer.handshake_ms == 80 + 1000 + 1000 + 2 * late


@pytest.mark.parametrize(("lost", "window"), [((), 10), ((1,), 10), ((1, 2), 1)])
def test_linux_begins_with_one_segment_after_two_lost_syns(
    lost: tuple[int, ...], window: int
) -> None:
    """RFC 5681, section 3.1; RFC 6298 lets one pass, since the first timeout is only 1 s. So does
    the other end, after SYN-ACKs."""
    twelve = {losing.data(k) for k in range(12)}
    key = losing.key(*map(syn, lost), of=PACKETS | twelve, loss=LOSS)
    line = Line(plain(cold=True), mbit_per_s=math.inf, loss=LOSS)
    assert line.flights(0.0, 12, key=key)[0][1] == window
    line = opened("linux", *map(syn_ack, lost))
    key = losing.key(of=twelve, loss=LOSS)
    assert line.flights(line.now + 1, 12, back=True, key=key)[0][1] == window
