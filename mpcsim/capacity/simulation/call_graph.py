"""Graph of messages of a call: those of the recorded operation, the caller's request and response
around them, and the refusals of limits and key locks.

>>> [message.name for message in CallGraph(operation, {}).messages]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mpcsim.capacity.kernel.records import DONE, NONE, REFUSED
from mpcsim.capacity.model.limits import Limit
from mpcsim.capacity.model.operations import REQUEST, RESPONSE, Operation
from mpcsim.errors import UsageError, unknown
from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR, PartyId
from mpcsim.sim.replay.steps import GATEWAY

ROLES: Final = ("caller", "node", "gateway", "operator", "institution")
CALLER, NODE, GATE, OPERATOR_ROLE, INSTITUTION_ROLE = range(5)
_ROLE_OF: Final = {
    CLIENT: NODE,
    GATEWAY: GATE,
    OPERATOR: OPERATOR_ROLE,
    INSTITUTION: INSTITUTION_ROLE,
}
END_OF: Final[dict[int, PartyId | None]] = {
    NODE: CLIENT,
    GATE: None,
    OPERATOR_ROLE: OPERATOR,
    INSTITUTION_ROLE: INSTITUTION,
}
"""End of a link for each role; the caller is at the node's site and needs none."""
REFUSAL_BYTES: Final = 57
"""Size of the gateway's answer when a key is locked."""


@dataclass
class Message:
    """Message of a call."""

    name: str
    source: int
    """Role, as an index of ``ROLES``."""
    target: int
    size: int
    exchange: int = NONE
    is_answer: bool = False
    """Whether it ends its exchange."""
    has_cost: bool = True
    """Whether its handling takes time."""
    acquires: int = 0
    """Locks of the call's key, as bits."""
    releases: int = 0
    enters: int = NONE
    """Number of a limit."""
    leaves: int = NONE
    refusal: int = NONE
    """Index of the message that answers instead if it is refused."""


@dataclass
class Step:
    """Step of a call: what is sent once some messages have been handled."""

    needs: tuple[int, ...]
    sends: tuple[int, ...]
    ends: int = NONE
    """Outcome of the call, if it ends here."""


def refusal_name(name: str) -> str:
    """Return the name of the answer that refuses a message."""
    return f"no to {name}"


class CallGraph:
    """Messages and steps of a call of an operation."""

    def __init__(self, operation: Operation, lock_bits: dict[str, int]) -> None:
        """
        Args:
            lock_bits: bit of each key lock by name; further locks are added.
        """
        graph = operation.graph
        last_of = {packet.exchange: n for n, packet in enumerate(graph.messages)}
        self.operation = operation
        self.messages = [
            Message(
                packet.kind,
                _ROLE_OF[packet.sender],
                _ROLE_OF[packet.receiver],
                packet.size,
                packet.exchange,
                last_of[packet.exchange] == n,
            )
            for n, packet in enumerate(graph.messages)
        ]
        self._names = {message.name: n for n, message in enumerate(self.messages)}
        asked = self._add(Message(REQUEST, CALLER, NODE, operation.request_bytes))
        answered = self._add(Message(RESPONSE, NODE, CALLER, operation.response_bytes))
        self._names |= {REQUEST: asked, RESPONSE: answered}
        self.steps = [Step((), (asked,))]
        *going_on, last = graph.steps
        for step in going_on:
            self.steps.append(Step(step.needs or (asked,), step.sends))
        self.steps.append(Step(last.needs or (asked,), (answered,)))
        self.steps.append(Step((answered,), (), DONE))
        for lock in operation.locks:
            bit = lock_bits.setdefault(lock.name, len(lock_bits))
            self.messages[self._message_number(lock.acquired_by)].acquires |= 1 << bit
            self.messages[self._message_number(lock.released_by)].releases |= 1 << bit
            self._add_refusal(
                self._message_number(lock.acquired_by), self._message_number(lock.refused_request)
            )

    def add_limit(self, number: int, limit: Limit) -> None:
        """Add a limit that calls have to pass.

        Raises:
            UsageError: the operation has no such messages, or one of them has another limit.
        """
        at_gate = [n for n, m in enumerate(self.messages) if m.target == GATE and m.has_cost]
        if not at_gate and not (limit.enters and limit.leaves):
            raise UsageError(f"limit: {self.operation.name} does not come to the gateway")
        enters = self._message_number(limit.enters) if limit.enters else at_gate[0]
        leaves = self._message_number(limit.leaves) if limit.leaves else at_gate[-1]
        if self.messages[enters].enters != NONE or self.messages[leaves].leaves != NONE:
            raise UsageError(f"limit: {self.operation.name} has another one at the same message")
        self.messages[enters].enters = number
        self.messages[leaves].leaves = number
        self._add_refusal(enters)

    @property
    def exchanges(self) -> int:
        """Number of exchanges."""
        return 1 + max((message.exchange for message in self.messages), default=-1)

    def _message_number(self, name: str) -> int:
        if name not in self._names:
            what = unknown("message", name, tuple(self._names))
            raise UsageError(f"operation {self.operation.name}: {what}")
        return self._names[name]

    def _add(self, message: Message) -> int:
        self.messages.append(message)
        return len(self.messages) - 1

    def _add_refusal(self, number: int, asked: int | None = None) -> None:
        """Add the messages of a refusal, from the refusing role back to the caller.

        Args:
            asked: request that is refused, if that is not the message at which it shows.
        """
        by = self.messages[number]
        if by.refusal != NONE or by.source == CALLER:
            return
        number = number if asked is None else asked
        of = self.messages[number]
        said = by.refusal = self._add_refusal_message(of)
        while of.source != NODE:
            before = [
                m for m in self.messages[:number] if m.target == of.source and not m.is_answer
            ]
            number, of = self.messages.index(before[-1]), before[-1]
            further = self._add_refusal_message(of)
            self.steps.append(Step((said,), (further,)))
            said = further
        final = self._add(Message("no", NODE, CALLER, REFUSAL_BYTES, has_cost=False))
        self.steps.append(Step((said,), (final,)))
        self.steps.append(Step((final,), (), REFUSED))

    def _add_refusal_message(self, to: Message) -> int:
        return self._add(
            Message(
                refusal_name(to.name),
                to.target,
                to.source,
                REFUSAL_BYTES,
                to.exchange,
                is_answer=True,
                has_cost=False,
            )
        )
