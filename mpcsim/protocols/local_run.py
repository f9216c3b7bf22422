"""Run the parties of one session in memory: stepped by hand, or to the end.

No latency, no loss: messages wait in a list until they are delivered, in the order you choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mpcsim.errors import Aborted, UsageError
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Done, Output, Prepared, Send, Waiting

R = TypeVar("R")


class Participant(Protocol[R]):
    """Interface that a run needs of a party: a ``Party``, or something that behaves like one."""

    @property
    def me(self) -> PartyId: ...
    @property
    def outcome(self) -> Done[R] | Aborted | None: ...
    def start(self) -> list[Output[R]]: ...
    def receive(self, sender: int, data: bytes) -> list[Output[R]]: ...
    def waiting_state(self) -> Waiting | None: ...


@dataclass(frozen=True)
class InFlight:
    """Message in flight."""

    sender: PartyId
    send: Send
    depth: int
    """Number of sequential message delays up to its arrival."""

    def __str__(self) -> str:
        return (
            f"round {self.send.round}: {self.send.kind} from party {self.sender} to party "
            f"{self.send.to}, {len(self.send.data)} bytes"
        )


Schedule = Callable[[Sequence[InFlight]], int]
"""Choice of the next message to deliver, as an index into those in flight."""


def oldest_first(messages: Sequence[InFlight]) -> int:
    """Deliver in the order of sending."""
    return 0


class LocalRun(Generic[R]):
    """The parties of one session and the messages between them."""

    def __init__(self, parties: Iterable[Participant[R]]) -> None:
        self.parties: dict[PartyId, Participant[R]] = {}
        for party in parties:
            if not hasattr(party, "me"):
                raise UsageError(f"parties: {party!r} is none")
            if party.me in self.parties:
                raise UsageError(f"parties: two of them are party {party.me}")
            self.parties[party.me] = party
        if not self.parties:
            raise UsageError("a run needs at least one party")
        self.in_flight: list[InFlight] = []
        self.prepared: dict[PartyId, R] = {}
        """Results of phase one by party, for two-phase protocols."""
        self.delivered = 0
        self.depth: dict[PartyId, int] = dict.fromkeys(self.parties, 0)
        """Number of sequential message delays behind each party's present state."""

    def start(self) -> None:
        """Start every party."""
        for party in self.parties.values():
            self._take(party.me, party.start())

    def deliver(self, index: int = 0) -> InFlight:
        """Deliver one message in flight (the oldest by default) and return it.

        Raises:
            UsageError: there is no such message.
        """
        if not 0 <= index < len(self.in_flight):
            raise UsageError(f"no message number {index}; {len(self.in_flight)} in flight")
        message = self.in_flight.pop(index)
        receiver = self.parties.get(message.send.to)
        if receiver is not None:
            self.depth[receiver.me] = max(self.depth[receiver.me], message.depth)
            self._take(receiver.me, receiver.receive(message.sender, message.send.data))
        self.delivered += 1
        return message

    def replace_party(self, party: Participant[R], outputs: list[Output[R]]) -> None:
        """Replace a party that crashed by the one resumed from its snapshot.

        Args:
            outputs: output of ``Party.resume``, which is in flight again.
        """
        self.parties[party.me] = party
        self._take(party.me, outputs)

    def finish(
        self, schedule: Schedule = oldest_first
    ) -> dict[PartyId, Done[R] | Aborted | Waiting]:
        """Deliver until nothing is in flight, and return the state of every party."""
        while self.in_flight:
            self.deliver(schedule(self.in_flight))
        return self.outcomes()

    def outcomes(self) -> dict[PartyId, Done[R] | Aborted | Waiting]:
        """Return the state of every party: done, aborted, or waiting for whom."""
        found: dict[PartyId, Done[R] | Aborted | Waiting] = {}
        for i, party in self.parties.items():
            state = party.outcome or party.waiting_state()
            if state is None:
                raise UsageError(f"party {i} has not started")
            found[i] = state
        return found

    def _take(self, sender: PartyId, outputs: list[Output[R]]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self.in_flight.append(InFlight(sender, output, self.depth[sender] + 1))
            elif isinstance(output, Prepared):
                self.prepared[sender] = output.result


def run(
    parties: Iterable[Participant[R]], schedule: Schedule = oldest_first
) -> dict[PartyId, Done[R] | Aborted | Waiting]:
    """Start the parties and deliver until nothing is in flight."""
    local = LocalRun(parties)
    local.start()
    return local.finish(schedule)


def results(outcomes: Mapping[PartyId, Done[R] | Aborted | Waiting]) -> dict[PartyId, R]:
    """Return the results of a run in which every party finished.

    Raises:
        UsageError: a party aborted or waits; the text says which and why.
    """
    found: dict[PartyId, R] = {}
    for i, outcome in outcomes.items():
        if not isinstance(outcome, Done):
            raise UsageError(f"party {i}: {outcome}")
        found[i] = outcome.result
    return found
