"""Checks of a protocol by its sessions: the same again, several compared, one withheld, all cheats.

    check_protocol(frost_signing(2, 3, (1, 2, 3)))

Every check knows nothing of the protocol but its definition, and what its ``ProtocolScenario``
declares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any, Final, NamedTuple

from mpcsim.errors import Aborted, InvalidEncoding, Reason
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Delivery, Done
from mpcsim.protocols.engine.envelope import AbortNotice
from mpcsim.protocols.local_run import LocalRun, Participant
from mpcsim.sim.run.faults import Crash, Effect, MessageFault
from mpcsim.sim.run.message_recording import Flow, RecordedParty, Recording
from mpcsim.testing.api_sequence import BrokenInvariant, Failure
from mpcsim.testing.invariants import Invariant
from mpcsim.testing.runs import protocol_checks as checks
from mpcsim.testing.runs.deviation import (
    WHOLE,
    WITHHELD,
    AbstractDeviation,
    Deviation,
    TwoFaced,
    changes,
)
from mpcsim.testing.runs.protocol_checks import Outcomes
from mpcsim.testing.runs.protocol_run import (
    PRESENT,
    MessageReplay,
    Order,
    record_session,
    run_protocol,
    snippet,
)
from mpcsim.testing.runs.scenarios import ProtocolScenario
from mpcsim.testing.runs.secrets import leaf_bytes, leaves


class SessionCheck(Invariant[[ProtocolScenario]]):
    """Invariant of a scenario's sessions; its failure has the call that shows it again."""

    def __call__(self, scenario: ProtocolScenario) -> None:
        """Check it; raises as ``Invariant`` does."""
        try:
            super().__call__(scenario)
        except BrokenInvariant as broken:
            broken.failure = Failure(broken, [str(scenario), ""], snippet(self.name, scenario))
            raise


LONG: Final = 8
"""Length in bytes from which on a field that repeats is no accident."""


class _Session(NamedTuple):
    """A session that has been run, with everything that its parties said."""

    recording: Recording
    run: LocalRun[Any]

    @classmethod
    def of(cls, participants: list[Participant[Any]]) -> _Session:
        recording = Recording()
        run: LocalRun[Any] = LocalRun(RecordedParty(each, recording) for each in participants)
        run.start()
        run.finish()
        return cls(recording, run)

    def values(self) -> Iterator[tuple[Flow, int, str, bytes]]:
        """Yield every value that was sent, with its flow, the message's number in it and its path:
        ``.echo[2]``."""
        for flow, sent in self.recording.sent.items():
            for nth in range(len(sent)):
                opened = self.recording.decrypt(flow, nth)
                try:
                    message = opened.kind.decode(opened.payload or b"", opened.context)
                except InvalidEncoding:
                    yield flow, nth, "", opened.payload or b""
                    continue
                for path, leaf in leaves(message):
                    yield flow, nth, path, leaf_bytes(leaf)


def _session(scenario: ProtocolScenario, session: int | str = "1", coins: str = "") -> _Session:
    return _Session.of([scenario.participant(i, session, coins) for i in scenario.members])


# ---------------------------------------------------------------------- several sessions


@SessionCheck
def deterministic(scenario: ProtocolScenario) -> str | None:
    """A party with the same set-up and seed says the same, byte by byte, and ends the same."""
    one, other = _session(scenario), _session(scenario)
    again = "in a second run with the same seeds"
    fields = {(flow, nth, path): value for flow, nth, path, value in other.values()}
    for flow, nth, path, value in one.values():
        if fields.pop((flow, nth, path), None) != value:
            sender, to, kind = flow
            return f"party {sender} sent party {to} another {kind}{path} {again}"
    if fields:
        (sender, to, kind), *_ = next(iter(fields))
        return f"party {sender} sent party {to} one more {kind} {again}"
    for i, outcome in one.run.outcomes().items():
        if _ending(outcome) != _ending(other.run.outcomes()[i]):
            return f"party {i} ended with another result {again}"
    return None


def _ending(outcome: object) -> object:
    if isinstance(outcome, Done):
        return [(path, leaf_bytes(leaf)) for path, leaf in leaves(outcome.result)]
    return str(outcome)


SESSIONS: Final = (("1", ""), ("2", ""), ("1", "once more"))
"""Sessions that ``fresh`` compares: name and coins. The last is the first with other randomness."""


