"""TCP gives up: when, what becomes of what was sent, and of the next that is sent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mpcsim.capacity import Deployment, Steady, Workload
from mpcsim.ids import CLIENT, OPERATOR
from mpcsim.sim import Connection, Network, Verdict
from mpcsim.sim.network import GilbertElliott
from mpcsim.sim.network.traffic import Arrival
from mpcsim.sim.replay import GraphMessage, MessageGraph, Step, fitted
from mpcsim.sim.replay.steps import GATEWAY
from mpcsim.sim.run.engine import VirtualRun
from tests.helpers.made_up_costs import made_up
from tests.helpers.sessions import SESSIONS
from tests.sim.network.tcp.lab import Line, plain

NOTHING_COMES = GilbertElliott(to_bad=1.0, to_good=1e-12)
SYN_MS = {
    # 1 s five times, then 2, 4 .. 64 s; timers ring half a step late: 16 ms, or 128 from 2 s on.
    "linux": 5 * 1016 + 2016 + 4128 + 8128 + 16128 + 32128 + 64128,
    "ns3": 63_000,  # 1, 2, 4 .. 32 s
}


def failure(line: Line) -> Arrival:
    found = line.traffic.advance(line.now, math.inf)
    assert found is not None
    assert (found.failed, found.whole, found.size) == (True, True, 0)
    return found


@pytest.mark.parametrize("profile", SYN_MS)
def test_a_connection_that_nobody_answers(profile: str) -> None:
    line = Line(plain(profile, cold=True), loss=NOTHING_COMES)
    line.send(0.0, 100)
    assert failure(line).at_ms == pytest.approx(SYN_MS[profile])


@pytest.mark.parametrize(
    ("profile", "least", "most"),
    # Linux: at the first timeout 924.6 s after the first repetition, which are 120 s apart then.
    # ns-3: at the seventh in a row of 80 + 4 * 40 ms, doubled each time.
    [("linux", 924_600, 924_600 + 121_000), ("ns3", 240 * (2**7 - 1), 240 * (2**7 - 1))],
)
def test_data_that_nobody_acknowledges(profile: str, least: float, most: float) -> None:
    line = Line(plain(profile), loss=NOTHING_COMES)
    numbers = {line.send(0.0, 100), line.send(0.0, 100)}
    first, second = failure(line), failure(line)
    assert least <= first.at_ms == second.at_ms <= most
    assert {line._numbers[each.number] for each in (first, second)} == numbers
    transfer = line.traffic.take_transfer(first.number)
    assert transfer.recovery_ms == transfer.arrived_ms == first.at_ms


def test_what_is_sent_next_opens_it_anew() -> None:
    """80 ms for SYN and SYN-ACK, 40 for the message."""
    line = Line(plain("ns3"), loss=GilbertElliott(1.0, 1e-12))
    line.send(0.0, 100)
    line.now = failure(line).at_ms
    line.traffic._records.links["wire"]["bad_loss"] = 0.0
    for half in line.traffic._records.connections["half"][0]:
        half["wire"]["bad_loss"] = 0.0
    assert line(line.now, 100).handshake_ms == pytest.approx(80, abs=0.1)


# ------------------------------------------------------------------ calls


def test_a_session_over_it_stalls_and_counts_as_failed_in_a_replay() -> None:
    parties = SESSIONS["frost-2"]().parties()
    network = Network.star(5.0, 5.0, 5.0, loss=NOTHING_COMES)
    trace = VirtualRun(parties, network).run()
    assert trace.verdict is Verdict.STALLED
    assert {message.fate for message in trace.messages} == {"lost"}
    assert 924_600 < trace.finished_ms < 2_000_000


def call(timeouts_s: tuple[float, float]) -> MessageGraph:
    """A request to the gateway, which asks the operator before it answers."""
    hops = [(CLIENT, GATEWAY, 0), (GATEWAY, OPERATOR, 1), (OPERATOR, GATEWAY, 1)]
    hops.append((GATEWAY, CLIENT, 0))
    steps = [
        Step(source, "rest", at, "say", (at - 1,) if at else (), (at,))
        for at, (source, _, _) in enumerate(hops)
    ]
    steps.append(Step(CLIENT, "rest", 9, "done", (3,), ()))
    packets = tuple(
        GraphMessage("M", a, b, 100, at, exchange) for at, (a, b, exchange) in enumerate(hops)
    )
    return MessageGraph("call", tuple(steps), packets, "rest", timeouts_s)


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize(
    ("client_ms", "operator_ms", "answered"),
    [(100, 9_000, True), (100, 10_100, False), (5_900, 9_000, True), (6_100, 9_000, False)],
)
def test_the_service_waits_for_20_and_30_seconds(
    client_ms: float,
    operator_ms: float,
    answered: bool,
    approximate: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitted, "JUDGED", fitted.CHUNK)  # all are alike
    network = Network.star(client_ms, operator_ms)
    found = call((30.0, 20.0)).replay(network, 3, approximate=approximate)
    assert (found.failed == 0) == answered
    assert call((math.inf, math.inf)).replay(network, 3).failed == 0


def test_a_call_under_load_breaks() -> None:
    network = Network.star(2.0, 2.0, 2.0, loss=NOTHING_COMES)
    run = Deployment(network).run(Workload(Steady(0.1)), seconds=2_000.0, costs=made_up())
    assert run.outcomes()["broken"] > 90
    assert run.outcomes()["done"] == 0


def means(loss: GilbertElliott, *samples: int, **connection: Any) -> list[float]:
    network = Network.star(50.0, 50.0, 50.0, loss=loss, connection=Connection(**connection))
    graph = call((30.0, 20.0))
    return [graph.replay(network, n, seed=1).mean_ms for n in samples]


def test_bursts_give_no_runs_of_centuries() -> None:
    assert means(GilbertElliott.of(0.01, 10), 20_000, cold=True)[0] < 2_000
    few, many = means(GilbertElliott.of(0.01, 4), 2_000, 100_000)
    assert many == pytest.approx(few, rel=0.5)


def test_failed_calls_are_counted_and_left_out_of_the_times() -> None:
    network = Network.star(50.0, 50.0, 50.0, loss=GilbertElliott.of(0.05, 20))
    kept = call((30.0, 20.0)).replay(network, 3_000, explain=True)
    counted = call((30.0, 20.0)).distribution(network, 3_000, explain=True)
    failed = int(np.isinf(kept.finished_ms).sum())
    assert kept.failed == counted.failed == failed > 30
    assert kept.samples == counted.samples == 3_000
    assert kept.mean_ms == pytest.approx(kept.finished_ms[np.isfinite(kept.finished_ms)].mean())
    assert counted.mean_ms == pytest.approx(kept.mean_ms)
    assert kept.share_within(1e9) == counted.share_within(1e9) == pytest.approx(1 - failed / 3_000)
    assert f"{failed} of 3,000 failed" in str(kept)
    assert kept.explanation is not None
    assert sum(kept.explanation.split_ms.values()) == pytest.approx(kept.mean_ms)
    assert counted.explanation == kept.explanation
