"""Real time: the same messages as in virtual time, never early, and nothing left behind.

How late messages are is a benchmark (``mpcsim.bench.realtime``); here only lower bounds are
asserted, which a slow machine cannot break.
"""

import asyncio
import gc
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mpcsim.bench.protocols import keys
from mpcsim.bench.realtime import signers
from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Output, Party
from mpcsim.protocols.key_share import KeyShare
from mpcsim.sim.network.draws import TransferKey
from mpcsim.sim.network.latency import Constant
from mpcsim.sim.network.topology import Direction, Link, Network, Site
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.run.adversary import WrappedParty
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.faults import Crash, delay, drop, duplicate
from mpcsim.sim.run.realtime import event_loop
from mpcsim.sim.run.realtime.realtime import real_time, run_real_time
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import MessageRecord, Verdict

Name = tuple[str, int, int]

NETWORKS = {
    "direct": Network.mesh((1, 2, 3), 4.0),
    "gateway": Network.star(2.0, 4.0, 3.0, service_ms=1.5),
    "cold": Network.star(1.0, 1.0, 1.0).with_connection(cold=True),
    "lossy": Network(
        {"a": Site("a"), "b": Site("b")},
        (Link("a", "b", Constant(4.0), mbit_per_s=20.0, loss=0.02),),
        {PartyId(1): "a", PartyId(2): "b"},
    ),
    "one site": Network(
        {"here": Site("here")}, (), {PartyId(1): "here", PartyId(2): "here"}, name="one site"
    ),
}
FAR = Network.mesh((1, 2, 3), 60_000.0)


@pytest.fixture(scope="module")
def ed() -> dict[PartyId, KeyShare]:
    return keys("ed25519")


@pytest.fixture(scope="module")
def secp() -> dict[PartyId, KeyShare]:
    return keys("secp256k1")


def open_sockets() -> set[int]:
    found = (o for o in gc.get_objects() if isinstance(o, socket.socket))
    return {id(s) for s in found if s.fileno() != -1}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test here leaves a thread or an open socket behind."""
    threads, sockets = set(threading.enumerate()), open_sockets()
    yield
    assert set(threading.enumerate()) <= threads
    assert open_sockets() <= sockets


def sign(shares: dict[PartyId, KeyShare], network: Network, **options: Any) -> Trace:
    parties, valid = signers(shares)
    return real_time(parties, network, validate=valid, **options)


def name(message: MessageRecord) -> Name:
    return message.kind, message.sender, message.receiver


def causes(trace: Trace) -> dict[Name, set[Name]]:
    """For each message, those that its sender's work had to wait for, as far as recorded."""
    found: dict[Name, set[Name]] = {}
    for message in trace.messages:
        todo = [("work", message.work)]
        seen: set[Name] = set()
        while todo:
            what, number = todo.pop()
            if number is None:
                continue
            if what == "message":
                seen.add(name(trace.messages[number]))
                todo.append(("work", trace.messages[number].work))
            elif (cause := trace.work[number].cause) is not None:
                todo.append(cause)
        found[name(message)] = seen
    return found


# --------------------------------------------------------------------------- the same session


@pytest.mark.few(2)
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("curve", ["ed25519", "secp256k1"])
def test_same_session_as_in_virtual_time(
    request: pytest.FixtureRequest, curve: str, network: Network
) -> None:
    shares = request.getfixturevalue({"ed25519": "ed", "secp256k1": "secp"}[curve])
    parties, valid = signers(shares, secrets_seed="the same")
    virtual = VirtualRun(parties, network, validate=valid, name="x").run()
    parties, valid = signers(shares, secrets_seed="the same")
    real = real_time(parties, network, validate=valid, name="x")

    assert real.clock == real.compute == "real"
    assert (real.name, real.network, real.reproducible) == ("x", network.name, True)
    assert real.verdict is virtual.verdict is Verdict.VALID
    # Parties are deterministic: what they received and computed was the same, byte for byte.
    assert real.outcomes == virtual.outcomes
    assert [e.status for e in real.endings] == ["done", "done"]

    def facts(trace: Trace, party: int) -> list[tuple[object, ...]]:
        return [
            (m.session, m.protocol, m.round, *name(m), m.size, m.fate)
            for m in trace.messages
            if m.sender == party
        ]

    for party in (1, 2):
        assert facts(real, party) == facts(virtual, party)
    arrived = {name(m): m for m in real.messages}
    for later, earlier in causes(virtual).items():
        for cause in earlier:
            received = arrived[cause].received_ms
            assert received is not None
            assert received <= arrived[later].sent_ms


@pytest.mark.few(1)
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_every_hop_is_recorded_and_never_early(
    ed: dict[PartyId, KeyShare], network: Network
) -> None:
    trace = sign(ed, network)
    for message in trace.messages:
        route = network.route(message.sender, message.receiver)
        assert [(h.source, h.target) for h in message.hops] == [(d.source, d.target) for d in route]
        last = message.sent_ms
        for hop, direction in zip(message.hops, route, strict=True):
            t = hop.transfer
            assert t.given_ms >= last
            assert t.propagation_ms == direction.forward.mean_ms
            parts = t.queueing_ms + t.handshake_ms + t.window_ms + t.transmission_ms
            parts += t.propagation_ms + t.recovery_ms
            assert t.arrived_ms - t.given_ms == pytest.approx(parts)
            last = t.arrived_ms + hop.service_ms
        assert message.received_ms is not None
        assert message.received_ms >= last
    middle = [hop.service_ms for m in trace.messages for hop in m.hops[:-1]]
    assert set(middle) <= {network.sites["gateway"].service_ms if middle else 0.0}
    assert all(not m.hops or m.hops[-1].service_ms == 0 for m in trace.messages)


