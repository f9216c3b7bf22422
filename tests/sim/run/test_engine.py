"""The engine: time to the microsecond where it follows by hand, and any fault where it does not."""

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import Reason, UsageError
from mpcsim.protocols.engine import Party, Waiting
from mpcsim.protocols.local_run import LocalRun
from mpcsim.sim.network.latency import LogNormal, Uniform
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import Draws
from mpcsim.sim.run import adversary, compute, faults
from mpcsim.sim.run.adversary import Adversary, alter_kind, deviating_party
from mpcsim.sim.run.compute import Compute, Declared, Free, calibrate
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.faults import Crash, Effect, MessageFault, delay, drop, duplicate, partition
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import Verdict
from tests.helpers.reviewed import check_calls
from tests.helpers.sessions import dkg_session, frost_session, session
from tests.helpers.tiers import examples
from tests.helpers.toy import toy_parties
from tests.helpers.virtual import mesh, virtual

CHEAP = ("frost-2", "frost-3", "ecdsa-2", "dkg-ed25519", "reshare-ed25519")

JITTER = Network.star(
    LogNormal(20, 0.5), Uniform(1, 5), LogNormal(60, 0.2), loss=0.02, service_ms=0.5
)


def wire_ms(payload: int, segments: int, mbit_per_s: float) -> float:
    """What so many bytes take on the wire, in segments with 52 bytes of headers each."""
    return (payload + 52 * segments) * 8 / (mbit_per_s * 1000)


# ------------------------------------------------------------------ time by hand


@pytest.mark.parametrize(
    ("name", "delays", "why"),
    [
        ("frost-2", 2, "commitments, signature shares"),
        ("frost-3", 2, "the same: everyone speaks at once"),
        ("dkg-ed25519", 3, "commit, reveal, deal"),
        ("dkg-secp256k1", 3, "the same, with the base OTs beside"),
        ("reshare-ed25519", 4, "those and the confirmation"),
        ("ecdsa-2", 4 + 3, "commit, offer, respond, share; and respond waits three times"),
        ("ecdsa-3", 4 + 3, "the same"),
    ],
)
@pytest.mark.parametrize("one_way_ms", [50.0, 0.0])
def test_rounds_take_a_delay_each(name: str, delays: int, why: str, one_way_ms: float) -> None:
    """On infinitely fast lines nothing else takes time.

    One message is too long for its window: respond has 40 268 + 300 bytes, 29 segments, and leaves
    in four parts, a delay apart. After 2 delays the commit's one segment has been acknowledged,
    which makes the window 11, and the offer's 7 have not: 4 segments go. After 3 those have: window
    18, and 14 more go. After 4 the first 4 have: window 22, and 8 more go; after 5 the last 3.
    """
    s = session(name)
    trace = virtual(s, mesh(s, one_way_ms))
    assert trace.verdict is Verdict.VALID
    assert trace.finished_ms == delays * one_way_ms, why


@pytest.mark.parametrize(
    ("name", "service_ms", "finished_ms"),
    [
        ("frost-2", 0.0, 2 * (10 + 5)),
        ("frost-2", 1.5, 2 * (10 + 5 + 1.5)),
        ("frost-3", 0.0, 2 * (10 + 80)),  # the operator, 5 ms away, waits for the slowest
    ],
)
def test_a_star_adds_its_two_links(name: str, service_ms: float, finished_ms: float) -> None:
    """FROST between client, operator and institution, on infinitely fast lines."""
    network = Network.star(10.0, 5.0, 80.0, mbit_per_s=math.inf, service_ms=service_ms)
    trace = virtual(session(name), network)
    assert trace.finished_ms == finished_ms
    assert {len(message.hops) for message in trace.messages} == {2}


def test_ecdsa_by_hand() -> None:
    """100 Mbit/s, 50 ms one way, and a window that nothing waits for.

    commit: 168 + 300 bytes in one segment. offer: 8 927 + 300 in 7. respond: 40 268 + 300 in 29.
    share: 136 + 300. Acknowledgements leave while something is still coming, and delay nothing.
    """
    s = session("ecdsa-2")
    network = Network.mesh(s.members, 50.0, mbit_per_s=100.0).with_connection(initial_window=100)
    trace = virtual(s, network)
    assert {m.size for m in trace.messages} == {168, 8_927, 40_268, 136}
    sizes = [(468, 1), (9_227, 7), (40_568, 29), (436, 1)]
    on_the_wire = sum(wire_ms(payload, segments, 100.0) for payload, segments in sizes)
    assert trace.finished_ms == pytest.approx(4 * 50 + on_the_wire)


