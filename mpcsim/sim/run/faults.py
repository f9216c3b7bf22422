"""Faults of network and machines during a session, as data.

Fault model: omission, delay and duplication of messages, partitions, crashes with recovery. Faults
happen to honest parties; Byzantine behaviour is ``adversary``'s. A plan is a list of rules with the
messages that they match; random ones draw from the run's seed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mpcsim.errors import UsageError, unknown
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Definition
from mpcsim.protocols.engine.envelope import AbortNotice
from mpcsim.sim.streams import generator

__all__ = [
    "Crash",
    "Effect",
    "FaultDecision",
    "Fault",
    "FaultPlan",
    "MessageFault",
    "Partition",
    "check_faults",
    "delay",
    "drop",
    "duplicate",
    "kinds_of",
    "noise",
    "partition",
]


class Effect(Enum):
    """Effect of a fault on a message."""

    DROP = "it never arrives"
    DELAY = "it arrives later"
    DUPLICATE = "it arrives twice"


@dataclass(frozen=True)
class MessageFault:
    """Fault of every message that matches all given criteria."""

    effect: Effect
    kind: str | None = None
    """Kind of message, e.g. ``Commit``; None matches any, as for sender and receiver."""
    sender: int | None = None
    receiver: int | None = None
    nth: int | None = None
    """Number of the only matching message affected, counted from 1; None: all of them."""
    probability: float = 1.0
    delay_ms: float = 0.0
    """Delay of the message (DELAY), or of the copy after the original (DUPLICATE)."""

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise UsageError(f"fault probability is {self.probability}: not between 0 and 1")
        if not 0 <= self.delay_ms < math.inf:
            raise UsageError(f"fault delay_ms is {self.delay_ms}: not finite, or below 0")
        if self.nth is not None and self.nth < 1:
            raise UsageError(f"fault nth is {self.nth}: counted from 1")


@dataclass(frozen=True)
class Partition:
    """Partition of two groups of parties for a time: messages sent between them are lost."""

    one: frozenset[PartyId]
    other: frozenset[PartyId]
    """Second group. Messages within a group, and of parties in neither, arrive."""
    from_ms: float = 0.0
    until_ms: float = math.inf
    """End of the partition, by the session's clock, which begins at 0."""

    def __post_init__(self) -> None:
        if not 0 <= self.from_ms < math.inf:
            raise UsageError(f"partition from_ms is {self.from_ms}: not finite, or below 0")
        if not self.until_ms >= self.from_ms:
            raise UsageError(f"partition until_ms is {self.until_ms}: before from_ms")
        if both := self.one & self.other:
            raise UsageError(f"party {min(both)} is on both sides of a partition")

    def separates(self, sender: int, receiver: int, now_ms: float) -> bool:
        """Return whether a message sent at this time is lost."""
        if not self.from_ms <= now_ms < self.until_ms:
            return False
        return (sender in self.one and receiver in self.other) or (
            sender in self.other and receiver in self.one
        )


@dataclass(frozen=True)
class Crash:
    """Crash of a party's process after it has handled a number of messages, with recovery.

    Its earlier messages stay under way; messages that arrive while it is down are lost. It restarts
    from its serialised state and sends everything again.
    """

    party: int
    after_messages: int = 0
    """Number of handled messages; 0: right after the start."""
    down_ms: float = math.inf
    """Time until the restart; forever by default."""

    def __post_init__(self) -> None:
        if self.after_messages < 0:
            raise UsageError(f"crash after_messages is {self.after_messages}: below 0")
        if not self.down_ms >= 0:
            raise UsageError(f"crash down_ms is {self.down_ms}: below 0")


Fault = MessageFault | Partition | Crash


def kinds_of(definitions: Iterable[Definition[Any, Any]]) -> frozenset[str]:
    """Return the kinds of messages that sessions of some protocols have."""
    sent = (sends.kind for definition in definitions for _, sends in definition.kinds())
    return frozenset({AbortNotice.__name__, *sent})


