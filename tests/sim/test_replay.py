"""Replays agree with the engine bit by bit, and with closed forms within what chance allows.

The engine runs with stand-ins for the parties: they run the recorded rounds when their messages
are there and send as many bytes, without the cryptography, which takes too long for thousands of
runs. Real parties are compared, too, in fewer cases.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import UsageError
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Done, Output, Party, Send, Waiting
from mpcsim.protocols.engine.events import StepFinished, StepStarted, silent
from mpcsim.sim.network.draws import TransferKey
from mpcsim.sim.network.latency import Constant, Empirical, Gamma, Latency, LogNormal, Uniform
from mpcsim.sim.network.losses import GilbertElliott, TimedGilbertElliott
from mpcsim.sim.network.topology import Direction, Link, Network, Site
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.replay import DrawTable, GraphMessage, MessageGraph, Replay, Step, plan, record
from mpcsim.sim.replay.kernels.arrays import PARTS
from mpcsim.sim.replay.results import Explanation, PathShare
from mpcsim.sim.run import compute
from mpcsim.sim.run.compute import Compute, Declared
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.faults import drop, duplicate
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.critical_path import critical_path
from tests.helpers.reviewed import check_calls
from tests.helpers.sessions import DEFINITIONS, session
from tests.helpers.tiers import examples
from tests.helpers.toy import TOY, toy_parties

GRAPHS = (
    "ecdsa-2",
    "ecdsa-3",
    "presign-2",
    "presigned-3",
    "dkg-ed25519",
    "dkg-secp256k1",
    "frost-2",
    "reshare-secp256k1",
)
COLD = Connection(cold=True)


@cache
def graph(name: str) -> MessageGraph:
    parties = session(name).parties()
    home = Network.mesh([party.me for party in parties], 1.0)
    return record(VirtualRun(parties, home, name=name).run())


# ---------------------------------------------------------------------- stand-ins


class StandIn(Party[Any, Any]):
    """Runs the steps of a graph in place of a party."""

    def __init__(self, of: MessageGraph, me: PartyId) -> None:
        self.me = me
        self.listener = silent
        self.outcome = None
        self.session_id = bytes(32)
        self.reproducible = True
        self.definition = DEFINITIONS.get(of.name, TOY)
        self.of = of
        self.steps = [step for step in of.steps if step.party == me]
        self.there: set[int] = set()

    def start(self) -> list[Output[Any]]:
        return self._go()

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        self.there.add(int.from_bytes(data[:4], "big"))
        return self._go()

    def waiting_state(self) -> Waiting | None:
        return None

    def _go(self) -> list[Output[Any]]:
        outputs: list[Output[Any]] = []
        while self.steps and self.there.issuperset(self.steps[0].needs):
            step = self.steps.pop(0)
            self.listener(StepStarted(self.me, step.protocol, step.round, step.name))
            self.listener(StepFinished(self.me, step.protocol, step.round, step.name))
            for number in step.sends:
                packet = self.of.messages[number]
                data = number.to_bytes(4, "big").ljust(packet.size, b"\0")
                outputs.append(Send(packet.receiver, data, packet.kind, step.round))
            if not self.steps:
                self.outcome = Done(None)
                outputs.append(self.outcome)
        return outputs


def stand_ins(of: MessageGraph) -> list[Party[Any, Any]]:
    return [StandIn(of, i) for i in of.parties]


def compare(
    of: MessageGraph,
    network: Network,
    samples: int,
    *,
    costs: Compute | None = None,
    seed: int = 0,
    parties: Callable[[], Sequence[Any]] | None = None,
) -> tuple[Replay, list[Trace]]:
    """Assert that replay and engine agree in every sample, exactly."""
    table = DrawTable(samples, seed)
    found = of.replay(network, samples, costs=costs, parties=True, draws=table)
    traces = []
    for k in range(samples):
        made = parties() if parties else stand_ins(of)
        trace = VirtualRun(made, network, compute=costs, draws=table.sample(k)).run()
        ends = {e.party: e.at_ms if e.status == "done" else math.inf for e in trace.endings}
        assert max(ends.values()) == found.finished_ms[k], f"sample {k} over {network}"
        assert ends == {i: times[k] for i, times in found.parties_ms.items()}, f"sample {k}"
        traces.append(trace)
    return found, traces


def declared(of: MessageGraph, ms: float = 2.0) -> Declared:
    """Rounds that take ``ms``, a little more each, so that work often waits for work."""
    return Declared({(step.protocol, step.name): ms + 0.37 * step.round for step in of.steps})


# ---------------------------------------------------------------------- exact agreement

LATENCIES: dict[str, tuple[Latency, Latency, Latency]] = {
    "constant": (Constant(10.0), Constant(1.0), Constant(30.0)),
    "log-normal": (LogNormal(10.0, 0.8), LogNormal(1.0, 1.0), LogNormal(20.0, 0.3, 15.0)),
    "gamma": (Gamma(10.0, 0.5), Gamma(3.0, 1.0, 1.0), Gamma(5.0, 4.0)),
}
CONDITIONS: dict[str, dict[str, Any]] = {
    "warm": {},
    "cold": {"connection": COLD},
    "wide": {"connection": Connection(initial_window=25)},
    "kept while idle": {"connection": Connection(initial_window=2, slow_start_after_idle=False)},
    "lossy": {"loss": 0.02},
    "in bursts by time": {"loss": TimedGilbertElliott.of(0.05, burst_ms=30.0)},
    "slow": {"mbit_per_s": 1.0},
    "one at a time": {"connection": Connection(pool=1), "loss": 0.01},
    "http2": {"connection": Connection(http="2"), "loss": 0.02},
    "reno": {"connection": Connection(congestion="reno"), "loss": 0.05},
    "ns3": {"connection": Connection(profile="ns3", cold=True, tls_round_trips=0), "loss": 0.05},
    "0-RTT": {"connection": Connection(cold=True, resumption=True, early_data=True), "loss": 0.02},
    "all at once": {
        "connection": Connection(cold=True, tls_round_trips=2, overhead_bytes=900),
        "loss": 0.1,
        "mbit_per_s": 3.0,
        "service_ms": 0.7,
    },
}


@pytest.mark.few(20)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("latency", LATENCIES)
@pytest.mark.parametrize("name", ["ecdsa-2", "ecdsa-3", "dkg-secp256k1"])
def test_agrees_with_the_engine(name: str, latency: str, condition: str) -> None:
    of = graph(name)
    network = Network.star(*LATENCIES[latency], **CONDITIONS[condition])
    # Every other case with computation, on a slow machine at one end.
    odd = (list(LATENCIES).index(latency) + list(CONDITIONS).index(condition)) % 2
    compare(
        of,
        network.with_site("client", cpu_factor=3.3),
        25,
        costs=declared(of) if odd else None,
        seed=len(condition),
    )


@pytest.mark.few(5)
@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_session(name: str) -> None:
    of = graph(name)
    network = Network.mesh(range(1, 5), Uniform(0.0, 30.0), loss=0.02, mbit_per_s=20.0)
    compare(of, network, 3, costs=declared(of), parties=session(name).parties)


def test_parties_at_one_site() -> None:
    sites = {"here": Site("here", cores=2), "there": Site("there")}
    placement = {PartyId(1): "here", PartyId(2): "here", PartyId(3): "there"}
    network = Network(sites, (Link("here", "there", Gamma(9.0, 0.7)),), placement)
    for name in ("dkg-ed25519", "ecdsa-3"):
        compare(graph(name), network, 50)
        compare(graph(name), network, 50, costs=declared(graph(name)))


def test_the_largest_window() -> None:
    """Megabytes, which no protocol here sends: the window stops growing at 511 segments."""
    network = Network.mesh((1, 2), LogNormal(20.0, 0.5), mbit_per_s=10_000.0, loss=1e-4)
    compare(one_message(30_000_000), network, 5)


latencies = st.one_of(
    st.floats(0, 300).map(Constant),
    st.builds(LogNormal, st.floats(0, 300), st.floats(0, 2)),
    st.builds(Gamma, st.floats(0, 300), st.floats(0.05, 5)),
    st.floats(0, 100).map(lambda low: Uniform(low, 2 * low)),
    st.lists(st.sampled_from([0.0, 1.0, 250.0]), min_size=1).map(Empirical.of),
)
rates = st.sampled_from([0.01, 0.2, 1.0, 8.0, 1000.0, float("inf")])
BURSTS = GilbertElliott.of(0.05, packets=20)
TIMED = TimedGilbertElliott.of(0.1, burst_ms=400.0)
losses = st.sampled_from([0.0, 0.0, 0.001, 0.1, 0.6, BURSTS, TIMED])
connections = st.builds(
    Connection,
    st.booleans(),
    st.integers(0, 2),
    st.sampled_from([0, 300, 20_000]),
    st.sampled_from([1, 3, 10, 40]),
    st.booleans(),
    profile=st.sampled_from(["linux", "ns3"]),
    congestion=st.sampled_from(["cubic", "reno"]),
    http=st.sampled_from(["1.1", "2"]),
    pool=st.sampled_from([1, 2, 8]),
    resumption=st.booleans(),
)


@st.composite
def networks(draw: Any) -> Network:
    """A star, a mesh or a chain."""
    sites = [
        Site(name, draw(st.sampled_from([0.5, 1.0, 3.0])), 1, draw(st.sampled_from([0.0, 2.0])))
        for name in ("a", "b", "c", "x")
    ]
    pairs = draw(
        st.sampled_from([("ax", "bx", "cx"), ("ab", "ac", "bc"), ("ax", "xb", "bc"), ("ba", "ac")])
    )
    links = tuple(
        Link(
            one,
            other,
            draw(latencies),
            draw(rates),
            draw(losses),
            back_latency=draw(st.none() | latencies),
            back_mbit_per_s=draw(st.none() | rates),
            back_loss=draw(st.none() | losses),
        )
        for one, other in pairs
    )
    placement = {PartyId(i): name for i, name in zip((1, 2, 3), "abc", strict=True)}
    return Network({site.name: site for site in sites}, links, placement, draw(connections))


@given(
    st.sampled_from(GRAPHS),
    networks(),
    st.none() | st.sampled_from([0.0, 0.1, 5.0, 400.0]),
    st.data(),
)
@examples(26)
def test_agrees_over_any_network(
    name: str, network: Network, cost: float | None, data: st.DataObject
) -> None:
    of = graph(name)
    costs = None
    if cost is not None:
        # Some rounds take no time, some much.
        factors = st.sampled_from([0.0, 1.0, 7.0])
        keys = sorted({(step.protocol, step.name) for step in of.steps})
        costs = Declared({key: cost * data.draw(factors) for key in keys})
    compare(of, network, 8, costs=costs, seed=data.draw(st.integers(0, 3)))


@st.composite
def invented(draw: Any) -> MessageGraph:
    """Rounds of three parties that send whatever to whomever; each waits for the one before."""
    ids = [PartyId(i) for i in (1, 2, 3)]
    sizes = st.none() | st.sampled_from([1, 4, 10, 11, 20, 25, 60]).map(lambda n: n * 1448 - 400)
    steps: list[Step] = []
    packets: list[GraphMessage] = []
    came: dict[PartyId, list[int]] = {i: [] for i in ids}
    for number in range(1, draw(st.integers(2, 5)) + 1):
        coming: dict[PartyId, list[int]] = {i: [] for i in ids}
        for i in ids:
            first = len(packets)
            for j in ids:
                # Up to two messages to the same party; Send names its round by number.
                for size in draw(st.lists(sizes, max_size=2)) if i != j else ():
                    if size is not None:
                        coming[j].append(len(packets))
                        packets.append(GraphMessage("Word", i, j, size, len(steps)))
            sends = tuple(range(first, len(packets)))
            steps.append(Step(i, "toy", number, f"round {number}", tuple(came[i]), sends))
        came = coming
    return MessageGraph("invented", tuple(steps), tuple(packets))


@given(invented(), networks(), st.none() | st.sampled_from([0.0, 5.0, 400.0]), st.integers(0, 3))
@examples(33)
def test_agrees_on_any_session(
    of: MessageGraph, network: Network, cost: float | None, seed: int
) -> None:
    compare(of, network, 6, costs=None if cost is None else declared(of, cost), seed=seed)


def conversation(*sizes: int) -> MessageGraph:
    """Party 1 sends messages of these sizes, each after a short answer to the one before."""
    one, two = PartyId(1), PartyId(2)
    steps: list[Step] = []
    packets: list[GraphMessage] = []
    for size in sizes:
        needs = (len(packets) - 1,) if packets else ()
        number = len(packets)
        steps.append(Step(one, "toy", len(steps), "ask", needs, (number,)))
        packets.append(GraphMessage("Word", one, two, size, len(steps) - 1))
        steps.append(Step(two, "toy", len(steps), "answer", (number,), (number + 1,)))
        packets.append(GraphMessage("Word", two, one, 100, len(steps) - 1))
    steps.append(Step(one, "toy", len(steps), "end", (len(packets) - 1,), ()))
    return MessageGraph("conversation", tuple(steps), tuple(packets))


def test_idle_for_a_timeout_but_not_for_a_segment() -> None:
    """On a very slow link a full segment takes longer than the timeout."""
    there, back = Constant(5.0), Uniform(20_000.0, 22_500.0)
    link = Link("a", "b", there, 0.01, back_latency=back, back_mbit_per_s=1000.0)
    sites = {"a": Site("a"), "b": Site("b")}
    placement = {PartyId(1): "a", PartyId(2): "b"}
    network = Network(sites, (link,), placement, Connection(overhead_bytes=0))
    compare(conversation(50, 20 * 1448, 20 * 1448), network, 400)


def test_messages_that_arrive_together() -> None:
    """Two messages reach a site at the same moment. One goes on from there; the other makes a party
    send something on the same link. Which of these is first is the same for both."""
    one, two, three = map(PartyId, (1, 2, 3))
    of = MessageGraph(
        "together",
        (
            Step(two, "toy", 1, "say", (), (0, 1)),
            Step(one, "toy", 1, "answer", (0,), (2,)),
            Step(three, "toy", 1, "hear", (1, 2), ()),
        ),
        (
            GraphMessage("Word", two, one, 1000, 0),
            GraphMessage("Word", two, three, 1000, 0),
            GraphMessage("Word", one, three, 20_000, 1),
        ),
    )
    links = (
        Link("b", "a", Constant(5.0), mbit_per_s=float("inf")),
        Link("a", "c", LogNormal(20.0, 0.5), mbit_per_s=1.0),
    )
    sites = {name: Site(name) for name in "abc"}
    placement = {one: "a", two: "b", three: "c"}
    for connection in (Connection(), Connection(http="2")):
        compare(of, Network(sites, links, placement, connection), 50)


def test_a_burst_ends_with_any_gap() -> None:
    """Messages before and after a round that sends nothing share draws only if nothing waited."""
    one, two, three = map(PartyId, (1, 2, 3))
    of = MessageGraph(
        "gap",
        (
            Step(one, "toy", 1, "begin", (), (0,)),
            Step(three, "toy", 1, "first", (), (1,)),
            Step(three, "toy", 2, "more", (), (2,)),
            Step(one, "toy", 2, "second", (1,), ()),
            Step(one, "toy", 3, "third", (2,), (3,)),
            Step(two, "toy", 1, "first", (0, 3), ()),
        ),
        (
            GraphMessage("Word", one, two, 100, 0),
            GraphMessage("Word", three, one, 100, 1),
            GraphMessage("Word", three, one, 100, 2),
            GraphMessage("Word", one, two, 100, 4),
        ),
    )
    network = Network.mesh((1, 2, 3), Uniform(0.0, 40.0), mbit_per_s=1.0)
    # Round 2 of party 1 follows a wait, or not; round 3 always directly follows round 2.
    costs = {"begin": 20.0, "first": 1.0, "more": 5.0, "second": 20.0, "third": 1.0}
    compare(of, network, 200, costs=Declared({("toy", name): ms for name, ms in costs.items()}))


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    of, network = graph("dkg-secp256k1"), Network.star(*LATENCIES["gamma"], loss=0.1)
    table = DrawTable(1000)
    whole = of.replay(network, 1000, draws=table, explain=True, parties=True)
    monkeypatch.setattr(plan, "CHUNK", 64)
    parts = of.replay(network, 1000, draws=table, explain=True, parties=True)
    assert (whole.finished_ms == parts.finished_ms).all()
    for i, times in whole.parties_ms.items():
        assert (times == parts.parties_ms[i]).all()
    assert whole.explanation is not None
    assert parts.explanation is not None
    assert whole.explanation.last == parts.explanation.last
    for part, ms in whole.explanation.split_ms.items():
        assert ms == pytest.approx(parts.explanation.split_ms[part])


# ---------------------------------------------------------------------- explanations


@pytest.mark.few(6)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name", ["ecdsa-2", "dkg-secp256k1"])
def test_explains_as_the_analysis_of_a_trace_does(name: str, condition: str) -> None:
    """But for messages that come to a party at the same moment, as those that HTTP/2 held up do:
    which of them was the last is a matter of taste."""
    of, network = graph(name), Network.star(*LATENCIES["log-normal"], **CONDITIONS[condition])
    table = DrawTable(40)
    split = dict.fromkeys(PARTS, 0.0)
    links: dict[str, list[float]] = {}
    link_split_ms: dict[tuple[str, str], float] = {}
    last: dict[PartyId, float] = dict.fromkeys(of.parties, 0.0)
    chosen = []
    for k in range(40):
        run = VirtualRun(stand_ins(of), network, compute=declared(of), draws=table.sample(k))
        trace = run.run()
        if len({(m.receiver, m.received_ms) for m in trace.messages}) < len(trace.messages):
            continue
        chosen.append(k)
        path = critical_path(trace)
        for part, ms in path.parts.items():
            if part in split or ms:
                split[part] += ms
        for where, ms in path.places.items():
            if "→" in where:
                links.setdefault(where, []).append(ms)
        for segment in path.segments:
            for part, ms in segment.parts.items():
                if part not in ("compute", "service") and ms > 0:
                    where = segment.where, part
                    link_split_ms[where] = link_split_ms.get(where, 0.0) + ms
        ends = {ending.party: ending.at_ms for ending in trace.endings}
        last[max(of.parties, key=lambda i: ends[i])] += 1
    count = len(chosen)
    assert count >= 5

    def source(
        key: TransferKey, direction: Direction, part: Any, samples: slice
    ) -> np.ndarray[Any, np.dtype[Any]]:
        drawn = table(key, direction, part, slice(0, 40))
        return drawn[chosen][samples] if len(drawn) == 40 else drawn

    found = of.replay(network, count, costs=declared(of), explain=True, draws=source).explanation
    assert found is not None
    assert found.split_ms == pytest.approx({p: ms / count for p, ms in split.items()}, abs=1e-9)
    assert found.last == pytest.approx({i: times / count for i, times in last.items()})
    assert {n: share.probability for n, share in found.links.items() if share.probability} == (
        pytest.approx({name: len(times) / count for name, times in links.items()})
    )
    for link, times in links.items():
        assert found.links[link].mean_ms == pytest.approx(sum(times) / count)
    parts = {
        (link, part): ms
        for link, spent in found.link_split_ms.items()
        for part, ms in spent.items()
    }
    assert parts == pytest.approx({key: ms / count for key, ms in link_split_ms.items()}, abs=1e-9)


# ---------------------------------------------------------------------- statistics


def one_message(size: int) -> MessageGraph:
    """Party 1 sends party 2 a message."""
    one, two = PartyId(1), PartyId(2)
    steps = (Step(one, "toy", 1, "say", (), (0,)), Step(two, "toy", 1, "hear", (0,), ()))
    return MessageGraph("one message", steps, (GraphMessage("Word", one, two, size, 0),))


SAMPLES = 200_000


@pytest.mark.parametrize(
    "latency",
    [LogNormal(20.0, 0.6), LogNormal(20.0, 0.4, 10.0), Gamma(9.0, 2.0), Uniform(2.0, 9.0)],
    ids=str,
)
def test_mean_and_deviation_of_one_message(latency: Latency) -> None:
    network = Network.mesh((1, 2), latency, mbit_per_s=8.0)
    found = one_message(1100).replay(network, SAMPLES, seed=3)
    wire = (1100 + 300 + 52) * 8 / 8000  # 300 bytes of HTTP, 52 of headers
    assert abs(found.mean_ms - latency.mean_ms - wire) < 5 * latency.std_ms / np.sqrt(SAMPLES)
    assert found.std_ms == pytest.approx(latency.std_ms, rel=0.02)
    assert found.finished_ms.min() > wire


def test_draws_are_independent() -> None:
    """Of what comes before, and from chunk to chunk; the same seed gives the same."""
    network = Network.mesh((1, 2), LogNormal(20.0, 0.6))
    found = one_message(100).replay(network, SAMPLES, seed=5)
    times = np.log(found.finished_ms)
    for lag in (1, plan.CHUNK):
        correlation = np.corrcoef(times[:-lag], times[lag:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(SAMPLES)
    same = one_message(100).replay(network, SAMPLES, seed=5)
    assert (same.finished_ms == found.finished_ms).all()
    other = one_message(100).replay(network, SAMPLES, seed=6)
    assert (other.finished_ms != found.finished_ms).all()


# ---------------------------------------------------------------------- results


def test_results() -> None:
    found = one_message(100).replay(Network.mesh((1, 2), Uniform(0.0, 100.0)), 50_000, parties=True)
    assert found.samples == 50_000
    at = found.percentiles((0, 50, 100))
    assert at[0] == found.finished_ms.min()
    assert at[100] == found.finished_ms.max()
    assert at[50] == found.percentile(50) == pytest.approx(50, abs=2)
    times, shares = found.cdf(11)
    assert shares == pytest.approx(np.arange(11) / 10)
    assert times[5] == at[50]
    assert (np.diff(times) > 0).all()
    assert found.share_within(times[3]) == pytest.approx(0.3, abs=1e-4)
    assert set(found.parties_ms) == {1, 2}
    assert (found.parties_ms[PartyId(1)] == 0).all()
    assert (found.parties_ms[PartyId(2)] == found.finished_ms).all()
    assert "50,000 samples" in str(found)
    p99 = found.percentile(99)
    assert found.headline == f"{found.name} over mesh: p50 {at[50]:.2f} ms, p99 {p99:.2f} ms"
    assert found.scope == "protocol"
    assert "scope protocol" in str(found)
    assert "scope='protocol'" in repr(found)
    assert "1 message," in str(one_message(100))


def test_what_takes_longest_is_told_first() -> None:
    links = {"a → b": PathShare(0.5, 3.0), "b → a": PathShare(1.0, 7.0), "c": PathShare(0.0, 9.0)}
    table = Explanation({"latency": 10.0}, links, {}, {}, {}).tables()[1]
    assert [row[0] for row in table.rows] == ["b → a", "a → b"]


# ---------------------------------------------------------------------- what cannot be replayed


def test_what_can_be_replayed_and_asked() -> None:
    def of(samples: int, **how: Any) -> Replay:
        return graph("frost-2").replay(samples=samples, **{"network": Network.star(), **how})

    names = {"replay": of, "graph": graph, "Network": Network, "DrawTable": DrawTable}
    check_calls(Path(__file__).with_name("wrong_replays.txt"), compute, **names)


def test_too_few_cores() -> None:
    sites = {"office": Site("office", cores=2), "home": Site("home")}
    placement = {PartyId(1): "office", PartyId(2): "office", PartyId(3): "office"}
    network = Network(sites, (Link("office", "home", Constant(1.0)),), placement)
    with pytest.raises(UsageError, match="site office hosts 3 parties on 2 cores"):
        graph("ecdsa-3").replay(network, 10)
    graph("ecdsa-2").replay(network, 10)
    graph("ecdsa-3").replay(network.with_site("office", cores=3), 10)


def trace_of(name: str, **how: Any) -> Trace:
    return VirtualRun(session(name).parties(), Network.star(1.0, 2.0, 3.0), name=name, **how).run()


def test_incomplete_runs() -> None:
    with pytest.raises(UsageError, match="party 1 waiting"):
        record(trace_of("ecdsa-2", faults=[drop("Offer", sender=2)]))
    with pytest.raises(UsageError, match="was duplicate"):
        record(trace_of("ecdsa-2", faults=[duplicate("Offer")]))


def test_traces_that_were_tampered_with() -> None:
    trace = trace_of("frost-2")
    again = replace(trace.messages[0], number=len(trace.messages))
    with pytest.raises(UsageError, match="again"):
        record(replace(trace, messages=(*trace.messages, again)))
    other = replace(trace.messages[0], session="another")
    with pytest.raises(UsageError, match="several sessions"):
        record(replace(trace, messages=(*trace.messages[1:], other)))
    lost = replace(trace.messages[0], work=None)
    with pytest.raises(UsageError, match="not sent by a round"):
        record(replace(trace, messages=(*trace.messages[1:], lost)))


def test_other_protocols_need_their_definition() -> None:
    trace = VirtualRun(toy_parties(1000, 50_000, 3), Network.mesh((1, 2, 3), 1.0)).run()
    with pytest.raises(UsageError, match="toy"):
        record(trace)
    with pytest.raises(UsageError, match="not of frost"):
        record(trace, DEFINITIONS["frost-2"])
    of = record(trace, TOY)
    network = Network.mesh((1, 2, 3), Gamma(30.0, 0.6), mbit_per_s=10.0)
    compare(of, network, 50, parties=lambda: toy_parties(1000, 50_000, 3))