# ------------------------------------------------------------------ determinism


def test_faults_may_come_from_a_generator() -> None:
    """Every kind of fault, even though it is gone through once."""
    plan = [Crash(1), drop("Commitments"), partition({1}, {2})]
    s = session("frost-2")
    assert virtual(s, faults=iter(plan)) == virtual(s, faults=plan)


# ------------------------------------------------------------------ computing

ECDSA_ROUNDS = ("commit", "offer", "respond", "share", "assemble")
TEN = Declared({("ecdsa", name): 10.0 for name in ECDSA_ROUNDS})


def at_once(*factors: float) -> Network:
    """Two parties next to each other."""
    network = Network.mesh((1, 2), 0.0, mbit_per_s=math.inf)
    for party, factor in enumerate(factors, start=1):
        network = network.with_site(f"site {party}", cpu_factor=factor)
    return network


WIDE = Network.mesh((1, 2), 20.0, mbit_per_s=math.inf).with_connection(initial_window=100)
"""Windows that nothing waits for."""


@pytest.mark.parametrize(
    ("network", "compute", "finished_ms"),
    [
        (at_once(), Free(), 0),
        (at_once(), TEN, 5 * 10),  # five rounds, in step
        (at_once(1.0, 3.0), TEN, 5 * 30),  # each of the others' rounds waits for the slow one's
        (WIDE, TEN, 5 * 10 + 4 * 20),  # and four ways
    ],
)
def test_computing_and_the_way(network: Network, compute: Compute, finished_ms: float) -> None:
    trace = virtual(session("ecdsa-2"), network, compute=compute)
    assert trace.finished_ms == finished_ms
    assert trace.compute == compute.name
    if finished_ms == 5 * 30:
        assert {w.end_ms - w.start_ms for w in trace.work if w.party == 2} == {30.0}


def test_calibrated_computing() -> None:
    s = session("ecdsa-2")

    def run(listener) -> None:
        parties = s.parties()
        for party in parties:
            party.listener = listener
        local = LocalRun(parties)
        local.start()
        local.finish()

    costs = calibrate([run] * 3)
    assert set(costs.costs_ms) == {("ecdsa", name) for name in ECDSA_ROUNDS}
    assert all(cost >= 0 for cost in costs.costs_ms.values())
    first, again = (virtual(s, at_once(), compute=costs) for _ in range(2))
    assert first == again
    assert first.finished_ms == pytest.approx(sum(costs.costs_ms.values()))


# ------------------------------------------------------------------ verdicts


def test_invalid_is_what_validate_refuses() -> None:
    s, seen = session("frost-2"), {}
    trace = virtual(s, validate=lambda results: bool(seen.update(results)))
    assert trace.verdict is Verdict.INVALID
    assert set(seen) == {1, 2}


def test_invalid_even_if_only_one_finished() -> None:
    s = session("frost-2")
    trace = virtual(s, faults=[drop("SignatureShare", sender=1)], validate=lambda results: False)
    assert trace.verdict is Verdict.INVALID
    assert [ending.status for ending in trace.endings] == ["done", "waiting"]


def shifted(message):
    return replace(message, share=message.share + message.share.group.scalar(1))


def test_aborted() -> None:
    s = session("dkg-ed25519")
    cheat = partial(Adversary, tamper=alter_kind("Deal", shifted, to={1}))
    trace = virtual(s, corrupt={2: cheat})
    assert trace.verdict is Verdict.ABORTED
    assert trace.aborted.reason is Reason.SHARE_INCONSISTENT
    assert trace.aborted.culprits == {2}
    assert trace.endings[0].status == "aborted"
    assert "party 2" in trace.endings[0].text


def test_stalled() -> None:
    trace = virtual(session("frost-2"), faults=[drop("Commitments", sender=1)])
    assert trace.verdict is Verdict.STALLED
    assert trace.aborted is None
    assert trace.waiting[2].missing == {"Commitments": frozenset({1})}
    assert [m.fate for m in trace.messages].count("dropped") == 1


def test_the_deadline() -> None:
    """The second of FROST's two rounds ends at 100 ms."""
    s = session("frost-2")
    late, just, done = (virtual(s, deadline_ms=d) for d in (75.0, 100.0, 200.0))
    assert late.verdict is Verdict.STALLED
    assert late.finished_ms == 75
    assert set(late.waiting) == {1, 2}
    assert just.verdict is done.verdict is Verdict.VALID
    assert just.finished_ms == done.finished_ms == 100
    at_once = virtual(s, deadline_ms=0.0)
    assert (at_once.verdict, at_once.finished_ms) == (Verdict.STALLED, 0)


