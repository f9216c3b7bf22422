"""A protocol from outside the package: stepped, simulated, traced, attacked, explored, tested."""

import os
from dataclasses import replace
from functools import partial, reduce

import pytest

from mpcsim import Network
from mpcsim.attacks import ResearchBuild, without
from mpcsim.crypto import commit
from mpcsim.errors import Aborted, InRound, Reason, UsageError
from mpcsim.lab.explorer import Explorer
from mpcsim.protocols import LocalRun, ecdsa, keys, results, run
from mpcsim.protocols.engine import Done, Party
from mpcsim.sim import Adversary, Free, Trace, Verdict, run_parties
from mpcsim.testing.protocols import Deviation, Order, ProtocolScenario, changes, run_protocol
from tests.examples import toy_protocol
from tests.examples.toy_protocol import TOSS, Toss

SEOUL = Network.preset("seoul", institution="frankfurt")
AGREED = Toss((1, 2, 3))
WANTED = b"heads".ljust(32, b"!")


def parties(definition=TOSS):
    sid = os.urandom(32)
    return [Party(definition, AGREED, i, session_id=sid) for i in AGREED.parties]


def over_seoul(participants, **options):
    def same(found):
        return len(set(found.values())) == 1

    return run_parties(participants, SEOUL, seed=1, validate=same, **options)


# ---------------------------------------------------------------------- stepped


def test_step_by_hand():
    one, two, three = parties()
    local = LocalRun([one, two, three])
    local.start()
    assert str(local.in_flight[0]) == "round 1: Commit from party 1 to party 2, 72 bytes"
    local.deliver(2)  # from party 2 to party 1
    assert str(one.waiting_state()) == "waiting in round 2 (reveal) for Commit from 3"
    tossed = results(local.finish())
    assert len(set(tossed.values())) == 1
    drawn = [party.inbox.own[toy_protocol.Reveal][1].coin for party in (one, two, three)]
    whole = reduce(lambda a, b: a ^ b, (int.from_bytes(coin, "big") for coin in drawn))
    assert tossed[1] == whole.to_bytes(32, "big")
    assert set(local.depth.values()) == {2}
    assert results(run(parties())) != tossed


# ---------------------------------------------------------------------- simulated and traced


def test_simulate_and_trace(tmp_path):
    trace = over_seoul(parties())
    assert trace.verdict is Verdict.VALID
    summary = trace.summary()
    assert (summary.messages, summary.rounds, summary.sequential_delays) == (12, 2, 2)
    # Seoul waits for Frankfurt, and Frankfurt for everyone.
    client, operator, institution = summary.parties
    assert [max(p.waited_for, key=p.waited_for.get) for p in (client, operator)] == [3, 3]
    assert institution.waited_for.keys() <= {1, 2}
    assert trace.finished_ms == pytest.approx(2 * 120, rel=0.2)  # twice one way to Frankfurt
    to_frankfurt = next(m for m in trace.messages if (m.sender, m.receiver) == (1, 3))
    assert [(hop.source, hop.target) for hop in to_frankfurt.hops] == [
        ("client", "gateway"),
        ("gateway", "institution"),
    ]
    path = trace.critical_path()
    kinds = [trace.messages[n].kind for n in path.messages]
    assert kinds == ["Commit", "Reveal"]
    assert set(trace.to_frame()["protocol"].dropna()) == {"coin toss"}
    assert "reveal" in str(trace)
    for figure in (trace.sequence_diagram(), trace.gantt()):
        assert figure.axes
    loaded = Trace.load(trace.save_jsonl(tmp_path / "toss.jsonl"))
    assert loaded.messages == trace.messages


# ---------------------------------------------------------------------- attacked


def steering(party, wanted):
    """Waits until all others have opened, and then opens to what makes the result."""

    def steer(kind, to, message):
        if kind != "Reveal":
            return message
        others = party.inbox.received(toy_protocol.Reveal).values()
        parts = [int.from_bytes(coin, "big") for coin in (wanted, *(m.coin for m in others))]
        return replace(message, coin=reduce(lambda a, b: a ^ b, parts).to_bytes(32, "big"))

    return Adversary(party, steer, hold={"Reveal"})


