"""An operation with its caller: the messages of its graph, the question and the answer around them,
and how those are told no who do not get in or whose turn it is not.

>>> [message.name for message in Shape(operation).messages]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mpcsim.capacity.kernel.records import DONE, NONE, REFUSED
from mpcsim.capacity.model.limits import Limit
from mpcsim.capacity.model.operations import ANSWERED, ASKED, Operation
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
"""Of the links of the network; the caller has none."""
REFUSAL_BYTES: Final = 57
"""What the gateway says to who wants to sign with a key that is busy."""


@dataclass
class Message:
    """One of a call."""

    name: str
    source: int
    """A role, as a place in ``ROLES``."""
    target: int
    size: int
    exchange: int = NONE
    answers: bool = False
    """It ends its exchange."""
    costs: bool = True
    """Handling it does."""
    takes: int = 0
    """Turns of the call's key, as bits."""
    gives: int = 0
    enters: int = NONE
    """Number of a limit."""
    leaves: int = NONE
    refusal: int = NONE
    """Number of the message that says no to it."""


@dataclass
class Step:
    """What is done when messages have been handled."""

    needs: tuple[int, ...]
    sends: tuple[int, ...]
    ends: int = NONE
    """With what the call ends."""


def refusal_of(name: str) -> str:
    """What the answer is called that says no to a message."""
    return f"no to {name}"


class Shape:
    """What a call of an operation consists of."""

    def __init__(self, operation: Operation, turns: dict[str, int]) -> None:
        """
        Args:
            turns: bits of what calls have of their keys, by name; further ones are added.
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
        asked = self._add(Message(ASKED, CALLER, NODE, operation.asked_bytes))
        answered = self._add(Message(ANSWERED, NODE, CALLER, operation.answered_bytes))
        self._names |= {ASKED: asked, ANSWERED: answered}
        self.steps = [Step((), (asked,))]
        *going_on, last = graph.steps
        for step in going_on:
            self.steps.append(Step(step.needs or (asked,), step.sends))
        self.steps.append(Step(last.needs or (asked,), (answered,)))
        self.steps.append(Step((answered,), (), DONE))
        for turn in operation.turns:
            bit = turns.setdefault(turn.of, len(turns))
            self.messages[self._number(turn.takes)].takes |= 1 << bit
            self.messages[self._number(turn.gives)].gives |= 1 << bit
            self._may_be_refused(self._number(turn.takes), self._number(turn.refuses))

    def limit(self, number: int, limit: Limit) -> None:
        """Calls come past a limit.

        Raises:
            UsageError: they have no such messages, or one of these has another limit.
        """
        at_gate = [n for n, m in enumerate(self.messages) if m.target == GATE and m.costs]
        if not at_gate and not (limit.enters and limit.leaves):
            raise UsageError(f"limit: {self.operation.name} does not come to the gateway")
        enters = self._number(limit.enters) if limit.enters else at_gate[0]
        leaves = self._number(limit.leaves) if limit.leaves else at_gate[-1]
        if self.messages[enters].enters != NONE or self.messages[leaves].leaves != NONE:
            raise UsageError(f"limit: {self.operation.name} has another one at the same message")
        self.messages[enters].enters = number
        self.messages[leaves].leaves = number
        self._may_be_refused(enters)

    @property
    def exchanges(self) -> int:
        """How many it has."""
        return 1 + max((message.exchange for message in self.messages), default=-1)

    def _number(self, name: str) -> int:
        if name not in self._names:
            what = unknown("message", name, tuple(self._names))
            raise UsageError(f"operation {self.operation.name}: {what}")
        return self._names[name]

    def _add(self, message: Message) -> int:
        self.messages.append(message)
        return len(self.messages) - 1

    def _may_be_refused(self, number: int, asked: int | None = None) -> None:
        """Add the way back, through all that wait for an answer.

        Args:
            asked: the request that is refused, if it is another message than the one by which it
                turns out.
        """
        by = self.messages[number]
        if by.refusal != NONE or by.source == CALLER:
            return
        number = number if asked is None else asked
        of = self.messages[number]
        said = by.refusal = self._no(of)
        while of.source != NODE:
            before = [m for m in self.messages[:number] if m.target == of.source and not m.answers]
            number, of = self.messages.index(before[-1]), before[-1]
            further = self._no(of)
            self.steps.append(Step((said,), (further,)))
            said = further
        told = self._add(Message("no", NODE, CALLER, REFUSAL_BYTES, costs=False))
        self.steps.append(Step((said,), (told,)))
        self.steps.append(Step((told,), (), REFUSED))

    def _no(self, to: Message) -> int:
        return self._add(
            Message(
                refusal_of(to.name),
                to.target,
                to.source,
                REFUSAL_BYTES,
                to.exchange,
                answers=True,
                costs=False,
            )
        )
