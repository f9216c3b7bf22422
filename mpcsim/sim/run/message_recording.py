"""Recording of a run's messages and of what each party keeps, for inspection afterwards.

``RecordedParty`` takes a party's place in a run, passes everything on and records it. It does next
to nothing while the run goes on, so that measured times stay the same; messages are decrypted
afterwards, with the sender's own keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mpcsim.crypto.encoding import Message, WireContext
from mpcsim.errors import Aborted
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Delivery, Done, Output, Party, Send, Waiting
from mpcsim.protocols.engine.channel import unseal
from mpcsim.protocols.engine.envelope import ABORT_KIND, AbortNotice, Envelope
from mpcsim.protocols.engine.events import MessageIgnored, PartyEvent, StepStarted
from mpcsim.protocols.local_run import Participant
from mpcsim.sim.run.completion import inner_party

__all__ = ["Flow", "RecordedParty", "DecryptedMessage", "Recording"]

Flow = tuple[PartyId, PartyId, str]
"""Sender, receiver and kind of message."""


@dataclass(frozen=True)
class DecryptedMessage:
    """A message as it was sent."""

    sealed: bool
    payload: bytes | None
    """None if it does not open with the sender's own keys."""
    kind: type[Message]
    context: WireContext
    """To decode it with."""
    broadcast: bool


@dataclass
class Recording:
    """What a session showed to somebody who may look at everything. Holds SECRETS."""

    sent: dict[Flow, list[tuple[Send, tuple[bytes, ...]]]] = field(default_factory=dict, repr=False)
    """Every envelope, and the secrets its sender shared with the receiver at that time."""
    kept: dict[tuple[PartyId, int], Any] = field(default_factory=dict, repr=False)
    """What a party kept after a round."""
    parties: dict[PartyId, Party[Any, Any]] = field(default_factory=dict, repr=False)
    steps: dict[tuple[PartyId, int], list[str]] = field(default_factory=dict)
    """The numbered steps a party took in a round."""
    ignored: dict[Flow, list[MessageIgnored]] = field(default_factory=dict)
    before_work: Callable[[PartyId, str], None] | None = None
    """Called before a party works, with sender and kind of the message it gets; empty at its
    start."""
    _opened: dict[Flow, DecryptedMessage] = field(default_factory=dict, repr=False)

    def on_event(self, event: PartyEvent) -> None:
        """The listener of all parties."""
        if isinstance(event, StepStarted):
            self.steps.setdefault((PartyId(event.party), event.round), []).append(event.step)
        elif isinstance(event, MessageIgnored):
            flow = PartyId(event.claimed_sender), PartyId(event.receiver), event.kind
            self.ignored.setdefault(flow, []).append(event)

    def first_message(self, flow: Flow) -> DecryptedMessage | None:
        """The first message of a flow, taken out of its envelope; None if there was none."""
        if flow in self.sent and flow not in self._opened:
            self._opened[flow] = self.decrypt(flow, 0)
        return self._opened.get(flow)

    def decrypt(self, flow: Flow, nth: int) -> DecryptedMessage:
        """A message of a flow, the first is 0, taken out of its envelope."""
        send, secrets = self.sent[flow][nth]
        sender = self.parties[flow[0]]
        envelope = Envelope.decode(send.data)
        payload: bytes | None = envelope.body
        if envelope.sealed:
            tried = (unseal(secret, envelope) for secret in secrets)
            payload = next((found for found in tried if found is not None), None)
        kind: type[Message] = AbortNotice
        broadcast = True
        if envelope.kind != ABORT_KIND:
            sends = sender.definition.kinds()[envelope.kind - 1][1]
            kind, broadcast = sends.message, sends.delivery is Delivery.BROADCAST
        return DecryptedMessage(envelope.sealed, payload, kind, sender.wire, broadcast)

    def payloads_to(self, receiver: PartyId) -> list[bytes]:
        """Everything that was sent to a party, opened."""
        flows = [flow for flow in self.sent if flow[1] == receiver]
        found = [self.first_message(flow) for flow in flows]
        return [o.payload for o in found if o is not None and o.payload is not None]


class RecordedParty:
    """A party, or an adversary, with an onlooker; a run takes it in the place of either."""

    def __init__(self, inner: Participant[Any], recording: Recording) -> None:
        self.inner = inner
        """The party, or adversary, that it stands for."""
        self._recording = recording
        self._secrets: dict[PartyId, tuple[bytes, ...]] = {}
        recording.parties[inner.me] = self.party

    @property
    def party(self) -> Party[Any, Any]:
        """The party itself."""
        return inner_party(self.inner)

    @property
    def me(self) -> PartyId:
        return self.inner.me

    @property
    def outcome(self) -> Done[Any] | Aborted | None:
        return self.inner.outcome

    def waiting(self) -> Waiting | None:
        return self.inner.waiting()

    def start(self) -> list[Output[Any]]:
        """Start the party."""
        return self._record_step("", self.inner.start)

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        """Hand the party a message."""
        what = f"{sender} {self.party.kind_of(data)}"
        return self._record_step(what, lambda: self.inner.receive(sender, data))

    def replace_party(
        self, party: Party[Any, Any], outputs: list[Output[Any]]
    ) -> list[Output[Any]]:
        """Go on with the party as it was resumed after a crash."""
        self._recording.parties[self.me] = party
        if isinstance(self.inner, Party):
            self.inner = party
            return outputs
        resumed: list[Output[Any]] = self.inner.replace_party(party, outputs)  # type: ignore[attr-defined]
        return resumed

    def _record_step(self, what: str, act: Callable[[], list[Output[Any]]]) -> list[Output[Any]]:
        recording = self._recording
        if recording.before_work is not None:
            recording.before_work(self.me, what)
        self._remember_secrets()
        outputs = act()
        self._remember_secrets()
        for output in outputs:
            if isinstance(output, Send):
                flow = self.me, output.to, output.kind
                secrets = self._secrets.get(output.to, ())
                recording.sent.setdefault(flow, []).append((output, secrets))
        party = self.party
        waiting = party.waiting()
        done = waiting.round - 1 if waiting else len(party.definition.rounds)
        if not isinstance(party.outcome, Aborted):
            recording.kept.setdefault((self.me, done), party.keep)
        return outputs

    def _remember_secrets(self) -> None:
        for peer, secret in self.party.pair_secrets.items():
            known = self._secrets.get(peer, ())
            if secret not in known:
                self._secrets[peer] = (*known, secret)