@SessionCheck
def fresh(scenario: ProtocolScenario) -> str | None:
    """No value that a party says is said again: in another session, in the same session with other
    randomness, or by the same party in another field or to another receiver alone, unless the
    scenario has the field as ``repeated``."""
    said = [
        {(flow, path): value for flow, _, path, value in _session(scenario, *which).values()}
        for which in SESSIONS
    ]
    if twice := _said_twice(scenario, said[0]):
        return twice
    for (number, one), (later, other) in combinations(enumerate(said), 2):
        before = {value: where for where, value in one.items() if len(value) >= LONG}
        for (flow, path), value in other.items():
            if value not in before or _is_excused(scenario.repeated, flow[2], path):
                continue
            (sender, _, kind), was = before[value]
            if _is_excused(scenario.repeated, kind, was):
                continue
            same = f"{kind}{was} of party {sender}"
            what = f"{flow[2]}{path} of party {flow[0]}"
            both = f"two sessions have the same {same}"
            if what != same:
                both = f"{what} is {same} of another session"
            return both + (" though their randomness differs" if later == number + 2 else "")
    return None


def _said_twice(scenario: ProtocolScenario, said: Mapping[tuple[Flow, str], bytes]) -> str | None:
    """Return which value a party says in two fields of a session, or to two receivers alone.

    What others say, too, such as an echo, is no secret of its sender.
    """
    sent = {sends.kind: sends.delivery for _, sends in scenario.definition.kinds()}
    places: dict[bytes, dict[tuple[PartyId, str], None]] = defaultdict(dict)
    for ((sender, to, kind), path), value in said.items():
        if len(value) >= LONG and not _is_excused(scenario.repeated, kind, path):
            alone = f" to party {to}" if sent.get(kind) is Delivery.DIRECT else ""
            places[value][sender, f"{kind}{path}{alone}"] = None
    for found in places.values():
        (sender, one), *others = found
        if others and {i for i, _ in found} == {sender}:
            return f"party {sender} says one value as {one} and as {others[0][1]}"
    return None


def _is_excused(fields: Iterable[str], kind: str, path: str) -> bool:
    """Return whether a field, or one that it is part of, is among those that are declared."""
    full = f"{kind}{path}"
    return any(
        full == allowed or full.startswith((f"{allowed}.", f"{allowed}[")) for allowed in fields
    )


# ---------------------------------------------------------------------- withheld as long as can be


@SessionCheck
def rushing(scenario: ProtocolScenario) -> str | None:
    """A party that withholds a kind of message as long as it can has heard by then what its round
    needs and what the scenario has as ``heard``, and no more."""
    problems: list[str] = []
    needed = _needed(scenario)
    for kind, heard in heard_while_withholding(scenario).items():
        declared = set(scenario.heard.get(kind, ()))
        for more in sorted(heard.keys() - declared - needed[kind]):
            who, sender = heard[more]
            problems.append(
                f"party {who}, which still withholds its {kind}, has heard {more} from party "
                f"{sender} already"
            )
        for never in sorted(declared - heard.keys()):
            problems.append(f"whoever withholds its {kind} never hears {never}")
    return "; ".join(problems) or None


def _needed(scenario: ProtocolScenario) -> dict[str, frozenset[str]]:
    """Return what a party must have heard, by the definition, before it sends a kind of message."""
    found: dict[str, frozenset[str]] = {}
    heard: frozenset[str] = frozenset()
    for round_ in scenario.definition.rounds:
        heard |= {kind.__name__ for kind in round_.needs}
        found |= {sends.kind: heard for sends in round_.sends}
    return found


def heard_while_withholding(scenario: ProtocolScenario) -> dict[str, dict[str, tuple[int, int]]]:
    """Return the kinds of messages that parties hear while they withhold their own of a kind until
    nothing else is under way: by that kind, each with who heard it first, and from whom."""
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    said = [(message.sender, message.send.kind) for message in record_session(scenario)]
    for me in scenario.members:
        for kind in dict.fromkeys(kind for sender, kind in said if sender == me):
            withheld = Deviation(me, kind, WITHHELD).adversary(scenario.party(me), _ignore)
            run: LocalRun[Any] = LocalRun(
                withheld if i == me else scenario.participant(i) for i in scenario.members
            )
            run.start()
            heard = found[kind]
            while run.in_flight:
                message = run.deliver()
                if message.send.to == me and message.send.kind != AbortNotice.__name__:
                    heard.setdefault(message.send.kind, (me, message.sender))
    return found


def _ignore(sentence: str) -> None:
    """Take note of no deviation."""


# ---------------------------------------------------------------------- every field


@SessionCheck
def every_field_counts(scenario: ProtocolScenario) -> str | None:
    """A field that a party changes is noticed or changes a result, unless the scenario has it as
    ``unchecked``: otherwise nothing looks at it, or a check of it is missing."""
    honest = {
        i: _ending(outcome) for i, outcome in _session(scenario, PRESENT).run.outcomes().items()
    }
    idle: dict[str, None] = {}
    for party in scenario.members:
        for kind, possible in changes(scenario, party).items():
            counts: dict[str, bool] = {}
            for change in possible:
                path = change.partition(" ")[0]
                if change in WHOLE or counts.get(path):
                    continue
                effect = _has_effect(scenario, Deviation(party, kind, change), honest)
                if effect is not None:
                    counts[path] = effect
            for path, effect in counts.items():
                if not effect and not _is_excused(scenario.unchecked, kind, path):
                    idle[f"{kind}{path}"] = None
    if not idle:
        return None
    return f"nobody notices another {', '.join(idle)}, and no result depends on it"