def test_looking_at_a_run_does_not_change_it() -> None:
    s = session("frost-2")
    run = VirtualRun(s.parties(), JITTER, seed=3, validate=lambda results: True)
    while run.step():
        run.trace()
    assert run.trace() == virtual(s, JITTER, seed=3, validate=lambda results: True)


# ------------------------------------------------------------------ adversaries


def test_rushing_sees_the_others_first() -> None:
    """Party 2 reveals only when it has party 1's and 3's, so that everyone else waits for it."""
    s, seen = session("dkg-ed25519"), []

    def cheat(party: Party) -> Adversary:
        def steer(message):
            seen.append(set(party.inbox.received(type(message))))
            return message

        return Adversary(party, alter_kind("Reveal", steer), hold={"Reveal"})

    trace = virtual(s, corrupt={2: cheat})
    assert seen == [{1, 3}] * 2
    assert trace.verdict is Verdict.VALID
    assert trace.finished_ms == 3 * 50 + 50
    times = {m.sender: m.sent_ms for m in trace.messages if m.kind == "Reveal"}
    assert times == {1: 50, 2: 100, 3: 50}


def test_cheating_from_the_inside() -> None:
    """A signer that plays round 2 with another nonce than it committed to."""
    s = session("frost-2")

    def other_nonce(original, view, keep, inbox):
        turn = original(view, keep, inbox)
        share = turn.broadcast
        scalar = next(name for name, _ in share.CODECS if hasattr(getattr(share, name), "group"))
        value = getattr(share, scalar)
        changed = replace(share, **{scalar: value + value.group.scalar(1)})
        return replace(turn, broadcast=changed)

    trace = virtual(s, corrupt={2: lambda party: deviating_party(party, 2, other_nonce)})
    assert trace.outcomes[1].reason is Reason.SIGNATURE_SHARE_INVALID
    assert trace.outcomes[1].culprits == {2}
    assert trace.reproducible


@pytest.mark.parametrize("after", range(6))
def test_a_cheater_that_crashes_cheats_again(after: int) -> None:
    """It comes back from its state, and what it puts out again is what it had put out."""
    s = session("dkg-ed25519")

    def came_back(down_ms: float, **cheat: Any) -> Trace:
        return virtual(
            s,
            corrupt={2: partial(Adversary, **cheat)},
            faults=[Crash(2, after, down_ms)],
            deadline_ms=5000.0,
            resend_ms=200.0,
        )

    trace = came_back(120.0, tamper=alter_kind("Deal", shifted, to={1}))
    assert trace.verdict is Verdict.ABORTED
    assert trace.aborted.reason is Reason.SHARE_INCONSISTENT
    assert trace.aborted.culprits == {2}
    assert came_back(10.0, hold={"Reveal"}).verdict is Verdict.VALID


def test_what_wraps_a_party_and_crashes_must_come_back() -> None:
    class Shell:
        def __init__(self, party):
            self.party, self.me = party, party.me

    shells = [Shell(party) for party in session("frost-2").parties()]
    with pytest.raises(UsageError, match="replace_party"):
        VirtualRun(shells, mesh(session("frost-2")), faults=[Crash(1)])


# ------------------------------------------------------------------ faults


def test_delayed_messages_are_overtaken() -> None:
    """Party 1's commitments come at 550; its share, sent at 50 when it had party 2's, at 100."""
    s = session("frost-2")
    trace = virtual(s, faults=[delay(500.0, "Commitments", sender=1)])
    assert trace.finished_ms == 550 + 50
    received = {m.kind: m.received_ms for m in trace.messages if m.sender == 1}
    assert received == {"Commitments": 550, "SignatureShare": 100}


@pytest.mark.parametrize("name", CHEAP)
@pytest.mark.parametrize("after_ms", [0.0, 70.0, 1000.0])
def test_duplicates_change_nothing(name: str, after_ms: float) -> None:
    s = session(name)
    trace, plain = virtual(s, faults=[duplicate(after_ms=after_ms)]), virtual(s)
    assert trace.verdict is Verdict.VALID
    assert trace.finished_ms == plain.finished_ms
    fates = [m.fate for m in trace.messages]
    assert fates.count("duplicate") == fates.count("delivered") == len(plain.messages)


