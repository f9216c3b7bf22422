"""Run a protocol under a drawn order, faults, replays and a cheater, and check every invariant.

    run_protocol(frost_signing(2, 3, (1, 2)), order=Order((3, 0, 1)), replays=(MessageReplay(3),))

A failure is reported in sentences: what was unusual about the run, and what went wrong.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Final

from mpcsim.errors import Aborted, UsageError, check_type
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Done, Party, Waiting
from mpcsim.protocols.local_run import InFlight, LocalRun, Participant
from mpcsim.sim.network.topology import Network
from mpcsim.sim.run.completion import inner_party
from mpcsim.sim.run.engine import VirtualRun
from mpcsim.sim.run.faults import (
    Crash,
    Effect,
    Fault,
    FaultPlan,
    MessageFault,
    Partition,
    check_faults,
    kinds_of,
)
from mpcsim.sim.trace import Trace
from mpcsim.testing.api_sequence import BrokenInvariant, Failure
from mpcsim.testing.invariants import Invariant, check_invariants
from mpcsim.testing.runs import protocol_checks as checks
from mpcsim.testing.runs.deviation import AbstractDeviation
from mpcsim.testing.runs.scenarios import ProtocolScenario

EARLIER: Final = 1
"""Number of the session that replayed messages come from."""
PRESENT: Final = 2
KIT: Final = "mpcsim.testing.protocols"
"""Module that snippets import from."""
MAX_TOLD: Final = 5
"""Limit of overtaken messages that a report tells one by one."""
DEADLINE_MS: Final = 600_000.0
"""Virtual time at which a run over a network stops, unless told otherwise."""
NO_DEVIATION: Final = "the cheater never came to deviate"


@dataclass(frozen=True)
class Order:
    """Schedule of deliveries as data: drawn numbers, used cyclically, choose the next message."""

    numbers: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        given: object = self.numbers
        if not isinstance(given, list):
            check_type("order", given, tuple)
        object.__setattr__(self, "numbers", tuple(self.numbers))
        for number in self.numbers:
            check_type("order", number, int)
        if not self.numbers:
            raise UsageError("an order has no numbers: one at least, used again and again")

    def __str__(self) -> str:
        return f"messages arrived in the order {list(self.numbers)}"


@dataclass(frozen=True)
class MessageReplay:
    """Replay of a message of an earlier session of the same kind."""

    message: int
    """Number of the message in the earlier session, from 1 in the order of sending."""
    before: int = 1
    """Number of the delivery in the present session before which it is replayed, from 1."""

    def __post_init__(self) -> None:
        for name in ("message", "before"):
            check_type(f"replay {name}", getattr(self, name), int)
            if getattr(self, name) < 1:
                raise UsageError(f"replay {name} is {getattr(self, name)}: counted from 1")


@dataclass
class ProtocolRun:
    """A finished run."""

    scenario: ProtocolScenario
    outcomes: dict[int, Done[Any] | Aborted | Waiting] = field(default_factory=dict)
    """Outcomes of the honest parties that have not crashed for good, in the order of their ends:
    the first abort is the origin of the others."""
    sentences: list[str] = field(default_factory=list)
    snippet: str = ""
    cheaters: frozenset[int] = frozenset()
    silence: bool = False
    """Whether messages were lost or withheld, or a party is gone: others may wait for ever."""
    trace: Trace | None = None
    """Trace of a run over a network."""
    idle: list[str] = field(default_factory=list)
    """Faults and deviations that were asked for and never took place, in sentences: a test of what
    they do has tested nothing."""
    invariants: tuple[Invariant[...], ...] = ()
    """Invariants beside the kit's."""
    parties: dict[int, Party[Any, Any]] = field(default_factory=dict, repr=False)
    """Parties that took part, inside other implementations and adversaries, too. SECRET."""

    def check(self) -> None:
        """Check every invariant.

        Raises:
            BrokenInvariant: one does not hold; the text describes the run.
        """
        try:
            checks.agreement(self.outcomes, self.scenario.problem)
            checks.blame_is_right(self.outcomes, self.cheaters)
            checks.somebody_is_named(self.outcomes, self.cheaters, self.scenario.unnamed)
            checks.no_hang(self.outcomes, self.cheaters, self.silence)
            failed = {i: o for i, o in self.outcomes.items() if not isinstance(o, Done)}
            checks.no_secrets_in_outcomes(failed, self.parties)
            for made in self.invariants:
                made(self)
        except BrokenInvariant as broken:
            self.attach_failure(broken)
            raise

    def note_idle(self, faults: Iterable[Fault]) -> None:
        """Record which faults never took place."""
        self.idle += [f"this never happened: {fault_sentence(fault)}" for fault in faults]

    def note_deviation(self, sentence: str) -> None:
        """Record that the cheater deviates."""
        self.sentences.append(sentence)
        self.idle = [each for each in self.idle if each != NO_DEVIATION]

    def attach_failure(self, broken: BrokenInvariant) -> None:
        """Attach the description of the run to a broken invariant."""
        told = [*self.sentences, *self.idle]
        aborts = (f"party {i} {o}" for i, o in self.outcomes.items() if isinstance(o, Aborted))
        origin = next(aborts, None)
        if origin is not None and origin.partition(" ")[2].partition(" ")[2] not in broken.problem:
            told.append(origin)
        told.append("")
        broken.failure = Failure(broken, list(dict.fromkeys(told)), self.snippet)


