"""Calls in progress, and what recordings say about their messages.

Messages are named as in a recording: the n-th request of a call between two ends, or its answer. A
message that is in no recording (of an internal retry, or of a cancellation) is carried like the
others, and costs its receiver nothing.
"""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from mpcsim.capacity.kernel.records import (
    ADMITTED,
    ARRIVED,
    COMPLETED,
    CONNECTED,
    HANDLED,
    NONE,
    SENT,
    SERVICE_MS,
)
from mpcsim.capacity.simulation.call_graph import CallGraph, refusal_name
from mpcsim.capacity.simulation.driver import KernelDriver
from mpcsim.link_transport import Endpoint
from mpcsim.sim.replay.calls import message_name


class Message(NamedTuple):
    """Message that is about to be sent."""

    number: int
    """Index among the messages of its operation; messages that are in no recording come after
    these."""
    first_stage: int
    last_stage: int
    end_stage: int
    """End of the stages of its handling; from ``last_stage`` on they are deferred."""
    refusal: int = NONE
    """Index of the answer that refuses it."""


class RecordedOperation:
    """Operation as compiled for the kernel."""

    def __init__(self, driver: KernelDriver, number: int, shape: CallGraph) -> None:
        self.number = number
        self.name = shape.operation.name
        self.first = int(driver.calls.operations[number]["first_message"])
        self.first_step = int(driver.calls.operations[number]["first_step"])
        self.count = len(shape.messages)
        self.recorded = len(shape.operation.graph.messages) + 2
        """Messages of a call without refusals: those of the graph, request and response."""
        records = driver.calls.messages[self.first : self.first + self.count]
        places = {message.name: local for local, message in enumerate(shape.messages)}
        self._known = {
            name: Message(
                local,
                int(records[local]["first_stage"]),
                int(records[local]["last_stage"]),
                int(records[local]["end_stage"]),
                places.get(refusal_name(name), NONE),
            )
            for name, local in places.items()
        }

    def message(self, name: str) -> Message | None:
        """Return what is known of a message; None: nothing."""
        return self._known.get(name)


@dataclass(eq=False)
class Call:
    """Attempt in progress, as seen by its messages."""

    driver: KernelDriver = field(repr=False)
    kind: RecordedOperation
    slot: int
    """Index of its record."""
    key: np.uint64
    """Key of its draws."""
    over: bool = False
    """Whether it has no record any more; what the service still does on its behalf is not
    recorded."""
    unknown: int = 0
    """Messages that are in no recording."""
    _requests: Counter[tuple[Endpoint, Endpoint]] = field(default_factory=Counter)

    @property
    def complete(self) -> bool:
        """Whether all messages of the recording have been handled."""
        at = self.driver.calls.moments[self.slot, : self.kind.recorded, HANDLED]
        return bool((at >= 0.0).all())

    def request(self, asking: Endpoint, asked: Endpoint) -> tuple[Message, Message]:
        """Return a further request between two ends, and its answer."""
        nth = self._requests[asking, asked]
        self._requests[asking, asked] += 1
        return self.message(message_name(asking, asked, nth, answer=False)), self.message(
            message_name(asking, asked, nth, answer=True)
        )

    def message(self, name: str) -> Message:
        """Return one of its messages."""
        return self.kind.message(name) or self._unknown()

    def refusal(self, request: Message) -> Message:
        """Return the answer that refuses a request."""
        known = request.refusal != NONE
        return Message(request.refusal, NONE, NONE, NONE) if known else self._unknown()

    def _unknown(self) -> Message:
        self.unknown += 1
        return Message(self.kind.count + self.unknown, NONE, NONE, NONE)

    # ------------------------------------------------------------------ moments

    def note_sent(self, message: Message, now: float) -> None:
        """Record that a message is given to its link. If the service has held it back since what it
        waited for was handled, that was a wait for a key lock."""
        if self.over or message.number >= self.kind.count:
            return
        w = self.driver.calls
        at = w.moments[self.slot]
        at[message.number, SENT] = at[message.number, CONNECTED] = now
        if (k := w.messages[self.kind.first + message.number]["sent_by"]) == NONE:
            return
        first, count = w.steps[k]["first_need"], w.steps[k]["needs"]
        needs = w.lists[first : first + count] - self.kind.first
        if len(needs):
            last = max(needs, key=lambda need: at[need, COMPLETED])
            if at[last, COMPLETED] >= 0.0:
                at[last, COMPLETED] = max(at[last, COMPLETED], now)

    def note_arrived(self, message: Message, now: float) -> None:
        """Record that a message has arrived."""
        if not self.over and message.number < self.kind.count:
            self.driver.calls.moments[self.slot, message.number, [ARRIVED, ADMITTED]] = now

    def note_handled(self, message: Message, worked: float, now: float) -> None:
        """Record that a message has been handled, and its service time."""
        if not self.over and message.number < self.kind.count:
            self.driver.calls.moments[self.slot, message.number, [HANDLED, COMPLETED]] = now
            self.driver.calls.moments[self.slot, message.number, SERVICE_MS] = worked


_CALL: Final[ContextVar[Call | None]] = ContextVar("_CALL", default=None)


def current_call() -> Call | None:
    """Return the call on whose behalf this task acts; None: none, which takes no time."""
    return _CALL.get()


def begin(call: Call) -> None:
    """Let this task, and those it starts, act on behalf of a call."""
    _CALL.set(call)
