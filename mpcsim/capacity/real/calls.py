"""Calls that are being made, and what is known of their messages beforehand.

Messages have the names that a recording gives them: the n-th request of a call between two ends, or
its answer. One that no recording has had (of an attempt that the service makes once more, or calls
off) is carried like the others, and costs its receiver nothing.
"""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from mpcsim.capacity.kernel.records import (
    ADMITTED,
    CARRIED,
    HANDLED,
    NONE,
    OVER,
    SENT,
    THERE,
    WORK,
)
from mpcsim.capacity.simulation.driving import Drive
from mpcsim.capacity.simulation.shape import Shape, refusal_of
from mpcsim.link_transport import Endpoint
from mpcsim.sim.replay.calls import message_name


class Message(NamedTuple):
    """One that is about to be sent."""

    local: int
    """Its place among those of its operation; what no recording has had comes after them."""
    first_stage: int
    last_stage: int
    end_stage: int
    """Of its handling; from ``last_stage`` on, of what is done about it later."""
    refusal: int = NONE
    """The place of the answer that says no to it."""


class Kind:
    """An operation as the kernel has written it down."""

    def __init__(self, drive: Drive, number: int, shape: Shape) -> None:
        self.number = number
        self.name = shape.operation.name
        self.first = int(drive.calls.operations[number]["first_message"])
        self.first_step = int(drive.calls.operations[number]["first_step"])
        self.count = len(shape.messages)
        self.recorded = len(shape.operation.graph.messages) + 2
        """Messages of a call that nobody refuses: those of the graph, the question, the answer."""
        records = drive.calls.messages[self.first : self.first + self.count]
        places = {message.name: local for local, message in enumerate(shape.messages)}
        self._known = {
            name: Message(
                local,
                int(records[local]["first_stage"]),
                int(records[local]["last_stage"]),
                int(records[local]["end_stage"]),
                places.get(refusal_of(name), NONE),
            )
            for name, local in places.items()
        }

    def message(self, name: str) -> Message | None:
        """What is known of a message; None: nothing."""
        return self._known.get(name)


@dataclass(eq=False)
class Call:
    """One attempt, as its messages see it."""

    drive: Drive = field(repr=False)
    kind: Kind
    slot: int
    """Number of its record."""
    key: np.uint64
    """Of its draws."""
    over: bool = False
    """It has no record any more; what the service still does on its behalf is not noted."""
    unknown: int = 0
    """Messages that no recording has had."""
    _asked: Counter[tuple[Endpoint, Endpoint]] = field(default_factory=Counter)

    @property
    def complete(self) -> bool:
        """Whether all messages that a recording has had have been handled."""
        at = self.drive.calls.at[self.slot, : self.kind.recorded, HANDLED]
        return bool((at >= 0.0).all())

    def request(self, asking: Endpoint, asked: Endpoint) -> tuple[Message, Message]:
        """A further request between two ends, and its answer."""
        nth = self._asked[asking, asked]
        self._asked[asking, asked] += 1
        return self.message(message_name(asking, asked, nth, answer=False)), self.message(
            message_name(asking, asked, nth, answer=True)
        )

    def message(self, name: str) -> Message:
        """One of its messages."""
        return self.kind.message(name) or self._unknown()

    def refusal(self, request: Message) -> Message:
        """The answer that says no to a request."""
        known = request.refusal != NONE
        return Message(request.refusal, NONE, NONE, NONE) if known else self._unknown()

    def _unknown(self) -> Message:
        self.unknown += 1
        return Message(self.kind.count + self.unknown, NONE, NONE, NONE)

    # ------------------------------------------------------------------ what is noted

    def sent(self, message: Message, now: float) -> None:
        """It is given to its link. Since what it waited for has been handled, the service may have
        had it wait, for the turn of a key."""
        if self.over or message.local >= self.kind.count:
            return
        w = self.drive.calls
        at = w.at[self.slot]
        at[message.local, SENT] = at[message.local, CARRIED] = now
        if (k := w.messages[self.kind.first + message.local]["sent_by"]) == NONE:
            return
        first, count = w.steps[k]["first_need"], w.steps[k]["needs"]
        needs = w.lists[first : first + count] - self.kind.first
        if len(needs):
            last = max(needs, key=lambda need: at[need, OVER])
            if at[last, OVER] >= 0.0:
                at[last, OVER] = max(at[last, OVER], now)

    def there(self, message: Message, now: float) -> None:
        """It is there."""
        if not self.over and message.local < self.kind.count:
            self.drive.calls.at[self.slot, message.local, [THERE, ADMITTED]] = now

    def handled(self, message: Message, worked: float, now: float) -> None:
        """It has been handled, which took so long if nothing else had gone on."""
        if not self.over and message.local < self.kind.count:
            self.drive.calls.at[self.slot, message.local, [HANDLED, OVER]] = now
            self.drive.calls.at[self.slot, message.local, WORK] = worked


_CALL: Final[ContextVar[Call | None]] = ContextVar("_CALL", default=None)


def current() -> Call | None:
    """The call on whose behalf something is done; None: on nobody's, which is free."""
    return _CALL.get()


def begin(call: Call) -> None:
    """From now on, this task and those it starts act on behalf of a call."""
    _CALL.set(call)
