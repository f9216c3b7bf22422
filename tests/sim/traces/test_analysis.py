"""Summary, waits, critical path and data frame: closed forms, and sums that must add up."""

import math
from dataclasses import replace
from itertools import pairwise

import pandas as pd
import pytest

from mpcsim.errors import UsageError
from mpcsim.sim import Network, Simulation, Trace, Verdict
from mpcsim.sim.run.faults import Crash, delay, duplicate
from mpcsim.sim.traces.causes import cause_of, sequential_delays
from mpcsim.sim.traces.critical_path import critical_path
from mpcsim.sim.traces.frame import FRAME_COLUMNS, to_frame
from mpcsim.sim.traces.message_segments import PARTS, message_segments
from mpcsim.sim.traces.summary import summary
from mpcsim.sim.traces.waits import party_waits
from tests.helpers.traces import NAMES, Fixed, simulation, star, trace

EVERY = pytest.mark.parametrize("name", NAMES)


def nonzero(found: Trace) -> dict[str, float]:
    return {part: ms for part, ms in critical_path(found).parts.items() if abs(ms) > 1e-6}


# ---------------------------------------------------------------------- what holds for every trace


@EVERY
def test_the_critical_path_adds_up(name: str) -> None:
    path = critical_path(trace(name))
    assert path.total_ms == trace(name).finished_ms
    assert math.fsum(path.parts.values()) == pytest.approx(path.total_ms, abs=1e-6)
    assert math.fsum(path.places.values()) == pytest.approx(path.total_ms, abs=1e-6)
    assert set(path.parts) == set(PARTS)
    assert all(ms >= 0 for ms in path.parts.values())


@EVERY
def test_the_critical_path_has_no_gap(name: str) -> None:
    path = critical_path(trace(name))
    assert path.segments[0].start_ms == pytest.approx(0, abs=1e-6)
    assert path.segments[-1].end_ms == pytest.approx(path.total_ms, abs=1e-6)
    for before, after in pairwise(path.segments):
        assert before.end_ms == pytest.approx(after.start_ms, abs=1e-6)
    for segment in path.segments:
        assert math.fsum(segment.parts.values()) == pytest.approx(segment.duration_ms, abs=1e-6)


@EVERY
def test_each_partys_time_adds_up(name: str) -> None:
    for p in summary(trace(name)).parties:
        spent = p.compute_ms + p.waiting_ms + p.contention_ms + p.unanswered_ms
        assert spent == pytest.approx(p.ended_ms, abs=1e-6)
        assert p.party not in p.waited_for


@EVERY
def test_waits_do_not_overlap_work(name: str) -> None:
    found = trace(name)
    for ending in found.endings:
        waits = party_waits(found, ending.party)
        for before, after in pairwise(waits):
            assert before.end_ms <= after.start_ms
        for wait in waits:
            for work in found.work:
                if work.party == ending.party:
                    assert work.end_ms <= wait.start_ms or work.start_ms >= wait.end_ms
            if wait.message is not None:
                message = found.messages[wait.message]
                assert (message.sender, message.receiver) == (wait.sender, wait.party)
                assert message.received_ms is not None
                assert wait.end_ms <= message.received_ms + 1e-9


@EVERY
def test_a_flight_adds_up(name: str) -> None:
    found = trace(name)
    for message in found.messages:
        if message.received_ms is not None:
            parts = [ms for hop in message_segments(found, message) for ms in hop.parts.values()]
            took = message.received_ms - message.sent_ms
            assert math.fsum(parts) == pytest.approx(took, abs=1e-6)


@EVERY
def test_bytes_and_messages_are_counted_once(name: str) -> None:
    found = summary(trace(name))
    assert sum(p.messages_sent for p in found.parties) == found.messages
    assert sum(p.bytes_sent for p in found.parties) == found.bytes
    assert sum(r.messages for r in found.by_round) == found.messages
    assert sum(r.bytes for r in found.by_round) == found.bytes


# ---------------------------------------------------------------------- closed forms

RESPOND_SEGMENTS = 29  # 40 268 bytes and 300 of overhead
OFFER_SEGMENTS = 7  # 8927 bytes and 300


def windows(segments: int, **options: object) -> Network:
    """The star with that initial window. 100 segments are never reached; with 29, a Respond waits
    for the acknowledgements of the Offer that went before it, if they have not come yet."""
    return star(**options).with_connection(initial_window=segments)