def check_faults(faults: Iterable[Fault], parties: Collection[int], kinds: Collection[str]) -> None:
    """Check that faults name parties and messages that there are: others would test nothing.

    Raises:
        UsageError: one names a party that takes no part, or an unknown kind of message; or it is no
            fault.
    """
    if isinstance(faults, Fault):
        raise UsageError(f"faults: expected several, not one {type(faults).__name__}")
    for fault in faults:
        match fault:
            case MessageFault():
                if fault.kind is not None and fault.kind not in kinds:
                    raise UsageError(f"faults: {unknown('message', fault.kind, sorted(kinds))}")
                if fault.sender is not None and fault.sender == fault.receiver:
                    raise UsageError(f"faults: party {fault.sender} sends nothing to itself")
                named = [i for i in (fault.sender, fault.receiver) if i is not None]
            case Partition():
                named = [*fault.one, *fault.other]
            case Crash():
                named = [fault.party]
            case _:
                raise UsageError(f"faults: {fault!r} is none")
        for i in named:
            if i not in parties:
                raise UsageError(f"faults: party {i} takes no part")


@dataclass(frozen=True)
class FaultDecision:
    """Decision of all message faults about one message."""

    dropped: bool = False
    extra_ms: float = 0.0
    """Delay of its arrival."""
    copies_ms: tuple[float, ...] = ()
    """Delays of the copies after the original."""


class FaultPlan:
    """Message faults of one run, with their counts of matches and their random draws."""

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        self._faults = [fault for fault in faults if isinstance(fault, MessageFault)]
        self._matched = [0] * len(self._faults)
        self._effects = [0] * len(self._faults)
        self._chance = generator(seed, "faults")

    @property
    def idle(self) -> tuple[MessageFault, ...]:
        """Faults that have not taken place so far."""
        return tuple(f for f, times in zip(self._faults, self._effects, strict=True) if not times)

    def decide(self, kind: str, sender: int, receiver: int) -> FaultDecision:
        """Decide about a message; called once for each, in the order of sending."""
        extra = 0.0
        copies: list[float] = []
        for index, fault in enumerate(self._faults):
            if not self._hits(index, fault, kind, sender, receiver):
                continue
            if fault.effect is Effect.DROP:
                return FaultDecision(dropped=True)
            if fault.effect is Effect.DELAY:
                extra += fault.delay_ms
            else:
                copies.append(fault.delay_ms)
        return FaultDecision(False, extra, tuple(copies))

    def _hits(self, index: int, fault: MessageFault, kind: str, sender: int, receiver: int) -> bool:
        if fault.kind not in (None, kind) or fault.sender not in (None, sender):
            return False
        if fault.receiver not in (None, receiver):
            return False
        self._matched[index] += 1
        if fault.nth not in (None, self._matched[index]):
            return False
        hits = fault.probability >= 1 or bool(self._chance.random() < fault.probability)
        self._effects[index] += hits
        return hits


def drop(
    kind: str | None = None,
    *,
    sender: int | None = None,
    receiver: int | None = None,
    nth: int | None = None,
) -> MessageFault:
    """Return a fault by which messages never arrive."""
    return MessageFault(Effect.DROP, kind, sender, receiver, nth)


def delay(
    delay_ms: float,
    kind: str | None = None,
    *,
    sender: int | None = None,
    receiver: int | None = None,
    nth: int | None = None,
) -> MessageFault:
    """Return a fault by which messages arrive later, and so out of order."""
    return MessageFault(Effect.DELAY, kind, sender, receiver, nth, delay_ms=delay_ms)


def duplicate(
    kind: str | None = None,
    *,
    after_ms: float = 0.0,
    sender: int | None = None,
    receiver: int | None = None,
    nth: int | None = None,
) -> MessageFault:
    """Return a fault by which messages arrive twice."""
    return MessageFault(Effect.DUPLICATE, kind, sender, receiver, nth, delay_ms=after_ms)


def partition(
    one: Iterable[int], other: Iterable[int], from_ms: float = 0.0, until_ms: float = math.inf
) -> Partition:
    """Return a partition between two groups of parties."""
    return Partition(
        frozenset(PartyId(i) for i in one), frozenset(PartyId(i) for i in other), from_ms, until_ms
    )


def noise(
    *, drop: float = 0.0, duplicate: float = 0.0, delay: float = 0.0, delay_ms: float = 100.0
) -> tuple[MessageFault, ...]:
    """Return random faults of every message, each effect with its own probability."""
    return (
        MessageFault(Effect.DROP, probability=drop),
        MessageFault(Effect.DUPLICATE, probability=duplicate, delay_ms=delay_ms),
        MessageFault(Effect.DELAY, probability=delay, delay_ms=delay_ms),
    )