def test_which_messages_a_rule_hits() -> None:
    s = session("frost-3")

    def struck(fault: MessageFault) -> set[tuple[str, int, int]]:
        found = virtual(s, faults=[fault]).messages
        return {(m.kind, m.sender, m.receiver) for m in found if m.fate == "dropped"}

    assert struck(drop("Commitments", sender=1)) == {("Commitments", 1, 2), ("Commitments", 1, 3)}
    assert struck(drop("Commitments", sender=1, nth=2)) == {("Commitments", 1, 3)}
    assert struck(drop(receiver=3, nth=1)) == {("Commitments", 1, 3)}
    assert struck(MessageFault(Effect.DROP, probability=0.0)) == set()
    assert len(struck(drop())) == 6


def test_a_partition_in_time() -> None:
    """FROST sends at 0 and at 50 ms."""
    s = session("frost-2")

    def verdict(since: float, until: float) -> Verdict:
        return virtual(s, faults=[partition({1}, {2}, since, until)]).verdict

    assert verdict(0.0, 1.0) is Verdict.STALLED
    assert verdict(1.0, 50.0) is Verdict.VALID
    assert verdict(1.0, 51.0) is Verdict.STALLED
    assert verdict(51.0, math.inf) is Verdict.VALID


@pytest.mark.parametrize("name", ["frost-3", "dkg-ed25519", "ecdsa-2"])
def test_a_party_that_is_back_at_once_ends_as_if_it_had_never_been_away(name: str) -> None:
    s, network = session(name), Network.star(10.0, 5.0, 80.0)  # no two messages come together

    def done(trace: Trace) -> object:
        return trace.outcomes, sorted((w.party, w.name) for w in trace.work if w.round)

    plain = virtual(s, network)
    for i in s.members:
        for after in range(sum(m.receiver == i for m in plain.messages) + 1):
            assert done(virtual(s, network, faults=[Crash(i, after, 0.0)])) == done(plain)


@pytest.mark.parametrize("seeded", [True, False])
def test_whether_a_run_can_be_repeated_is_known_after_a_crash(seeded: bool) -> None:
    """That one party's secrets are seeded is said of the whole run."""
    s = session("frost-2")
    parties = s.parties()
    for party in parties:
        party.reproducible = seeded and party.me == 1
    assert virtual(s, parties=parties, faults=[Crash(1, 0, 0.0)]).reproducible == seeded


def test_what_comes_while_a_party_is_down_is_lost() -> None:
    """Down until 60, and party 2's commitments come at 50. What it puts out again is ignored."""
    s = session("frost-2")
    trace = virtual(s, faults=[Crash(1, 0, down_ms=60.0)])
    found = {m.kind: (m.fate, m.received_ms) for m in trace.messages if m.receiver == 1}
    assert found == {"Commitments": ("lost", None), "SignatureShare": ("delivered", 100)}
    assert [m.sent_ms for m in trace.messages if m.sender == 1] == [0, 60]
    assert trace.waiting[1].missing == {"Commitments": frozenset({2})}
    gone = virtual(s, faults=[Crash(1)])
    assert [m.sent_ms for m in gone.messages if m.sender == 1] == [0]
    assert gone.finished_ms < math.inf


def test_wrong_faults_attacks_and_runs_are_named() -> None:
    def started() -> Party:
        party = session("frost-2").party(1)
        party.start()
        return party

    def run(parties: Any = None, **settings: Any) -> VirtualRun:
        return VirtualRun(parties or toy_parties(100), Network.star(), **settings)

    names = {"run": run, "started": started, "party": lambda: session("frost-2").party(1)}
    copy = Path(__file__).with_name("wrong_runs.txt")
    names |= {"virtual": virtual, "session": session, "Fake": SimpleNamespace}
    check_calls(copy, faults, adversary, compute, math, **names)


# ------------------------------------------------------------------ sending again

AGAIN = {"resend_ms": 160.0, "deadline_ms": 20_000.0}


@pytest.mark.parametrize("name", CHEAP)
def test_the_drop_of_any_one_message_is_survived(name: str) -> None:
    s = session(name)
    plain = virtual(s)
    for message in plain.messages:
        lost = drop(message.kind, sender=message.sender, receiver=message.receiver, nth=1)
        trace = virtual(s, faults=[lost], **AGAIN)
        assert trace.verdict is Verdict.VALID, str(message)
        assert trace.finished_ms > plain.finished_ms


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CHEAP)
@pytest.mark.parametrize("down_ms", [30.0, 400.0])
def test_a_crash_at_any_step_is_survived(name: str, down_ms: float) -> None:
    s = session(name)
    steps = max(sum(m.receiver == i for m in virtual(s).messages) for i in s.members)
    for i in s.members:
        for after in range(steps + 1):
            trace = virtual(s, faults=[Crash(i, after, down_ms)], **AGAIN)
            assert trace.verdict is Verdict.VALID, (i, after)


