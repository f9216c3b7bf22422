"""Rules of the TCP models, one small scenario each; and ``rules.txt``: which test holds which rule.

A row says which variable of the sender (``state.HALF``) or which time follows from the rule alone;
numbers are worked out from the rule. The line is infinitely fast unless it says otherwise, a round
trip takes 80 ms, and a kept connection's timeout is 280: its round trip and Linux's least 200.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers.losing import GraphMessage, ack, data, late_ack
from tests.helpers.repo import ROOT
from tests.sim.network.tcp.lab import FULL, SACK_MS, SEGMENT_MS, TICK, Line, plain, took

HERE = Path(__file__).parent
MODELS = ROOT / "mpcsim" / "sim" / "network" / "tcp"
UNLIMITED = float(1 << 60)
"""``ssthresh`` before any loss."""
SMALL = 0.05
"""A part of a full segment, so small that the receive window does not grow."""


class Send(NamedTuple):
    """A message, sent ``pause`` after the last arrival, or ``until`` ms after that was sent."""

    pause: float
    segments: float
    lost: tuple[GraphMessage, ...] = ()
    round_trip: float = 0.0
    until: float | None = None


def send(pause: float, segments: float, *lost: GraphMessage, **how: Any) -> Send:
    return Send(pause, segments, lost, **how)


def case(
    rule: str, stack: str, variable: str, expected: float, *sends: Send, **settings: Any
) -> Any:
    return pytest.param(stack, variable, expected, sends, settings, id=rule)


TIMED_OUT = send(0, 1, data(0), data(0, 1))
"""A segment is lost, so is its probe, and the timer finds it: the window is 1, ``ssthresh`` 5 with
Reno and 7 with CUBIC, halves of ten."""
LATE = send(100, SMALL)
"""After this the acknowledgement waited in vain for an answer."""
SLOW = 10.0 / 100.0
"""At 10 Mbit/s everything takes ten times as long."""


def arrives(profile: str, segments: int) -> float:
    """When the word of a hole, caused by that many segments at 10 Mbit/s, is back."""
    return segments * SEGMENT_MS[profile] / SLOW + 40 + SACK_MS[profile] / SLOW + 40


# fmt: off
CASES = [
    # ------------------------------------------------------------------ windows
    # From 4 to 5; of the two segments acknowledged together, one counts for congestion avoidance.
    case(
        "slow start ends at ssthresh", "linux reno", "cwnd", 5,
        TIMED_OUT, send(200, 1), send(200, 2), send(200, 4, ack(0)), loss=0.2, back_loss=0.2,
    ),
    # 0.7 x 2 = 1.4.
    case(
        "CUBIC: ssthresh is at least 2", "linux cubic", "ssthresh", 2,
        send(0, 2, data(0)), initial_window=2,
    ),
    case("CUBIC: reset at a timeout", "linux cubic", "w_max", 0, TIMED_OUT),
    case("CUBIC: K is 0 from W_max on", "linux cubic", "cubic_k", 0, TIMED_OUT, send(0, 30)),
    # Nothing is known of a W_max, and the target is 7, the window: 20 acknowledged make one more.
    case("CUBIC: 5 % a round trip at least", "linux cubic", "cnt", 20, TIMED_OUT, send(0, 30)),
    # Round trips of 2 s: after three of them 0.4 t^3 is more than the window.
    case(
        "CUBIC: one segment more for two", "linux cubic", "cnt", 2,
        TIMED_OUT, send(0, 30), way=1000.0,
    ),
    # A round trip of 2 ms; the last of two is lost: the window is 8, then 0.7 x 8 = 5. 1 ms after
    # the first acknowledgement it is 6, but ``cnt`` still 5 / (8 - 0.4 K^3 + 1 - 5).
    case(
        "CUBIC: cnt once a tick", "linux cubic", "cnt", 5,
        send(0, 2, data(1)), send(0, 8), initial_window=6, way=1.0,
    ),
    # Sent at 115, 14 at a time, 10 ms apart: at 125 14 segments make the window 15 and at 135
    # ``cnt`` is 100 x 15. So nothing changes for 28 ms: not at 145, nor at 155.
    case(
        "CUBIC: cnt is kept", "linux cubic", "last_time", 135,
        send(0, 20, data(0)), send(100, 70, until=45), initial_window=20, way=5.0,
    ),
    # It has begun at 320, when the window was last in use; the last data left at 400, the next at
    # 640.
    case(
        "CUBIC: the epoch does not count idle time", "linux cubic", "epoch_start", 320 + 640 - 400,
        send(0, 20, data(0)), send(200, 20), send(200, 1), initial_window=20,
    ),
    # A round trip of 40 ms in the first second of an epoch.
    case(
        "CUBIC: delay_min is kept for a second", "linux cubic", "delay_min", 80,
        send(0, 20, data(0)), send(200, 20), send(100, 20, round_trip=40.0), initial_window=20,
    ),
    # ssthresh is 5, and after 40 segments, 5 + 6 + .. + 9 and 5, the window 10: 10 / 2 + 10 / 4.
    case(
        "idle: ssthresh is 3/4 of the window", "linux reno", "ssthresh", 7,
        send(0, 10, data(0)), send(100, 40), send(1000, 1),
    ),
    # A window of 20, of which 4 are used in three round trips, more than a timeout: (20 + 10) / 2.
    case(
        "application-limited: half of the difference", "linux", "cwnd", 15,
        send(0, 10), *3 * [send(100, 4)],
    ),
    # Each acknowledgement of a window of 5 makes room for one: the first sends it, the second
    # leaves room for the next, and of the third, two go together.
    case(
        "TSO: a burst is deferred", "linux reno", "snd_nxt", 10 + 5 + 1,
        send(0, 10, data(0)), send(100, 20, until=80 + 0.12 * 2.5), cold=True, mbit_per_s=100.0,
    ),
    # 1.2 x 30 / (10 x 1.024) = 3.5 in 1/1024 s: of four acknowledgements the first sends one
    # segment, the fourth three.
    case(
        "TSO: the size of a burst", "linux reno", "snd_nxt", 60 + 30 + 1 + 3,
        send(0, 60, data(0)), send(50, 80, until=10 + 0.012 * 4.5), cold=True, mbit_per_s=1000.0,
        way=5.0, initial_window=60, loss=0.02,
    ),
    # ------------------------------------------------------------------ round trips and timers
    case(
        "SRTT: alpha is 1/8", "linux", "srtt", 80 + (160 - 80) / 8,
        send(0, SMALL), send(500, SMALL, round_trip=160.0), cold=True,
    ),
    # Four times the deviation: 2 x 80 after the handshake, 3/4 of it after the first message.
    case(
        "RTTVAR: a shorter round trip counts an eighth", "linux", "mdev", 120 + (64 - 120 / 4) / 8,
        send(0, SMALL), send(500, SMALL, round_trip=16.0), cold=True,
    ),
    # 2 x 400, 3/4 of it, and 3/4 of that and a difference of 500.
    case(
        "RTTVAR: the largest deviation of a round trip", "linux", "rttvar", 600 * 3 / 4 + 500,
        send(0, SMALL, round_trip=400.0), send(600, SMALL, round_trip=900.0), cold=True,
    ),
    # Round trips of 5 ms, and a timeout of 205, 208 in ticks. At 5 the first two of five are known
    # to be lost and go again, the second in vain. At 10 the first of them is acknowledged while
    # RACK's timer is set: what is left since 5 is 203, 204 in ticks.
    case(
        "RTO: since the first segment was sent", "linux", "took", 10 + 204 + TICK + 2.5,
        send(0, 5, data(0), data(1), data(1, 1), ack(3)), way=2.5, loss=0.2, back_loss=0.2,
    ),
    # Three segments, acknowledged in vain 100 ms later, and a probe, whose answer is back 100 ms
    # after it: that is a sample by its time stamp, and the first two are none (246 ms).
    *(
        case(
            rule, "linux", "srtt", 80 + (100 - 80) / 8,
            send(0, 3, ack(1), late_ack(2), round_trip=100.0), loss=0.0, back_loss=0.05,
        )
        for rule in ("RTT: none of what was sent again", "RTT: by time stamp")
    ),
    # Two of three, and their acknowledgement is lost: after 2 x 80 + 2 ms, 164, the third goes.
    case(
        "TLP: new data", "linux", "took", 164 + TICK + 40,
        send(0, 3, ack(1), late_ack(1)), initial_window=2, loss=0.0, back_loss=0.05,
    ),
    # A probe repairs the last of ten: half of 20 once something later is acknowledged.
    case(
        "TLP: a repaired loss narrows the window", "linux reno", "ssthresh", 20 // 2,
        send(0, 10, data(9)), send(200, 20),
    ),
    # ------------------------------------------------------------------ losses
    # The first of three is lost, the others are there after 100 ms more than expected, when the
    # last has been sent again, 34 ms before its answer. A round trip is 200 then, and after 80 / 4
    # the first is taken for lost: at 226, with the timer's 2 ms, in ticks, and half a tick.
    case(
        "RACK: an answer to what was sent before", "linux", "took", 200 + 24 + TICK + 100,
        send(0, SMALL), send(100, 3, data(0), round_trip=200.0),
    ),
    # Four segments are lost. A probe, sent at 166, shows it at 246; the first goes again, and at
    # 326 the next two: one for the one delivered, one for the advance. They arrive at 366.
    case(
        "PRR: one more after an advance", "linux", "took", 164 + TICK + 3 * 80 - 40,
        send(0, 4, *map(data, range(4))), initial_window=4, loss=0.3,
    ),
    # The same, but the second is lost again: at 406 the third shows it, at once.
    *(
        case(
            rule, "linux", "took", 164 + TICK + 4 * 80 - 40,
            send(0, 4, *map(data, range(4)), data(1, 1)), initial_window=4, loss=0.3,
        )
        for rule in ("RACK: no reordering window in recovery", "RACK: a retransmission is lost")
    ),
    # Halving 20: by 92.5 ms eight segments behind the first, put together for 1.1 ms, are known to
    # have come. The first two send a new one each (RFC 3042), the other six half as many, of which
    # one is the first again.
    case(
        "PRR: in proportion", "linux reno", "snd_nxt", 20 + 2 + math.ceil(6 * 10 / 20) - 1,
        send(0, 40, data(0), until=80 + 12.5), initial_window=20, mbit_per_s=10.0,
    ),
    # At 10 Mbit/s, of ten, 0 and 5 to 8 are lost. In recovery 3 and 4 are delivered, and 0 goes
    # again. When 9, the third, shows the other losses, two follow, not one.
    case(
        "PRR: what could not be sent is made up for", "linux reno", "prr_out", 1 + (3 - 1),
        send(0, 12, *map(data, (0, 5, 6, 7, 8)), until=93.7), mbit_per_s=10.0, loss=0.3,
    ),
    # Ten, of which two are lost and three behind them are there: five in flight are half of ten.
    case(
        "PRR: the first goes at once", "linux reno", "prr_out", 1,
        send(0, 10, data(0), data(1), until=80.5),
    ),
    # Four in a window of ten.
    case("PRR: the window is ssthresh at the end", "linux reno", "cwnd", 5, send(0, 4, data(0))),
    # The first of three is lost; the second shows after 1000 ms, when the timer has sent the first
    # again, that it was only late.
    case(
        "F-RTO", "linux", "cwnd", 10,
        send(0, SMALL), send(100, 3, data(0), round_trip=1000.0, until=1200),
    ),
    # All of a window of 3 is lost and a new one, the probe, too. The timer sends the first again,
    # and its acknowledgement two new ones.
    case(
        "F-RTO: new data first", "linux reno", "snd_nxt", 3 + 1 + 2,
        send(0, 10, *map(data, range(4)), until=590), initial_window=3, loss=0.2,
    ),
    # Three are late, not lost: the time stamp says so.
    case(
        "Eifel: the window is restored", "linux", "cwnd", 10,
        send(0, SMALL), send(100, 3, round_trip=1000.0),
    ),
    case(
        "Eifel: ssthresh is restored", "linux", "ssthresh", UNLIMITED,
        send(0, SMALL), send(100, 3, round_trip=1000.0),
    ),
    # The acknowledgements of a segment and of its probe are lost; it was there when the timer sent
    # it again.
    case(
        "D-SACK: the window is restored", "linux", "cwnd", 10,
        send(0, 1, late_ack(0), ack(0, 2), until=700), loss=0.0, back_loss=0.2,
    ),
    # The first of ten is lost twice, and a new segment follows at 350. When the timer rings, at
    # 381, that is in flight, beside the first.
    case(
        "RTO: what was just sent is not lost", "linux reno", "cwnd", 1 + 1,
        send(0, 10, data(0), data(0, 1), until=350), send(0, 1, until=40), http="2",
    ),
    # ------------------------------------------------------------------ acknowledgements
    case("ACK: 16 are quick", "linux", "quick_acks", 16 - 1, send(0, SMALL), cold=True),
    case(
        "ACK: 16 are quick after a duplicate", "linux", "quick_acks", 16 - 1,
        send(0, 1, late_ack(0), until=400), loss=0.0, back_loss=0.2,
    ),
    # A pause of 300 ms and the way, more than the timeout of 280.
    case(
        "ACK: 16 are quick after a pause", "linux", "quick_acks", 16 - 1,
        send(0, SMALL), send(300, SMALL),
    ),
    # The first of four is there again at 120, and at once known at 160.
    case(
        "ACK: at once when a hole is filled", "linux", "snd_una", 4,
        send(0, 4, data(0), until=161),
    ),
    # Three at once, the others 1.1 ms later or when they are 44.
    case(
        "ACK: 44 are compressed", "linux", "sacked_out", 3 + 44,
        send(0, 60, data(0), until=80.5), initial_window=60, loss=0.02,
    ),
    # 5 % of 10 ms, and 0.1.
    case(
        "ACK: compressed for 5 % of a round trip", "linux", "sacked_out", 19,
        send(0, 20, data(0), until=10.61), initial_window=20, way=5.0,
    ),
    case("ATO: doubles when late", "linux", "ato", 2 * 40, LATE, LATE, way=5.0),
    # 60 ms after the last one.
    case(
        "ATO: follows the interval", "linux", "ato", 80 / 2 + 60,
        LATE, LATE, send(55, SMALL, until=6), way=5.0,
    ),
    case(
        "ATO: falls towards 40", "linux", "ato", 80 / 2 + 40 / 2,
        LATE, LATE, LATE, send(5, SMALL, until=6), way=5.0,
    ),
    # After three late ones it is 160, which is more than a round trip: 80.
    case(
        "ATO: at most a round trip", "linux", "snd_una", 4,
        *3 * [send(200, SMALL)], send(200, SMALL, until=80 + 80 + TICK + 1),
    ),
    # ------------------------------------------------------------------ ns-3
    # The first two of five are lost; of what shows it only the last arrives, and tells of three.
    case(
        "ns-3: lost with three above", "ns3", "took", 80 + 40,
        send(0, 5, data(0), data(1), ack(2), ack(3)), initial_window=5, loss=0.2, back_loss=0.2,
    ),
    case(
        "ns-3: recovery when the second is lost", "ns3 reno", "ssthresh", 5 * FULL // 2,
        send(0, 5, data(0), data(1), ack(2), ack(3), until=81), initial_window=5, loss=0.2,
        back_loss=0.2,
    ),
    # Halving 20, of 22 in flight: seven after the third.
    case(
        "ns-3: PRR in proportion", "ns3 reno", "snd_nxt", 20 + 2 + math.floor(7 * 10 / 22) - 1,
        send(0, 40, data(0), until=80 + 10.5 * 1.2016), initial_window=20, mbit_per_s=10.0,
    ),
    # 5 / 2, and two more for five acknowledged, two windows of 2.
    case(
        "ns-3: the window is ssthresh at the end", "ns3 reno", "cwnd", 5 * FULL // 2 + 2 * FULL,
        send(0, 5, data(0), until=161), initial_window=5,
    ),
    case(
        "ns-3: no round trip of what was sent again", "ns3", "srtt", 80,
        send(0, 4, data(0), round_trip=120.0),
    ),
    # At 10 Mbit/s 0, 3 and 6 of ten are lost, 6 twice. The fifth shows 0, which goes again; its
    # acknowledgement sets the timer, 240 ms, and that of 3 does not.
    case(
        "ns-3: the timer at the first partial acknowledgement", "ns3 reno", "took",
        arrives("ns3", 5) + arrives("ns3", 1) + 240 + SEGMENT_MS["ns3"] / SLOW + 40,
        send(0, 10, data(0), data(3), data(6), data(6, 1)), mbit_per_s=10.0,
    ),
]
# fmt: on


@pytest.mark.parametrize(("stack", "variable", "expected", "sends", "settings"), CASES)
def test_a_rule(
    stack: str, variable: str, expected: float, sends: tuple[Send, ...], settings: dict[str, Any]
) -> None:
    names = {"mbit_per_s", "way", "loss", "back_loss"} & settings.keys()
    of_line = {"mbit_per_s": math.inf, "loss": 0.05} | {name: settings[name] for name in names}
    of_stack = {name: settings[name] for name in settings.keys() - names}
    line = Line(plain(*stack.split(), **of_stack), **of_line)
    for one in sends:
        begin = line.now + one.pause
        how = {"round_trip": one.round_trip, "wait": one.until is None}
        line.lose(one.pause, one.segments, *one.lost, **how)
        if one.until is not None:
            line.run(begin + one.until)
    if sends[-1].until is None:
        line.run(line.now + 500)
    found = took(line.done[len(sends) - 1]) if variable == "took" else line.state(variable)
    assert found == pytest.approx(expected)


def test_every_rule_has_its_test() -> None:
    """``rules.txt`` names a test for each rule, and every function whose summary names an RFC, or a
    function of Linux or ns-3."""
    lines = (HERE / "rules.txt").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line and line[0] != "#"]
    for _, _, rule, test in rows:
        if test != "=":
            file, name = test.split(".")
            assert f"def {name}(" in (HERE / f"test_{file}.py").read_text(), rule
    own = [rule for *_, rule, test in rows if test == "="]
    assert sorted(own) == sorted(each.id for each in CASES)
    following, functions = set(), set()
    for path in set(MODELS.rglob("*.py")) - {MODELS / "traffic.py"}:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                name = f"{path.relative_to(MODELS).with_suffix('')}.{node.name}"
                functions.add(name)
                summary = ast.get_docstring(node) or ""
                if "RFC" in summary or "(``" in summary:
                    following.add(name)
    named = {name for names, *_ in rows for name in names.split(", ")}
    assert following <= named <= functions