def run_protocol(
    scenario: ProtocolScenario,
    *,
    order: Order = Order(),
    faults: Sequence[Fault] = (),
    replays: Sequence[MessageReplay] = (),
    deviation: AbstractDeviation | None = None,
    seed: int = 0,
    invariants: Iterable[Invariant[...]] = (),
) -> ProtocolRun:
    """Run a scenario in memory, and check every invariant.

    Args:
        order: which of the messages in flight arrives next.
        faults: message faults (a delayed message arrives when nothing else is in flight) and
            crashes (if not for ever, the party resumes from its snapshot and sends everything
            again). Partitions need a clock: ``run_over_network``.
        replays: messages of an earlier session of the same kind, sent again.
        deviation: a party that cheats.
        seed: seed of faults with a probability.
        invariants: your own, beside the kit's (``invariant`` has an example); each is given the
            finished run.

    Raises:
        BrokenInvariant: an invariant does not hold; its text describes the run.
        UsageError: a partition, something among ``invariants`` that is none, or a fault, replay or
            deviation that names nothing of the scenario.
    """
    found = _begin(scenario, deviation, invariants, faults)
    if any(isinstance(fault, Partition) for fault in faults):
        raise UsageError("a partition needs a clock: use run_over_network")
    check_type("order", order, Order)
    given: dict[str, Any] = {
        "order": (order, Order()),
        "faults": (tuple(faults), ()),
        "replays": (tuple(replays), ()),
        "deviation": (deviation, None),
        "seed": (seed, 0),
        "invariants": (found.invariants, ()),
    }
    found.snippet = snippet("run_protocol", scenario, **given)
    _MemoryRun(found, order, faults, replays, deviation, seed).play()
    found.check()
    return found


def run_over_network(
    scenario: ProtocolScenario,
    network: Network,
    *,
    faults: Sequence[Fault] = (),
    deviation: AbstractDeviation | None = None,
    seed: int = 0,
    deadline_ms: float = DEADLINE_MS,
    invariants: Iterable[Invariant[...]] = (),
) -> ProtocolRun:
    """Run a scenario in virtual time over a network, and check every invariant.

    Args:
        network: with a site for every party of the scenario.
        seed: seed of latencies, losses and random faults.
        deadline_ms: virtual time at which to stop.
        invariants: as for ``run_protocol``.

    Raises:
        BrokenInvariant: an invariant does not hold; its text describes the run.
        UsageError: a party has no site, something among ``invariants`` is none, or a fault or
            deviation names nothing of the scenario.
    """
    found = _begin(scenario, deviation, invariants, faults)
    given: dict[str, Any] = {
        "faults": (tuple(faults), ()),
        "deviation": (deviation, None),
        "seed": (seed, 0),
        "deadline_ms": (deadline_ms, DEADLINE_MS),
        "invariants": (found.invariants, ()),
    }
    found.snippet = snippet("run_over_network", scenario, _network_code(network), **given)
    found.sentences += [fault_sentence(fault) for fault in faults]
    parties = _participants(found, deviation)
    run = VirtualRun(
        list(parties.values()),
        network,
        seed=seed,
        faults=tuple(faults),
        deadline_ms=deadline_ms,
        validate=lambda results: True,
    )
    try:
        trace = run.run()
    except Exception as error:
        _report_exception(found, None, error)
        raise
    found.trace = trace
    found.note_idle(run.idle_faults)
    lost = any(record.fate in ("dropped", "lost") for record in trace.messages)
    found.silence = found.silence or lost or any(isinstance(f, Crash) for f in faults)
    dead = {f.party for f in faults if isinstance(f, Crash)}
    ended = sorted(trace.endings, key=lambda ending: (ending.status == "waiting", ending.at_ms))
    found.outcomes = {
        e.party: trace.outcomes[e.party]
        for e in ended
        if e.party not in found.cheaters and e.party not in dead
    }
    found.parties = {i: inner_party(party) for i, party in run.parties.items()}
    found.check()
    return found