def attacked(attack, definition=TOSS):
    """A run in which party 2 cheats: the outcomes of the honest two, by party."""
    one, two, three = parties(definition)
    cheater = Party(TOSS, AGREED, 2, session_id=two.session_id)
    outcomes = over_seoul([one, attack(cheater), three]).outcomes
    return outcomes[1], outcomes[3]


def test_a_cheater_who_opens_to_something_else_is_named():
    for outcome in attacked(partial(steering, wanted=WANTED)):
        assert isinstance(outcome, Aborted)
        assert outcome.reason is Reason.COMMITMENT_OPENING
        assert outcome.where == InRound(3, "result")
        assert outcome.culprits == {2}


def test_without_the_opening_check_the_cheater_chooses_the_coin():
    weak = without(TOSS, Reason.COMMITMENT_OPENING)
    assert attacked(partial(steering, wanted=WANTED), weak) == (Done(WANTED), Done(WANTED))
    # The protocol itself is as strict as before.
    assert isinstance(attacked(partial(steering, wanted=WANTED))[0], Aborted)


def test_a_research_build_that_has_no_copy_of_a_protocol_says_so():
    with pytest.raises(UsageError, match="coin toss is not copied, all its checks are on"):
        ResearchBuild(without=[Reason.ECHO_MISMATCH]).definition(TOSS)
    replaced = ResearchBuild(replacing={commit: lambda *parts: bytes(32)}, others=[TOSS])
    local = LocalRun(parties(replaced.definition(TOSS)))
    local.start()
    assert local.in_flight[0].send.data.endswith(bytes(32))


# ---------------------------------------------------------------------- explored


def explored(**options):
    return Explorer.of_parties(parties(), SEOUL, compute=Free(), **options)


def test_explore_bytes_and_all():
    explorer = explored()
    before = explorer.trace.finished_ms
    assert explorer.trace.name == "coin toss"
    assert not explorer.view.frozen
    coin = explorer.details["2>1 Reveal"].fields[1]
    assert coin.name == "coin"
    assert len(bytes.fromhex(coin.value.replace(" ", ""))) == 32 or "..." in coin.value
    explorer.set_link("gateway", "institution", one_way_ms=300.0)
    assert explorer.trace.finished_ms > before + 200
    tossed = explorer.trace.outcomes[1]
    assert explorer.reset().trace.finished_ms == before
    assert explorer.trace.outcomes[1] == tossed  # the same seeds


def test_what_cannot_be_explored_anew():
    one, two, three = parties()
    for wrong in (Adversary(two), object()):
        with pytest.raises(UsageError, match="is no party: the explorer itself makes it cheat"):
            Explorer.of_parties([one, wrong, three], SEOUL)
    two.start()
    with pytest.raises(UsageError, match="has started already"):
        Explorer.of_parties([one, two, three], SEOUL)
    with pytest.raises(UsageError, match="at least one party"):
        Explorer.of_parties([], SEOUL)


def test_explored_parties_keep_their_multiplication_state():
    sid = os.urandom(32)
    setups = [ecdsa.setup(keys("secp256k1")[i], (1, 2), bytes(32)) for i in (1, 2)]
    made = [ecdsa.party(setup, session_id=sid) for setup in setups]
    explorer = Explorer.of_parties(made, SEOUL, compute=Free())
    assert explorer.view.good
    explorer.edit(2, 1, "Respond", "reply.eta", "+ 1")
    assert explorer.view.aborts[0].reason == "MULTIPLICATION_CHECK"
    assert all(setup.share.can_multiply(3 - setup.share.identifier) for setup in setups)
    assert explorer.undo().view.good


# ---------------------------------------------------------------------- the test kit


def toss_scenario():
    def make(i, sid, rng):
        return Party(TOSS, AGREED, i, session_id=sid, rng=rng)

    def problem(found):
        return None if len(set(found.values())) < 2 else "the parties saw different coins"

    return ProtocolScenario("toss_scenario()", TOSS, AGREED.parties, make, problem)


@pytest.mark.parametrize("to", [None, 3])
def test_whatever_a_party_changes_the_honest_agree_and_blame_rightly(to):
    scenario, seen = toss_scenario(), 0
    for kind, made in changes(scenario, 2).items():
        for change in made:
            run_protocol(scenario, order=Order((1, 0, 2)), deviation=Deviation(2, kind, change, to))
            seen += 1
    assert seen > 20
