"""Faulty parties: ours, behind something that makes one mistake."""

from typing import Any

from mpcsim.errors import Aborted, OnReceipt, Reason
from mpcsim.protocols.engine import Done, Envelope, Output, Party
from mpcsim.testing.runs.scenarios import ProtocolScenario


class Around:
    """A participant around a party; by itself it changes nothing."""

    def __init__(self, party: Party[Any, Any]) -> None:
        self.party = party
        self.instead: Done[Any] | Aborted | None = None

    @property
    def me(self) -> Any:
        return self.party.me

    @property
    def outcome(self) -> Any:
        return self.instead or self.party.outcome

    def waiting_state(self) -> Any:
        return None if self.instead else self.party.waiting_state()

    def start(self) -> list[Output[Any]]:
        return self.party.start()

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        return self.party.receive(sender, data)

    @classmethod
    def of(cls, scenario: ProtocolScenario) -> ProtocolScenario:
        return scenario.wrapped(cls, f"{cls.__name__}.of({scenario.recipe})")


class Fragile(Around):
    """Looks up the session, and expects it to be there."""

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        sessions = {self.party.session_id: self.party}
        return sessions[Envelope.decode(data).session_id].receive(sender, data)


class Gullible(Around):
    """Takes the last thing it was told for the result if a check fails."""

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        outputs = self.party.receive(sender, data)
        if isinstance(self.party.outcome, Aborted):
            self.instead = Done(Forged())
        return outputs


class Forged:
    def encode(self) -> bytes:
        return bytes(64)


class Impatient(Around):
    """Takes a repeated message for an attack."""

    def __init__(self, party: Party[Any, Any]) -> None:
        super().__init__(party)
        self.seen: set[bytes] = set()

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        if data in self.seen and not self.party.outcome:
            where = OnReceipt(sender, self.party.kind_of(data))
            self.instead = Aborted(Reason.CONFLICTING_MESSAGE, where, frozenset({sender}))
        self.seen.add(data)
        return self.party.receive(sender, data)


class Deaf(Around):
    """Forgets what comes before its turn."""

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        envelope = Envelope.decode(data)
        waiting = self.party.waiting_state()
        if waiting is not None and envelope.session_id == self.party.session_id:
            kinds = self.party.definition.kinds()
            if envelope.kind <= len(kinds):
                kind = kinds[envelope.kind - 1][1].kind
                if kind not in waiting.missing:
                    return []
        return self.party.receive(sender, data)