# --------------------------------------------------------------------------- how it is driven


def test_inside_a_running_loop(ed: dict[PartyId, KeyShare]) -> None:
    async def notebook() -> tuple[Trace, Trace]:
        blocking = sign(ed, NETWORKS["direct"])
        parties, valid = signers(ed)
        waiting = await run_real_time(parties, NETWORKS["gateway"], validate=valid)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return blocking, waiting

    for trace in asyncio.run(notebook()):
        assert trace.verdict is Verdict.VALID


@pytest.mark.parametrize("inside", [False, True], ids=["script", "notebook"])
def test_the_deadline_ends_a_run(ed: dict[PartyId, KeyShare], inside: bool) -> None:
    async def notebook() -> Trace:
        return sign(ed, FAR, deadline_s=0.1)

    trace = asyncio.run(notebook()) if inside else sign(ed, FAR, deadline_s=0.1)
    assert trace.verdict is Verdict.STALLED
    assert trace.finished_ms == 100.0
    assert [e.status for e in trace.endings] == ["waiting"] * 2
    # On a busy machine a party may not have begun by then.
    assert len(trace.messages) <= 2
    for message in trace.messages:
        assert message.received_ms is None
        assert message.hops[0].transfer.propagation_ms == 60_000.0


@pytest.mark.parametrize("begun", [False, True], ids=["at once", "under way"])
def test_an_interrupt_ends_a_run_in_a_thread(
    ed: dict[PartyId, KeyShare], monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    sending = threading.Event()

    class Interrupted(event_loop.Future):  # type: ignore[type-arg]
        def result(self, timeout: float | None = None) -> Any:
            assert not begun or sending.wait(60)
            raise KeyboardInterrupt

    def draws(key: TransferKey, direction: Direction) -> Draws:
        sending.set()
        return Draws(60_000.0, 60_000.0)

    async def notebook() -> Trace:
        return sign(ed, FAR, deadline_s=1e6, draws=draws)

    monkeypatch.setattr(event_loop, "Future", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(notebook())


class Wrapped(WrappedParty):
    """A participant that is not quite the party inside."""

    def __init__(
        self,
        party: Party[Any, Any],
        receive: Callable[[Party[Any, Any], int, bytes], list[Output[Any]]],
    ) -> None:
        self.party = party
        self._receive = receive

    def start(self) -> list[Output[Any]]:
        return self.party.start()

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        return self._receive(self.party, sender, data)


@pytest.mark.parametrize("inside", [False, True], ids=["script", "notebook"])
def test_a_bug_comes_out(ed: dict[PartyId, KeyShare], inside: bool) -> None:
    def broken(party: Party[Any, Any], sender: int, data: bytes) -> list[Output[Any]]:
        raise ZeroDivisionError("a bug")

    (one, two), _ = signers(ed)
    run = [one, Wrapped(two, broken)]

    async def notebook() -> Trace:
        return real_time(run, NETWORKS["gateway"])

    with pytest.raises(ZeroDivisionError, match="a bug"):
        if inside:
            asyncio.run(notebook())
        else:
            real_time(run, NETWORKS["gateway"])


@pytest.mark.few(1)
@pytest.mark.parametrize("deadline_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_deadline_is_positive_and_finite(ed: dict[PartyId, KeyShare], deadline_s: float) -> None:
    with pytest.raises(UsageError, match="deadline_s"):
        sign(ed, NETWORKS["direct"], deadline_s=deadline_s)


def test_a_party_needs_a_site(ed: dict[PartyId, KeyShare]) -> None:
    with pytest.raises(UsageError, match="party 2 has no site"):
        sign(ed, Network.mesh((1, 3)))


# --------------------------------------------------------------------------- faults


def test_a_dropped_message_stalls_at_once(ed: dict[PartyId, KeyShare]) -> None:
    # Nothing more can happen: the run does not wait for its deadline.
    trace = sign(ed, NETWORKS["direct"], faults=[drop("SignatureShare", sender=1)], deadline_s=1e6)
    assert trace.verdict is Verdict.STALLED
    (lost,) = (m for m in trace.messages if m.fate == "dropped")
    assert (name(lost), lost.received_ms, lost.hops) == (("SignatureShare", 1, 2), None, ())
    assert {e.party: e.status for e in trace.endings} == {1: "done", 2: "waiting"}
    assert trace.waiting[PartyId(2)].parties == {1}


@pytest.mark.soak
def test_a_delayed_message_comes_later(ed: dict[PartyId, KeyShare]) -> None:
    faults = [delay(30.0, "Commitments", receiver=2), duplicate("SignatureShare", after_ms=5.0)]
    trace = sign(ed, NETWORKS["direct"], faults=faults)
    assert trace.verdict is Verdict.VALID
    assert [m.kind for m in trace.messages if m.fate == "duplicate"] == ["SignatureShare"] * 2
    late = next(m for m in trace.messages if m.kind == "Commitments" and m.receiver == 2)
    assert late.received_ms is not None
    assert late.received_ms >= late.hops[0].transfer.arrived_ms + 30


def test_crashes_need_virtual_time(ed: dict[PartyId, KeyShare]) -> None:
    with pytest.raises(UsageError, match="virtual time"):
        sign(ed, NETWORKS["direct"], faults=[Crash(1)])
