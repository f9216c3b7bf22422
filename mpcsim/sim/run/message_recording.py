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
"""Flow of messages: sender, receiver and kind."""


@dataclass(frozen=True)
class DecryptedMessage:
    """Message as it was sent, decrypted."""

    sealed: bool
    payload: bytes | None
    """Decrypted payload; None if the sender's own keys do not decrypt it."""
    kind: type[Message]
    context: WireContext
    """Context for decoding the payload."""
    broadcast: bool


@dataclass
class Recording:
    """Recording of a session's messages and kept values. Holds SECRETS."""

    sent: dict[Flow, list[tuple[Send, tuple[bytes, ...]]]] = field(default_factory=dict, repr=False)
    """Envelopes by flow, each with the pair secrets of sender and receiver at that time."""
    kept: dict[tuple[PartyId, int], Any] = field(default_factory=dict, repr=False)
    """Values that a party kept after a round."""
    parties: dict[PartyId, Party[Any, Any]] = field(default_factory=dict, repr=False)
    steps: dict[tuple[PartyId, int], list[str]] = field(default_factory=dict)
    """Numbered steps of the protocol that a party took in a round."""
    ignored: dict[Flow, list[MessageIgnored]] = field(default_factory=dict)
    before_work: Callable[[PartyId, str], None] | None = None
    """Callback before a party works, with sender and kind of its message; empty at the start."""
    _opened: dict[Flow, DecryptedMessage] = field(default_factory=dict, repr=False)

    def on_event(self, event: PartyEvent) -> None:
        """Record an event of a party: the listener of all parties."""
        if isinstance(event, StepStarted):
            self.steps.setdefault((PartyId(event.party), event.round), []).append(event.step)
        elif isinstance(event, MessageIgnored):
            flow = PartyId(event.claimed_sender), PartyId(event.receiver), event.kind
            self.ignored.setdefault(flow, []).append(event)

    def first_message(self, flow: Flow) -> DecryptedMessage | None:
        """Return the first message of a flow, decrypted; None if there was none."""
        if flow in self.sent and flow not in self._opened:
            self._opened[flow] = self.decrypt(flow, 0)
        return self._opened.get(flow)

    def decrypt(self, flow: Flow, nth: int) -> DecryptedMessage:
        """Return a message of a flow, numbered from 0, decrypted."""
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
        """Return the payloads of all messages sent to a party."""
        flows = [flow for flow in self.sent if flow[1] == receiver]
        found = [self.first_message(flow) for flow in flows]
        return [o.payload for o in found if o is not None and o.payload is not None]


class RecordedParty:
    """Participant that wraps a party or an adversary and records its messages."""

    def __init__(self, inner: Participant[Any], recording: Recording) -> None:
        self.inner = inner
        """Wrapped party or adversary."""
        self._recording = recording
        self._secrets: dict[PartyId, tuple[bytes, ...]] = {}
        recording.parties[inner.me] = self.party

    @property
    def party(self) -> Party[Any, Any]:
        """Party inside the adversary, or the wrapped party."""
        return inner_party(self.inner)

    @property
    def me(self) -> PartyId:
        return self.inner.me

    @property
    def outcome(self) -> Done[Any] | Aborted | None:
        return self.inner.outcome

    def waiting_state(self) -> Waiting | None:
        return self.inner.waiting_state()

    def start(self) -> list[Output[Any]]:
        """Start the wrapped party, and record its messages."""
        return self._record_step("", self.inner.start)

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        """Pass a message to the wrapped party, and record its answers."""
        what = f"{sender} {self.party.kind_of(data)}"
        return self._record_step(what, lambda: self.inner.receive(sender, data))

    def replace_party(
        self, party: Party[Any, Any], outputs: list[Output[Any]]
    ) -> list[Output[Any]]:
        """Replace the wrapped party by its copy resumed after a crash."""
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
        waiting = party.waiting_state()
        done = waiting.round - 1 if waiting else len(party.definition.rounds)
        if not isinstance(party.outcome, Aborted):
            recording.kept.setdefault((self.me, done), party.keep)
        return outputs

    def _remember_secrets(self) -> None:
        for peer, secret in self.party.pair_secrets.items():
            known = self._secrets.get(peer, ())
            if secret not in known:
                self._secrets[peer] = (*known, secret)
