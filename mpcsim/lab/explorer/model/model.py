"""View of a run for the explorer: steps, messages, checks, knowledge and times, as plain data.

``view`` turns a trace, and an onlooker's recording of it if there is one, into nested frozen
dataclasses of texts and numbers; ``as_json`` into JSON values. Unless ``reveal`` is set, no secret
value is in it. All times are milliseconds of the run's clock, from its start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from inspect import getdoc
from typing import Any

from mpcsim.errors import Aborted, InvalidEncoding
from mpcsim.ids import ROLES, PartyId
from mpcsim.lab.explorer.model.checks import FAILED, Progress, checks_of
from mpcsim.lab.explorer.model.fields import (
    WHOLE_OPERATIONS,
    Field,
    message_fields,
    schema,
    shortened,
)
from mpcsim.lab.explorer.model.knowledge_trace import (
    KnowledgeTrace,
    LearnedItem,
    network_forbidden,
    network_sees,
)
from mpcsim.lab.explorer.model.sessions import Edit
from mpcsim.lab.explorer.model.steps import ExploredEvent, StepOrder, is_rejected
from mpcsim.lab.explorer.model.views import (
    AbortView,
    Detail,
    LinkNumbers,
    LinkView,
    MessageView,
    PartyView,
    RoundRun,
    RoundView,
    SegmentView,
    StepView,
    View,
)
from mpcsim.protocols.engine import Definition, Round
from mpcsim.protocols.engine.events import Ignored
from mpcsim.protocols.signing import PROTOCOLS
from mpcsim.sim.colours import party_colour
from mpcsim.sim.network.losses import describe_loss, mean_loss
from mpcsim.sim.network.topology import Link, Network
from mpcsim.sim.run.message_recording import DecryptedMessage, Recording
from mpcsim.sim.trace import Trace
from mpcsim.sim.traces.records import MessageRecord, Verdict, WorkRecord


def as_json(value: Any) -> Any:
    """Return a dataclass as dictionaries, and tuples as lists."""
    return _plain(asdict(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


@dataclass(frozen=True)
class Baseline:
    """Original run, before any change, and its network."""

    trace: Trace
    network: Network


def view(
    trace: Trace,
    recording: Recording | None = None,
    *,
    network: Network,
    definition: Definition[Any, Any] | None = None,
    before: Baseline | None = None,
    edits: Iterable[Edit] = (),
    reveal: bool = False,
    frozen: str = "",
    fixed_times: str = "",
) -> View:
    """Return the view of a run.

    Args:
        recording: of an onlooker of this session (not needed for a mere trace).
        network: that the run went over.
        definition: of the protocol; not necessary for the protocols of this package.
        before: the original run; by default this one.
        edits: of the messages.
        reveal: show secret values, too.
    """
    before = before or Baseline(trace, network)
    return _ViewBuilder(trace, recording, definition, tuple(edits), reveal).view(
        network, before.network, before.trace, frozen, fixed_times
    )


def details(
    trace: Trace,
    recording: Recording | None,
    *,
    definition: Definition[Any, Any] | None = None,
    reveal: bool = False,
) -> dict[str, Detail]:
    """Return the contents of each message, by the messages' keys; arguments as for ``view``."""
    found: dict[str, Detail] = {}
    for message in trace.messages:
        if _key(message) not in found:
            found[_key(message)] = _detail(message, recording, definition, reveal)
    return found


def _key(message: MessageRecord) -> str:
    return f"{message.sender}>{message.receiver} {message.kind}"


def _detail(
    message: MessageRecord,
    recording: Recording | None,
    definition: Definition[Any, Any] | None,
    reveal: bool,
) -> Detail:
    flow = message.sender, message.receiver, message.kind
    opened = recording.first_message(flow) if recording else None
    if opened is None:
        definition = definition or PROTOCOLS.get(message.protocol)
        kinds = {s.kind: s.message for _, s in definition.kinds()} if definition else {}
        kind = kinds.get(message.kind)
        doc, fields = (_doc(kind), schema(kind)) if kind else ("", ())
        return Detail(doc, None, None, None, fields, "", None, ())
    private = opened.sealed and not opened.broadcast
    size = None if opened.payload is None else len(opened.payload)
    found, problem, raw = _fields(opened, private, reveal)
    return Detail(
        _doc(opened.kind),
        opened.sealed,
        opened.broadcast,
        size,
        found,
        problem,
        raw,
        WHOLE_OPERATIONS,
    )