def _has_effect(
    scenario: ProtocolScenario, deviation: Deviation, honest: Mapping[PartyId, object]
) -> bool | None:
    """Return whether a deviation is noticed or changes a result; None if it does not decode."""
    try:
        outcomes = run_protocol(scenario, deviation=deviation).outcomes
    except BrokenInvariant:
        return True
    for outcome in outcomes.values():
        if isinstance(outcome, Aborted) and outcome.reason is Reason.MALFORMED_MESSAGE:
            return None
    return any(_ending(outcome) != honest[PartyId(i)] for i, outcome in outcomes.items())


# ---------------------------------------------------------------------- all together


def check_protocol(scenario: ProtocolScenario, cheaters: Collection[int] | None = None) -> int:
    """Check a protocol by every generic check of the kit, one after the other.

    ======================  ======================================================================
    ``deterministic``       two runs with the same seeds
    ``fresh``               two sessions, and one with other randomness
    ``rushing``             what a party hears while it withholds a kind of message
    no secrets              what every outcome shows, here and in all runs that follow
    orders                  the newest message first, and others; every message twice, late, or of
                            an earlier session; every party stopped and resumed
    two-faced               two copies of a party with other coins, each heard by some
    deviations              every change of every field of every message, toward all and toward one
    ``every_field_counts``  whether some change of a field is noticed, or changes a result
    ======================  ======================================================================

    All runs check that the honest agree, that nobody innocent is blamed, that somebody is named,
    and that nobody waits for ever.

    Args:
        cheaters: parties that cheat, one a run; None: all, one after the other.

    Returns:
        The number of examples that were run.

    Raises:
        BrokenInvariant: something is wrong; its text says what.
        UsageError: what the scenario declares names nothing of the protocol.
    """
    count = 0
    for example in protocol_examples(scenario, cheaters):
        example()
        count += 1
    return count


def protocol_examples(
    scenario: ProtocolScenario, cheaters: Collection[int] | None = None
) -> Iterator[Callable[[], object]]:
    """Yield the examples of ``check_protocol``, each to be called, the cheapest first."""
    scenario.check_declared()
    yield partial(deterministic, scenario)
    yield partial(fresh, scenario)
    yield partial(rushing, scenario)
    yield partial(_check_results, scenario)
    play = partial(partial, run_protocol, scenario)
    for numbers in ((-1,), (1,), (2, 0), (3, -1, 1)):
        yield play(order=Order(numbers))
    for _, sends in scenario.definition.kinds():
        for effect in (Effect.DUPLICATE, Effect.DELAY):
            yield play(faults=(MessageFault(effect, sends.kind, delay_ms=1.0),))
    rounds = len(scenario.definition.rounds)
    for i in scenario.members:
        for after in range(rounds):
            yield play(faults=(Crash(i, after, 1.0),))
    for number in range(1, len(record_session(scenario)) + 1):
        yield play(replays=(MessageReplay(number),))
    for deviation in _deviations(scenario, scenario.members if cheaters is None else cheaters):
        yield play(deviation=deviation)
    if cheaters is None or cheaters:
        yield partial(every_field_counts, scenario)


def _deviations(
    scenario: ProtocolScenario, cheaters: Collection[int]
) -> Iterator[AbstractDeviation]:
    for party in cheaters:
        others = [i for i in scenario.members if i != party]
        if len(others) > 1:
            for i in others:
                yield TwoFaced(party, frozenset({i}))
        for kind, possible in changes(scenario, party).items():
            for change in possible:
                yield Deviation(party, kind, change)
                if len(others) > 1:
                    yield Deviation(party, kind, change, others[0])


def _check_results(scenario: ProtocolScenario) -> None:
    """Check the results of an honest session, and what they show."""
    try:
        _check_honest(scenario)
    except BrokenInvariant as broken:
        again = snippet("check_protocol", scenario, cheaters=((), None))
        broken.failure = Failure(broken, [str(scenario), ""], again)
        raise


def _check_honest(scenario: ProtocolScenario) -> None:
    session = _session(scenario)
    outcomes: Outcomes = {int(i): outcome for i, outcome in session.run.outcomes().items()}
    checks.agreement(outcomes, scenario.problem)
    kept: dict[int, list[Any]] = defaultdict(list)
    for (i, _), keep in session.recording.kept.items():
        kept[i].append(keep)
    parties = {int(i): party for i, party in session.recording.parties.items()}
    checks.no_secrets_in_outcomes(outcomes, parties, kept)
