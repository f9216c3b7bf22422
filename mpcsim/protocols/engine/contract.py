"""A protocol as data: its rounds, what each one needs, who sends what to whom.

Stepping, timeouts, sequence diagrams and the acceptance of messages all derive from these tables.
The cryptography is in the round functions the tables point to; each has the banners CHECK,
COMPUTE, KEEP, SEND, in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from mpcsim.crypto.encoding import NO_CONTEXT, Message, WireContext
from mpcsim.crypto.rng import Drbg
from mpcsim.errors import InRound
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.envelope import USUAL_ENVELOPE_BYTES
from mpcsim.protocols.key_share import KeyShare

S = TypeVar("S", bound=Message)
R = TypeVar("R")
M = TypeVar("M", bound=Message)


class Delivery(Enum):
    """How a message goes out."""

    BROADCAST = "the same content to every receiver"
    DIRECT = "a message of its own for each receiver"


@dataclass(frozen=True)
class Sends:
    """One kind of message of a round."""

    message: type[Message]
    delivery: Delivery
    senders: str = "all"
    """Role of those who send it."""
    receivers: str = "all"
    """Role of those who receive it (nobody sends to itself)."""
    sealed: bool = True
    """Encrypted and authenticated end to end, always; if False, only between pairs that have
    secrets from the start."""

    @property
    def kind(self) -> str:
        return self.message.__name__


@dataclass(frozen=True)
class Round:
    """One round: runs as soon as every message it needs is there."""

    number: int
    name: str
    run: Callable[[Any, Any, Any], RoundOutput]
    needs: tuple[type[Message], ...] = ()
    sends: tuple[Sends, ...] = ()

    @property
    def where(self) -> InRound:
        """The round as the place of what happens in it."""
        return InRound(self.number, self.name)


@dataclass(frozen=True)
class RoundOutput:
    """What a round function hands back."""

    keep: Any = None
    """State for the next rounds; secret, never on the wire."""
    broadcast: Message | None = None
    direct: Mapping[PartyId, Message] = field(default_factory=dict)
    pair_secrets: Mapping[PartyId, bytes] = field(default_factory=dict, repr=False)
    """New end-to-end secrets, in force from this round's messages on."""
    prepared: Any = None
    """Result of phase one of a two-phase protocol, for whoever gets one."""
    phase_one_over: bool = False
    """From here on other parties may finish, whatever becomes of this one."""
    result: Any = None
    """Set by the last round."""


@dataclass(frozen=True)
class Definition(Generic[S, R]):
    """A whole protocol."""

    name: str
    number: int
    """Protocol number on the wire."""
    rounds: tuple[Round, ...]
    setup: type[S]
    roles: Callable[[S], Mapping[str, tuple[PartyId, ...]]]
    """Role name to its members; ``all`` are the participants."""
    wire: Callable[[S], WireContext]
    pair_secrets: Callable[[S], Mapping[PartyId, bytes]]
    """End-to-end secrets that exist before the first message."""
    check: Callable[[S, PartyId], None]
    """Raises UsageError if the set-up makes no sense, or none for this party."""
    hedge: Callable[[S], tuple[bytes, ...]] = lambda setup: (setup.encode(NO_CONTEXT),)
    """Secrets and context that all randomness of a session depends on, beside its seed and id: a
    long-lived secret of the share, if there is one, and what the session is about. Should a
    generator repeat itself (a cloned machine), sessions about something else draw independent
    secrets all the same, as RFC 9591, 4.1 and RFC 6979, 3.6 have it. Not in it: what peers have
    said, even if their first messages are there when the session begins. RFC 9591 hedges with the
    secret alone, DKLs23 with nothing; and of two sessions of one name an MPC node begins one."""
    early_secrets: Callable[[S], Mapping[PartyId, bytes]] = lambda setup: {}
    """Secrets with which peers may have sealed their first message before they had their shares
    (``prestart``). Others may have such a secret who have no share: nobody is named for what it
    opens."""
    adapt: Callable[[S, KeyShare | None], S] = lambda setup, share: setup
    """Brings the set-up of a stored session up to date with the key share as it is stored now. It
    must not change what the session is about: the first round's nonces would serve twice. Raises
    UsageError if it needs a share and gets none, or another."""

    identified: str = ""
    """Role of those who prove in the session who they are, to peers with whom they share no secret
    from the start. Whoever else seals with a secret that the session has made may be the transport,
    which has played the peer from its first message on."""

    largest: int = USUAL_ENVELOPE_BYTES
    """Bytes of the largest envelope that a party takes."""

    def kinds(self) -> tuple[tuple[Round, Sends], ...]:
        """Every kind of message with its round; the position plus one is its number on the wire."""
        return tuple([(round_, sends) for round_ in self.rounds for sends in round_.sends])


@dataclass
class View(Generic[S]):
    """What a round function may see of its surroundings."""

    setup: S
    me: PartyId
    session_id: bytes
    rng: Drbg
    roles: Mapping[str, tuple[PartyId, ...]]
    wire: WireContext
    step: Callable[[str], AbstractContextManager[None]]
    """``with view.step("step 7"):`` marks a numbered step for listeners."""
    recall: bool | None = None
    """While a stored session is replayed: what a question to state outside the session was
    answered then. None while the session is live."""

    def others(self, role: str = "all") -> tuple[PartyId, ...]:
        """Members of a role without this party."""
        return tuple([j for j in self.roles[role] if j != self.me])


@dataclass
class Inbox:
    """Every message accepted so far, by kind and sender, and this party's own broadcasts."""

    payloads: dict[type[Message], dict[PartyId, bytes]] = field(default_factory=dict, repr=False)
    values: dict[type[Message], dict[PartyId, Message]] = field(default_factory=dict)
    own: dict[type[Message], tuple[PartyId, Message]] = field(default_factory=dict)

    def encoded(self, kind: type[Message], wire: WireContext) -> dict[PartyId, bytes]:
        """``everyone``, in bytes: those of the others as they came."""
        found = dict(self.payloads.get(kind, {}))
        if kind in self.own:
            me, message = self.own[kind]
            found[me] = message.encode(wire)
        return {j: found[j] for j in sorted(found)}

    def received(self, kind: type[M]) -> dict[PartyId, M]:
        """Messages of the other parties, in order of sender."""
        found = self.values.get(kind, {})
        return {j: found[j] for j in sorted(found)}  # type: ignore[misc]

    def everyone(self, kind: type[M]) -> dict[PartyId, M]:
        """A broadcast of every sender, this party's own included, in order of sender."""
        found: dict[PartyId, Any] = dict(self.values.get(kind, {}))
        if kind in self.own:
            me, message = self.own[kind]
            found[me] = message
        return {j: found[j] for j in sorted(found)}