def _fields(
    opened: DecryptedMessage, private: bool, reveal: bool
) -> tuple[tuple[Field, ...], str, str | None]:
    if opened.payload is None:
        return (), "it does not open with its sender's own keys", None
    try:
        found = message_fields(
            opened.payload, opened.kind, opened.context, private=private, reveal=reveal
        )
    except InvalidEncoding as error:
        raw = shortened(opened.payload) if reveal or not private else None
        return schema(opened.kind), f"does not decode: {error}", raw
    return found, "", None


def _doc(kind: type[Any]) -> str:
    return " ".join((getdoc(kind) or "").split())


class _ViewBuilder:
    """Builder of one view."""

    def __init__(
        self,
        trace: Trace,
        recording: Recording | None,
        definition: Definition[Any, Any] | None,
        edits: tuple[Edit, ...],
        reveal: bool,
    ) -> None:
        self.trace = trace
        self.recording = recording
        self.edits = edits
        self.reveal = reveal
        self.protocol = next((w.protocol for w in trace.work if w.protocol), "")
        self.definition = definition or PROTOCOLS.get(self.protocol)
        self.learning = KnowledgeTrace(self.protocol, recording, reveal=reveal)
        self.order = StepOrder(trace)
        self.ignored = {m.number: self._ignored(m) for m in trace.messages}

    # ------------------------------------------------------------------ messages

    def _ignored(self, message: MessageRecord) -> Ignored | None:
        """Return why a message's receiver ignored it; None: it did not."""
        if message.fate == "duplicate":
            return Ignored.DUPLICATE
        if self.order.is_late(message):
            return Ignored.OVER
        if self.recording is None:
            return None
        flow = message.sender, message.receiver, message.kind
        found = self.recording.ignored.get(flow, ())
        return next((event.why for event in found if event.size == message.size), None)

    def _message(self, message: MessageRecord, critical: frozenset[int]) -> MessageView:
        flow = message.sender, message.receiver, message.kind
        opened = self.recording.first_message(flow) if self.recording else None
        ignored = self.ignored[message.number]
        return MessageView(
            message.number,
            _key(message),
            message.kind,
            message.sender,
            message.receiver,
            message.round,
            message.size,
            message.sent_ms,
            message.received_ms,
            message.fate,
            sum(hop.transfer.recovery_ms for hop in message.hops),
            any(
                edit.sender == message.sender and edit.applies_to(message.kind, message.receiver)
                for edit in self.edits
            ),
            message.number in critical,
            ignored.value if ignored else "",
            checks_of(
                message.protocol,
                message.kind,
                message.sender,
                self.order.progress.get(message.receiver, Progress(None, 0)),
                sealed=opened.sealed if opened else self._always_sealed(message.kind),
                received=self.order.has_arrived(message),
                # A duplicate is checked like its original, and then ignored.
                ignored=None if ignored is Ignored.DUPLICATE else ignored,
            ),
        )

    def _always_sealed(self, kind: str) -> bool:
        kinds = self.definition.kinds() if self.definition else ()
        return any(sends.kind == kind and sends.sealed for _, sends in kinds)

    # ------------------------------------------------------------------ steps

    def _steps(self) -> tuple[StepView, ...]:
        order = self.order
        works: dict[int, list[WorkRecord]] = {}
        for work in self.trace.work:
            if (home := order.home[work.number]) is not None:
                works.setdefault(home, []).append(work)
        sent: dict[int, list[int]] = {}
        for message in self.trace.messages:
            if message.fate != "duplicate":
                sent.setdefault(order.sending_step(message), []).append(message.number)
        steps = []
        for at, step in enumerate(order.steps):
            done = works.get(at, [])
            rounds = [w for w in done if w.round]
            arriving = step.message
            steps.append(
                StepView(
                    f"start {step.party}"
                    if arriving is None
                    else f"{_key(arriving)}, {arriving.fate}",
                    step.party,
                    None if arriving is None else arriving.number,
                    step.at_ms,
                    max([step.at_ms, *(w.end_ms for w in done)]),
                    _title(step),
                    tuple(
                        RoundRun(w.round, w.name, self._numbered_steps(w), w.start_ms, w.end_ms)
                        for w in rounds
                    ),
                    tuple(sent.get(at, ())),
                    self._gained(step, rounds),
                    order.ended[step.party].status if order.last.get(step.party) == at else "",
                    self._status_after(at),
                )
            )
        return tuple(steps)

    def _numbered_steps(self, work: WorkRecord) -> tuple[str, ...]:
        """Return the numbered steps of a round; the first one is the round itself."""
        if self.recording is None:
            return ()
        return tuple(dict.fromkeys(self.recording.steps.get((work.party, work.round), [])[1:]))

    def _status_after(self, at: int) -> str:
        """Return the status of a party after a step."""
        order, step = self.order, self.order.steps[at]
        ending = order.ended[step.party]
        last = order.last.get(step.party)
        why = None if step.message is None else self.ignored[step.message.number]
        if why is not None and at != last:
            return f"ignored: {why.value}"
        if last is not None and at >= last:
            return ending.text or ending.status
        here = [s for s in order.steps[: at + 1] if s.party == step.party]
        if ending.text and not any(s.party == step.party for s in order.steps[at + 1 :]):
            return ending.text
        if self.definition is None:
            return "waiting"
        begun = order.last_round_begun(step.party, at)
        had = {(s.message.kind, s.message.sender) for s in here if s.message is not None}
        for round_ in self.definition.rounds:
            if round_.number == begun + 1:
                return _waiting_text(round_, step.party, had, self.trace)
        return "waiting"

    def _gained(self, step: ExploredEvent, rounds: Iterable[WorkRecord]) -> tuple[LearnedItem, ...]:
        progress, learning, arriving = (
            self.order.progress[step.party],
            self.learning,
            step.message,
        )
        found: list[LearnedItem] = []
        if arriving is None:
            found += learning.before(step.party)
        elif self.ignored[arriving.number]:
            return ()
        elif not is_rejected(progress.state, arriving):
            found += learning.from_message(arriving.kind, arriving.sender)
        for work in rounds:
            if work.round != progress.aborted_in:
                found += learning.from_round(step.party, work.round)
        return tuple(found)

    # ------------------------------------------------------------------ the view

    def _aborts(self, messages: Iterable[MessageView]) -> tuple[AbortView, ...]:
        found = []
        for ending in self.trace.endings:
            state = self.order.progress[ending.party].state
            if not isinstance(state, Aborted) or state.reported_by is not None:
                continue
            failed = [
                m.number
                for m in messages
                if m.receiver == ending.party and any(c.outcome == FAILED for c in m.checks)
            ]
            found.append(
                AbortView(
                    ending.party,
                    ending.at_ms,
                    str(state.where),
                    state.reason.name,
                    state.reason.text,
                    state.detail,
                    tuple(sorted(state.culprits)),
                    tuple(sorted(state.suspects)),
                    state.consequence.label,
                    state.consequence.value,
                    state.blame.name.lower(),
                    state.blame.value,
                    failed[-1] if failed else None,
                )
            )
        return tuple(sorted(found, key=lambda abort: abort.at_ms))

    def _rounds(self) -> tuple[RoundView, ...]:
        rows = []
        names = {w.round: w.name for w in self.trace.work if w.round}
        for number, name in sorted(names.items()):
            works = [w for w in self.trace.work if w.round == number]
            arrivals = [
                m.received_ms
                for m in self.trace.messages
                if m.round == number and m.received_ms is not None and self.order.has_arrived(m)
            ]
            end = max([w.end_ms for w in works] + arrivals)
            rows.append(RoundView(number, name, min(w.start_ms for w in works), end))
        return tuple(rows)

    def _parties(self, network: Network) -> tuple[PartyView, ...]:
        cheats = {edit.sender for edit in self.edits}
        return tuple(
            PartyView(
                ending.party,
                ROLES.get(ending.party, ""),
                network.placement.get(ending.party, ""),
                party_colour(ending.party),
                ending.status,
                ending.at_ms,
                ending.text,
                ending.party in cheats,
            )
            for ending in self.trace.endings
        )

    def view(
        self,
        network: Network,
        first_network: Network,
        at_first: Trace,
        frozen: str,
        fixed_times: str,
    ) -> View:
        """Return the whole view."""
        trace, parties = self.trace, self.order.parties
        path = trace.critical_path()
        critical = frozenset(path.messages)
        messages = tuple(self._message(m, critical) for m in trace.messages)
        never = {str(i): self.learning.never(i, parties) for i in parties}
        return View(
            name=trace.name,
            protocol=self.protocol,
            network=trace.network,
            clock=trace.clock,
            compute=trace.compute,
            seed=trace.seed,
            first_seed=at_first.seed,
            verdict=trace.verdict.value,
            good=trace.verdict is Verdict.VALID,
            finished_ms=trace.finished_ms,
            at_first_ms=at_first.finished_ms,
            revealed=self.reveal,
            frozen=frozen,
            fixed_times=fixed_times,
            parties=self._parties(network),
            rounds=self._rounds(),
            messages=messages,
            steps=self._steps(),
            critical=tuple(
                SegmentView(
                    s.where, s.party, s.what, s.start_ms, s.end_ms, dict(s.parts), s.message
                )
                for s in path.segments
                if s.end_ms > s.start_ms
            ),
            critical_parts={part: ms for part, ms in path.parts.items() if ms > 0},
            aborts=self._aborts(messages),
            never={**never, "network": network_forbidden()},
            network_sees=network_sees(),
            links=tuple(
                LinkView(now.a, now.b, _numbers(now), _numbers(first), _distributions(now))
                for now, first in zip(network.links, first_network.links, strict=True)
            ),
            edits=tuple(map(str, self.edits)),
        )