# ---------------------------------------------------------------------- in memory


class _MemoryRun:
    """Run in memory: the messages in flight, and the faults applied to them."""

    def __init__(
        self,
        found: ProtocolRun,
        order: Order,
        faults: Sequence[Fault],
        replays: Sequence[MessageReplay],
        deviation: AbstractDeviation | None,
        seed: int,
    ) -> None:
        self.found = found
        self._order = order
        self._plan = FaultPlan(faults, seed)
        self._crashes = [fault for fault in faults if isinstance(fault, Crash)]
        self._replays = sorted(replays, key=lambda replay: replay.before)
        self._earlier = record_session(found.scenario) if replays else ()
        for replay in replays:
            if not 1 <= replay.message <= len(self._earlier):
                raise UsageError(
                    f"replay: message {replay.message}, and a session of {found.scenario} has "
                    f"{len(self._earlier)}, counted from 1"
                )
        self._handled = dict.fromkeys(found.scenario.members, 0)
        self._gone: set[int] = set()
        self._held: list[InFlight] = []
        self._seen = 0
        self._deliveries = 0
        self._overtaken = 0
        self._ended: list[int] = []
        self._run: LocalRun[Any] = LocalRun(_participants(found, deviation).values())

    def play(self) -> None:
        """Start all parties, deliver all messages, and record the outcomes."""
        for party in self._run.parties.values():
            self._act(party.me, partial(self._start, party))
        self._apply_faults()
        self._crash_due()
        while self._run.in_flight or self._held or self._replays:
            self._replay_due()
            if not self._run.in_flight:
                self._run.in_flight, self._held = self._held, []
                self._seen = len(self._run.in_flight)
            if self._run.in_flight:
                self._deliver()
        if self._overtaken > MAX_TOLD:
            more = self._overtaken - MAX_TOLD
            self.found.sentences.append(f"{more} more messages overtook others")
        outcomes = self._run.outcomes()
        self.found.outcomes = {
            PartyId(i): outcomes[PartyId(i)]
            for i in dict.fromkeys((*self._ended, *outcomes))
            if i not in self.found.cheaters and i not in self._gone
        }
        self.found.parties = {i: inner_party(p) for i, p in self._run.parties.items()}
        self.found.note_idle((*self._plan.idle, *self._crashes))

    def _start(self, party: Participant[Any]) -> None:
        self._run._take(party.me, party.start())

    def _deliver(self) -> None:
        """Deliver the next message by the order."""
        numbers, flying = self._order.numbers, self._run.in_flight
        index = numbers[self._deliveries % len(numbers)] % len(flying)
        self._deliveries += 1
        receiver = flying[index].send.to
        if receiver in self._gone:
            del flying[index]
            self._seen = len(flying)
            return
        self._note_overtaking(index)
        self._deliver_at(index)
        self._handled[receiver] = self._handled.get(receiver, 0) + 1
        self._crash_due()

    def _note_overtaking(self, index: int) -> None:
        """Record that a message is delivered before an older one to the same party."""
        message, *older = self._run.in_flight[index], *self._run.in_flight[:index]
        first = next((each for each in older if each.send.to == message.send.to), None)
        if first is None:
            return
        self._overtaken += 1
        if self._overtaken <= MAX_TOLD:
            one, other = (f"{m.send.kind} from party {m.sender}" for m in (message, first))
            self.found.sentences.append(f"at party {message.send.to}, {one} overtook {other}")

    def _deliver_at(self, index: int) -> None:
        message = self._run.in_flight[index]
        self._seen = len(self._run.in_flight) - 1
        self._act(message.send.to, partial(self._run.deliver, index))
        self._apply_faults()

    def _apply_faults(self) -> None:
        """Apply message faults to the messages that were just sent."""
        flying = self._run.in_flight
        new, self._run.in_flight = flying[self._seen :], flying[: self._seen]
        for message in new:
            kind, sender, to = message.send.kind, message.sender, message.send.to
            fate = self._plan.decide(kind, sender, to)
            what = f"{kind} from party {sender} to party {to}"
            if fate.dropped:
                self.found.silence = True
                self.found.sentences.append(f"the network lost {what}")
                continue
            if fate.copies_ms:
                self.found.sentences.append(f"the network delivered {what} more than once")
            if fate.extra_ms:
                self.found.sentences.append(f"the network held back {what}")
            copies = [message] * (1 + len(fate.copies_ms))
            (self._held if fate.extra_ms else self._run.in_flight).extend(copies)
        self._seen = len(self._run.in_flight)

    def _crash_due(self) -> None:
        for crash in [c for c in self._crashes if self._handled.get(c.party) == c.after_messages]:
            self._crashes.remove(crash)
            after = f"after {crash.after_messages} messages"
            if crash.down_ms == float("inf"):
                self.found.sentences.append(f"party {crash.party} crashed {after}, for good")
                self._gone.add(crash.party)
                self.found.silence = True
                continue
            self.found.sentences.append(f"party {crash.party} crashed {after} and came back")
            self._act(crash.party, partial(self._restart, crash.party))
            self._seen = len(self._run.in_flight)

    def _restart(self, i: int) -> None:
        old: Any = self._run.parties[PartyId(i)]
        inner: Party[Any, Any] = getattr(old, "party", old)
        new, outputs = Party.resume(inner.definition, inner.snapshot(), share=inner.share)
        if hasattr(old, "replace_party"):
            self._run._take(PartyId(i), old.replace_party(new, outputs))
        else:
            self._run.replace_party(self.found.scenario.wrap(new), outputs)

    def _replay_due(self) -> None:
        while self._replays and (
            self._replays[0].before <= self._deliveries + 1 or not self._run.in_flight
        ):
            replay = self._replays.pop(0)
            number = replay.message - 1
            message = self._earlier[number]
            self.found.sentences.append(
                f"party {message.sender} replayed message {number + 1} of session {EARLIER} "
                f"({message.send.kind}) to party {message.send.to} in session {PRESENT}"
            )
            if message.send.to not in self._gone:
                self._run.in_flight.insert(0, message)
                self._deliver_at(0)

    def _act(self, party: int, do: Callable[[], object]) -> None:
        """Call a party; an exception from it breaks an invariant."""
        try:
            do()
        except Exception as error:
            _report_exception(self.found, party, error)
            raise
        if party not in self._ended and self._run.parties[PartyId(party)].outcome is not None:
            self._ended.append(party)