def test_nothing_goes_out_again_without_need() -> None:
    s = session("frost-2")
    assert virtual(s, resend_ms=101.0, deadline_ms=1000.0) == virtual(s)


def test_who_has_ended_answers_who_asks_and_nobody_else() -> None:
    """Of three, only party 2 lacks party 1's share; all but party 2 end at 100."""
    s = session("frost-3")
    lost = drop("SignatureShare", sender=1, receiver=2, nth=1)
    trace = virtual(s, faults=[lost], **AGAIN)
    assert {e.party: e.at_ms for e in trace.endings} == {1: 100, 2: 260, 3: 100}
    again = [(m.sender, m.receiver) for m in trace.messages if m.sent_ms > 100]
    assert set(again) == {(2, 1), (2, 3), (1, 2), (3, 2)}


def test_an_abort_reaches_everyone_in_the_end() -> None:
    """The notice is lost once; party 3 asks again, and the party that gave up answers."""
    s = session("dkg-ed25519")
    cheat = partial(Adversary, tamper=alter_kind("Deal", shifted, to={1}))
    faults = [drop("Deal", sender=2, receiver=3), drop("AbortNotice", receiver=3, nth=1)]
    plain = virtual(s, corrupt={2: cheat}, faults=faults)
    assert isinstance(plain.outcomes[3], Waiting)
    trace = virtual(s, corrupt={2: cheat}, faults=faults, **AGAIN)
    assert trace.outcomes[3].reason is Reason.PEER_ABORTED


def test_endless_repetition_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        virtual(session("frost-2"), resend_ms=1.0, deadline_ms=1e9)
    most = float(re.search(r"at most (\d+) times as long", str(error.value))[1])
    assert virtual(session("frost-2"), resend_ms=1.0, deadline_ms=most).verdict is Verdict.VALID


# ------------------------------------------------------------------ anything

parties = st.sampled_from([1, 2, 3])
some_times = st.floats(0, 500)
fault = st.one_of(
    st.builds(
        MessageFault,
        st.sampled_from(Effect),
        st.none(),
        st.none() | parties,
        st.none() | parties,
        st.none() | st.integers(1, 5),
        st.sampled_from([0.1, 0.5, 1.0]),
        some_times,
    ),
    st.builds(
        lambda one, since, length: partition({one}, {1, 2, 3} - {one}, since, since + length),
        parties,
        some_times,
        some_times,
    ),
    st.builds(Crash, parties, st.integers(0, 8), st.one_of(some_times, st.just(math.inf))),
)


class Schedule:
    """Any latency for any transfer: in effect, any order between different senders."""

    def __init__(self, times: list[float]) -> None:
        self.times = times
        self.turn = 0

    def __call__(self, key, direction) -> Draws:
        self.turn += 1
        time = self.times[self.turn % len(self.times)]
        return Draws(time, time, int(time * 1e6) if direction.is_lossy else 0)


small = st.sampled_from(
    [
        lambda: frost_session((1, 2, 3), 2, 3),
        lambda: session("ecdsa-2"),
        lambda: dkg_session("ed25519", 2, 3),
        lambda: session("reshare-ed25519"),
    ]
)


@examples(25)
@given(
    make=small,
    plan=st.lists(fault, max_size=4),
    times=st.lists(some_times, min_size=1, max_size=20),
    network=st.sampled_from([JITTER, JITTER.with_connection(cold=True), Network.mesh((1, 2, 3))]),
    seed=st.integers(0, 2**64),
    schedule=st.booleans(),
    policy=st.sampled_from([{}, {"deadline_ms": 300.0}, {"resend_ms": 100.0, "deadline_ms": 2e3}]),
)
def test_any_faults_and_any_schedule(make, plan, times, network, seed, schedule, policy) -> None:
    """Nothing hangs, nothing raises, no result is wrong, and everything happens again."""
    s = make()

    def once() -> Trace:
        draws = Schedule(times) if schedule else None
        return virtual(s, network, seed=seed, faults=plan, draws=draws, **policy)

    trace = once()
    assert trace.verdict in (Verdict.VALID, Verdict.STALLED)
    assert trace.finished_ms <= policy.get("deadline_ms", math.inf)
    assert once() == trace