def _numbers(link: Link) -> LinkNumbers:
    rate = link.mbit_per_s
    return LinkNumbers(
        link.latency.mean_ms, rate if rate < math.inf else None, mean_loss(link.loss)
    )


def _distributions(link: Link) -> str:
    """Return the properties of a link that its numbers do not show."""
    said = [str(link.latency)]
    if not isinstance(link.loss, int | float):
        said.append(f"loss {link.loss}")
    back = []
    if link.back_latency is not None:
        back.append(str(link.back_latency))
    if link.back_mbit_per_s is not None:
        back.append(f"{link.back_mbit_per_s:g} Mbit/s")
    if link.back_loss is not None:
        back.append(f"loss {describe_loss(link.back_loss)}")
    return ", ".join(said) + (f"; on the way back {', '.join(back)}" if back else "")


def _title(step: ExploredEvent) -> str:
    if step.message is None:
        return f"Party {step.party} starts"
    return f"Party {step.party} receives {step.message.kind} from party {step.message.sender}"


def _waiting_text(
    round_: Round, party: PartyId, had: set[tuple[str, PartyId]], trace: Trace
) -> str:
    """Return which messages a party waits for in a round, as far as they are ever sent."""
    missing = []
    for kind in (need.__name__ for need in round_.needs):
        senders = {m.sender for m in trace.messages if m.receiver == party and m.kind == kind}
        if due := [str(j) for j in sorted(senders) if (kind, j) not in had]:
            missing.append(f"{kind} from party {', '.join(due)}")
    what = f" for {' and '.join(missing)}" if missing else ""
    return f"waits {round_.where}{what}"