def record_session(scenario: ProtocolScenario, session: int = EARLIER) -> tuple[InFlight, ...]:
    """Return every message of an honest session, in the order of sending."""
    run: LocalRun[Any] = LocalRun(scenario.participant(i, session) for i in scenario.members)
    found: list[InFlight] = []

    def note() -> None:
        known = {id(message) for message in found}
        found.extend(m for m in run.in_flight if id(m) not in known)

    run.start()
    note()
    while run.in_flight:
        run.deliver()
        note()
    return tuple(found)


# ---------------------------------------------------------------------- both ways


def _begin(
    scenario: ProtocolScenario,
    deviation: AbstractDeviation | None,
    invariants: Iterable[Invariant[...]],
    faults: Sequence[Fault],
) -> ProtocolRun:
    check_type("scenario", scenario, ProtocolScenario)
    check_faults(faults, scenario.members, kinds_of([scenario.definition]))
    if deviation is not None:
        deviation.check_names(scenario)
    found = ProtocolRun(
        scenario, sentences=[str(scenario)], invariants=check_invariants(invariants)
    )
    if deviation is not None:
        found.cheaters = frozenset({deviation.party})
        found.silence = deviation.silences
        found.idle.append(NO_DEVIATION)
    return found


def _participants(
    found: ProtocolRun, deviation: AbstractDeviation | None
) -> dict[int, Participant[Any]]:
    made: dict[int, Participant[Any]] = {}
    for i in found.scenario.members:
        if deviation is not None and i == deviation.party:
            made[i] = deviation.adversary(found.scenario.party(i, PRESENT), found.note_deviation)
        else:
            made[i] = found.scenario.participant(i, PRESENT)
    return made