def test_signature_in_closed_form() -> None:
    """Four messages one after the other, and nothing waits for acknowledgements.

    Five times 2.5 ms of work: commit, offer, respond, share, assemble.
    """
    made = simulation(windows(100), compute=Fixed(0.5, 2.0))
    found = made.sign(signers=(1, 3)).trace
    respond = next(m for m in found.messages if m.kind == "Respond")
    assert -(-(respond.size + 300) // 1448) == RESPOND_SEGMENTS
    offer = next(m for m in found.messages if m.kind == "Offer")
    assert -(-(offer.size + 300) // 1448) == OFFER_SEGMENTS
    assert nonzero(found) == pytest.approx({"propagation": 4 * (20 + 140), "compute": 5 * 2.5})
    assert found.finished_ms == pytest.approx(640 + 12.5)


def test_ten_segments_at_first_in_closed_form() -> None:
    """The same with a window of 10. What is acknowledged adds to it, if more than half was used.

    From institution to gateway, a round trip of 280 ms, in ms:

    * 2.5: the Commit, 1 segment. Nothing goes back for 42 ms (40, and 2 of the timer), so its
      acknowledgement leaves at 142.5 + 42 and is there at 324.5: window 11, for 8 were out.
    * 165: the Offer, 7 segments.
    * 327.5: Respond; 11 - 7 leaves room for 4 segments.
    * 445: the Offer is acknowledged, all of it, for the gateway, which waited in vain for an answer
      to send along, no longer waits: window 18, of which 4 are out: 14 more. 11 are left.
    * 607.5: the first 4 are acknowledged: window 22, of which 14 are out: 8 more.
    * 725: those of 445 are: the last 3 go, and are there at 725 + 140 = 865.

    From gateway to client, 40 ms, idle from 305 to 865 and so down to 10: 10 segments at 865, 19
    more at 905, there at 925. 3's share takes 2.5 + 160 + 2.5 from there: 1090.
    """
    made = simulation(star(), compute=Fixed(0.5, 2.0))
    found = made.sign(signers=(1, 3)).trace
    (respond,) = (m for m in found.messages if m.kind == "Respond" and m.sender == 3)
    first, second = (hop.transfer for hop in respond.hops)
    assert (first.given_ms, first.arrived_ms) == pytest.approx((327.5, 865))
    assert (second.given_ms, second.arrived_ms) == pytest.approx((865, 925))
    assert nonzero(found) == pytest.approx(
        {"propagation": 640, "window": (865 - 140 - 327.5) + 40, "compute": 12.5}
    )
    assert found.finished_ms == pytest.approx(1090)


def test_links_of_the_path_in_closed_form() -> None:
    """Respond waits for the Offer's acknowledgements on the client's link, 40 ms there and back.

    In ms: the client's Offer goes at 25 and Respond at 50, of which 7 segments go at 25 + 40, 15
    later. The other way, gateway to client, it is 30, 55 and 30 + 40: 15, too. On the operator's
    link, 10 ms, the acknowledgements are there in time.
    """
    found = simulation(windows(29)).sign(signers=(1, 2)).trace
    places = critical_path(found).places
    out = [(f"{a} → gateway", f"gateway → {a}") for a in ("client", "operator")]
    # Two of the four messages go either way, and the third, with its wait, goes one of them.
    client = sorted(places[name] for name in out[0])
    operator = sorted(places[name] for name in out[1])
    assert client == pytest.approx([2 * 20, 2 * 20 + 15])
    assert operator == pytest.approx([2 * 5, 2 * 5])
    assert places["party 1"] == places["party 2"] == 0


def test_transmission_in_closed_form() -> None:
    """Bytes, with 52 for each segment's header, at 8 Mbit/s: 1000 bytes a millisecond."""
    found = simulation(star(mbit_per_s=8.0)).sign().trace
    path = critical_path(found)
    sizes = [found.messages[number].size + 300 for number in path.messages]
    wire = [s + 52 * -(-s // 1448) for s in sizes]
    assert path.parts["transmission"] == pytest.approx(2 * sum(wire) / 1000)


def test_a_fault_is_told_from_the_network() -> None:
    """With a window that nothing waits for, every message that is late makes the run as late."""
    network = Network.star(20.0, 5.0, 140.0, mbit_per_s=100).with_connection(initial_window=100)
    plain, found = (
        simulation(network, faults=faults, compute=Fixed()).sign(signers=(1, 3)).trace
        for faults in ((), (delay(77.0, "Offer", sender=1),))
    )
    assert critical_path(found).parts["fault"] == pytest.approx(77)
    assert found.finished_ms == pytest.approx(plain.finished_ms + 77, abs=2)


def test_contention() -> None:
    """Party 2 is ready at once, but party 1 has the core for 2.5 ms."""
    found = summary(trace("shared core"))
    assert found.parties[0].contention_ms + found.parties[1].contention_ms >= 2.5
    assert found.parties[2].contention_ms == 0
    assert "contention ms" in found.tables()[0].columns
    first = party_waits(trace("shared core"), 2)[0]
    assert (first.start_ms, first.end_ms, first.why) == (0.0, 2.5, "contention")


# ---------------------------------------------------------------------- who waited for whom


def test_two_parties_wait_for_each_other() -> None:
    """For the four messages, 160 ms each."""
    made = simulation(windows(100), compute=Fixed(0.5, 2.0))
    found = summary(made.sign(signers=(1, 3)).trace)
    for p, other in zip(found.parties, (3, 1), strict=True):
        assert p.waited_for == pytest.approx({other: 4 * 160})
        assert p.compute_ms == pytest.approx(12.5)
        assert p.site in ("client", "institution")


def test_a_wait_belongs_to_whoever_came_last() -> None:
    """The operator's messages come long before the institution's, which the round waits for."""
    found = Simulation(star(), compute=Fixed(0.5, 2.0)).generate().trace
    assert set(summary(found).parties[0].waited_for) == {3}
    waits = [w for w in party_waits(found, 1) if w.end_ms < 165]
    # Handling the operator's commitment interrupts the wait.
    assert [(w.start_ms, w.end_ms) for w in waits] == [
        pytest.approx((2.5, 27.5)),
        pytest.approx((28.0, 162.5)),
    ]
    assert {w.sender for w in waits} == {3}


@pytest.mark.parametrize(("start_ms", "cause"), [(9.0, 2), (9.5, None), (3.0, None)])
def test_what_waits_for_its_party_waited_for_the_work_before(
    start_ms: float, cause: int | None
) -> None:
    found = trace("key generation")
    message = replace(found.messages[0], received_ms=3.0)
    began = [(1, 0.0, 5.0), (2, 0.0, 9.0), (1, 5.0, 9.0), (2, 9.0, 9.0), (1, start_ms, 12.0)]
    work = [
        replace(found.work[0], number=n, party=party, start_ms=start, end_ms=end)
        for n, (party, start, end) in enumerate(began)
    ]
    work[-1] = replace(work[-1], cause=("message", 0))
    held_up = cause_of(replace(found, work=work, messages=[message]), work[-1])
    assert held_up == (message if cause is None else work[cause])


def test_a_deadline_is_idle_time_or_cut_short() -> None:
    found = trace("deadline")
    assert found.finished_ms == 500
    assert nonzero(found)["idle"] == pytest.approx(500 - max(w.end_ms for w in found.work))
    assert summary(found).undelivered == 2


def test_a_party_that_is_down_is_idle() -> None:
    """Everything that comes meanwhile is lost; what it sends when it is up again comes last."""
    faults = (Crash(1, 1, 500.0), duplicate("Offer", after_ms=30.0))
    made = simulation(windows(100), faults=faults, compute=Fixed())
    found = made.sign(signers=(1, 3)).trace
    lost = sorted(m.kind for m in found.messages if m.fate == "lost")
    assert lost == ["Offer", "Offer", "Respond"]
    assert nonzero(found)["idle"] == pytest.approx(500, abs=5)


def test_waits_of_a_stranger() -> None:
    with pytest.raises(UsageError, match="party 9"):
        party_waits(trace("aborted"), 9)


# ---------------------------------------------------------------------- summary


@pytest.mark.parametrize(
    ("name", "delays"),
    [
        ("two-party signature with compute", 4),
        ("three-party signature", 4),
        ("key generation", 3),
        ("cold connections", 4),
        ("duplicated", 4),
        ("delayed", 4),
        # Offer to operator (2), its notice to the client (3), whose notice the operator gets (4).
        ("aborted", 4),
    ],
)
def test_sequential_delays(name: str, delays: int) -> None:
    assert sequential_delays(trace(name)) == delays


# ---------------------------------------------------------------------- data frame


@EVERY
def test_frame(name: str) -> None:
    found = trace(name)
    frame = to_frame(found)
    assert list(frame.columns) == list(FRAME_COLUMNS)
    assert frame["start_ms"].is_monotonic_increasing
    hops = sum(len(m.hops) for m in found.messages)
    counts = frame["event"].value_counts().to_dict()
    expected = {"work": len(found.work), "message": len(found.messages), "hop": hops}
    assert counts == {event: n for event, n in expected.items() if n}
    messages = frame[frame["event"] == "message"].set_index("number")
    for message in found.messages:
        row = messages.loc[message.number]
        assert (row["party"], row["peer"]) == (message.sender, message.receiver)
        assert row["size_bytes"] == message.size
        assert row["start_ms"] == message.sent_ms
        if message.received_ms is None:
            assert pd.isna(row["end_ms"])
        else:
            parts = [f"{part}_ms" for part in PARTS if f"{part}_ms" in frame.columns]
            assert row[parts].sum() == pytest.approx(row["duration_ms"], abs=1e-6)
    assert frame["round"].dtype == "Int64"
    assert frame["window_ms"].dtype == "float64"


def test_frame_of_an_empty_trace() -> None:
    empty = Trace("", "", 0, "free", "virtual", Verdict.STALLED, (), (), (), 0.0)
    assert to_frame(empty).empty
    assert critical_path(empty).segments == ()
    assert summary(empty).messages == 0
    assert "run: stalled" in str(empty)


def test_critical_path_as_a_frame() -> None:
    path = critical_path(trace("key generation"))
    frame = path.to_frame()
    assert len(frame) == len(path.segments)
    parts = frame[[f"{part}_ms" for part in PARTS]].sum().sum()
    assert parts == pytest.approx(path.total_ms, abs=1e-6)