def _report_exception(found: ProtocolRun, party: int | None, error: Exception) -> None:
    """Raise a broken invariant for an exception from a party."""
    if isinstance(error, BrokenInvariant):
        return
    try:
        checks.no_exception(party, error)
    except BrokenInvariant as broken:
        found.attach_failure(broken)
        raise broken from error


def fault_sentence(fault: Fault) -> str:
    """Describe a fault in a sentence."""
    match fault:
        case Crash():
            back = "" if fault.down_ms < float("inf") else ", for good"
            return f"party {fault.party} crashed after {fault.after_messages} messages{back}"
        case Partition():
            one, other = sorted(fault.one), sorted(fault.other)
            return f"nothing passed between {one} and {other} from {fault.from_ms:g} ms on"
    what = fault.kind or "any message"
    if fault.nth:
        what += f" number {fault.nth}"
    if fault.sender:
        what += f" from party {fault.sender}"
    if fault.receiver:
        what += f" to party {fault.receiver}"
    verb = {Effect.DROP: "lost", Effect.DELAY: "held back", Effect.DUPLICATE: "doubled"}
    chance = f" with probability {fault.probability:g}" if fault.probability < 1 else ""
    return f"the network {verb[fault.effect]} {what}{chance}"


def snippet(
    function: str, scenario: ProtocolScenario, *positional: str, **given: tuple[Any, Any]
) -> str:
    """Return code that calls a function of the kit on a scenario.

    Args:
        given: arguments, each with the value that it has by default.
    """
    shown = [scenario.recipe, *positional]
    shown += [f"{name}={_code(v)}" for name, (v, default) in given.items() if v != default]
    arguments = "".join(f"    {argument},\n" for argument in shown)
    code = f"{function}(\n{arguments})"
    invariants, _ = given.get("invariants", ((), ()))
    brought = [made.recipe for made in invariants]
    named = {made.name for made in invariants}
    deviation, _ = given.get("deviation", (None, None))
    homes = [
        getattr(each, "__module__", None)
        for each in (scenario.wrap, scenario.make, scenario.problem, type(deviation))
    ]
    brought += [_import_of(name, homes) for name in _unknown_names(code) if name not in named]
    lines = "".join(f"{line}\n" for line in (f"from {KIT} import *", *brought))
    return f"{lines}\n{code}"


def _unknown_names(code: str) -> list[str]:
    """Return the names in code that are neither built in nor offered by the kit."""
    offered = import_module(KIT).__all__
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:  # a recipe that is no expression
        return []
    found = dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name))
    return [name for name in found if name not in offered and name not in vars(builtins)]


def _import_of(name: str, homes: Iterable[str | None]) -> str:
    """Return the statement that imports a name from the first of the modules that has it."""
    for home in homes:
        if home not in (None, "__main__") and hasattr(sys.modules.get(home or ""), name):
            return f"from {home} import {name}"
    return f"{name} = ...  # as in your test"


def _network_code(network: Network) -> str:
    try:
        return re.sub(r"(?<=: )inf\b", "float('inf')", f"Network.of({network.table()!r})")
    except UsageError:  # a latency of a class that tables do not know
        return "network"


def _code(value: Any) -> str:
    """Return a value as an expression; enumerations by name."""
    if isinstance(value, tuple):
        return "(" + "".join(f"{_code(item)}, " for item in value) + ")"
    if isinstance(value, Invariant):
        return value.name
    if isinstance(value, MessageFault):
        shown = [f"Effect.{value.effect.name}"]
        for name in ("kind", "sender", "receiver", "nth"):
            if getattr(value, name) is not None:
                shown.append(f"{name}={getattr(value, name)!r}")
        shown += [f"probability={value.probability!r}", f"delay_ms={value.delay_ms!r}"]
        return f"MessageFault({', '.join(shown)})"
    return repr(value).replace("=inf", "=float('inf')")
