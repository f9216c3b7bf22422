"""A protocol as data: its rounds, what each one needs, who sends what to whom.

Stepping, timeouts, sequence diagrams and the acceptance of messages all derive from this data. The
cryptography is in the round functions it points to; each has the banners CHECK,
COMPUTE, KEEP, SEND, in that order.

A definition that contradicts itself is refused when it is made, one that does not fit a set-up when
a party is made, and a round that breaks it when it runs: ``ContractError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from mpcsim.crypto.encoding import NO_CONTEXT, Message, WireContext, needs_session
from mpcsim.crypto.rng import Drbg
from mpcsim.errors import AbortReason, ContractError, InRound, Reason, unknown
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.envelope import ABORT_KIND, GIVEN_UP, USUAL_ENVELOPE_BYTES
from mpcsim.protocols.key_share import KeyShare

S = TypeVar("S", bound=Message)
R = TypeVar("R")
M = TypeVar("M", bound=Message)

MAX_PROTOCOL: Final = 255
"""Largest number of a protocol."""
SECRET_BYTES: Final = 32
"""Length of a secret that two parties seal messages with."""
NO_RESULT: Final[Any] = ...
"""Result of a round that says nothing of one."""


class Delivery(Enum):
    """Mode of sending a message."""

    BROADCAST = "the same content to every receiver"
    DIRECT = "a message of its own for each receiver"


@dataclass(frozen=True)
class Sends:
    """Declaration of one kind of message that a round sends."""

    message: type[Message]
    """Class of the message, made by ``wire``; its name is the kind's."""
    delivery: Delivery
    """Whether all receivers get the same content, or each a message of its own."""
    senders: str = "all"
    """Role of its senders."""
    receivers: str = "all"
    """Role of its receivers (nobody sends to itself)."""
    sealed: bool = True
    """Whether it is always encrypted and authenticated end to end; if False, only between pairs
    that have secrets from the start."""

    @property
    def kind(self) -> str:
        """Name of its kind of message."""
        return self.message.__name__


@dataclass(frozen=True)
class Round:
    """Declaration of a round, which runs as soon as every message it needs is there."""

    number: int
    """Number of the round; numbers increase from round to round."""
    name: str
    """Name in reports, figures and aborts."""
    run: Callable[[Any, Any, Any], RoundOutput]
    """Round function ``run(view, keep, inbox)``."""
    needs: tuple[type[Message], ...] = ()
    """Kinds of messages that must have come from all their senders before the round runs."""
    sends: tuple[Sends, ...] = ()
    """Kinds of messages that the round sends."""

    @property
    def where(self) -> InRound:
        """The round as the place of what happens in it."""
        return InRound(self.number, self.name)

    def broken(self, what: str) -> ContractError:
        """Return the error for an output of this round that the definition does not have."""
        return ContractError(f"{place_of(self.run)}, round {self.number} ({self.name}): {what}")


@dataclass(frozen=True)
class RoundOutput:
    """Output of a round function: state to keep, messages, secrets, result."""

    keep: Any = None
    """State for the next rounds; secret, never on the wire."""
    broadcast: Message | None = None
    """Message to every receiver that the round declares as ``BROADCAST``."""
    direct: Mapping[PartyId, Message] = field(default_factory=dict)
    """Messages by receiver, as the round declares them as ``DIRECT``."""
    pair_secrets: Mapping[PartyId, bytes] = field(default_factory=dict, repr=False)
    """New end-to-end secrets by peer, 32 bytes each, in force from this round's messages on."""
    prepared: Any = None
    """Result of phase one of a two-phase protocol, for parties that get one."""
    phase_one_over: bool = False
    """Whether other parties may finish from here on, whatever becomes of this one."""
    result: Any = NO_RESULT
    """Result of the protocol, which the last round alone gives; None, if a party has none."""


@dataclass(frozen=True)
class Definition(Generic[S, R]):
    """A whole protocol as data: its rounds, roles, secrets and checks."""

    name: str
    """Name in reports, traces and errors."""
    number: int
    """Protocol number on the wire: one that no other protocol has, from 0 to 255."""
    rounds: tuple[Round, ...]
    """Rounds in the order in which they run."""
    setup: type[S]
    """Class of the set-up, made by ``wire``: what the parties agree on, and each one's secrets."""
    roles: Callable[[S], Mapping[str, tuple[PartyId, ...]]]
    """Role name to its members; ``all`` are the participants."""
    wire: Callable[[S], WireContext]
    """Context that messages are decoded with: the group of ``SCALAR`` and ``POINT`` fields, or
    ``NO_CONTEXT`` if there are none."""
    pair_secrets: Callable[[S], Mapping[PartyId, bytes]]
    """End-to-end secrets by peer that exist before the first message, 32 bytes each."""
    check: Callable[[S, PartyId], None]
    """Raises UsageError if the set-up makes no sense, or none for this party."""
    hedge: Callable[[S], tuple[bytes, ...]] = lambda setup: (setup.encode(NO_CONTEXT),)
    """Secrets and context that all randomness of a session depends on, beside its seed and id: a
    long-lived secret of the share, if there is one, and the context of the session. Should a
    generator repeat itself (a cloned machine), sessions about something else draw independent
    secrets all the same, as RFC 9591, 4.1 and RFC 6979, 3.6 have it. Not in it: what peers have
    said, even if their first messages are there when the session begins. RFC 9591 hedges with the
    secret alone, DKLs23 with nothing; and of two sessions of one name an MPC node begins one."""
    early_secrets: Callable[[S], Mapping[PartyId, bytes]] = lambda setup: {}
    """Secrets by peer with which its first message may have been sealed before it had its share
    (``prestart``). Others may have such a secret who have no share: nobody is named for a message
    that it opens."""
    adapt: Callable[[S, KeyShare | None], S] = lambda setup, share: setup
    """Bring the set-up of a stored session up to date with the key share as it is stored now. The
    context of the session must not change: the first round's nonces would serve twice. Raises
    UsageError if it needs a share and gets none, or another."""

    identified: str = ""
    """Role of parties that prove in the session who they are, to peers with whom they share no
    secret from the start. Any other that seals with a secret made in the session may be the
    transport, which has played the peer from its first message on."""

    largest: int = USUAL_ENVELOPE_BYTES
    """Size limit of an envelope, in bytes."""
    reasons: type[AbortReason] | None = None
    """Reasons of the protocol's own that its checks abort for, beside ``Reason``."""

    def __post_init__(self) -> None:
        """Check that the definition makes sense by itself.

        Raises:
            ContractError: it does not.
        """
        if wrong := next(_contradictions(self), None):
            raise ContractError(f"definition of {self.name!r}: {wrong}")

    def knows_reason(self, name: str) -> bool:
        """Return whether parties of this protocol can abort for a reason."""
        own: Iterable[str] = () if self.reasons is None else self.reasons.__members__
        return name in Reason.__members__ or name in own or name == GIVEN_UP

    def roles_of(self, setup: S) -> Mapping[str, tuple[PartyId, ...]]:
        """Return the roles of a set-up.

        Raises:
            ContractError: they do not fit the rounds.
        """
        roles = self.roles(setup)
        everyone = roles.get("all")
        if not everyone:
            raise ContractError(f"{place_of(self.roles)}: the roles of {self.name!r} have no 'all'")
        for round_ in self.rounds:
            for sends in round_.sends:
                if sends.senders not in roles or sends.receivers not in roles:
                    role = sends.receivers if sends.senders in roles else sends.senders
                    raise ContractError(
                        f"{place_of(self.roles)}: {sends.kind} of round {round_.number}: "
                        f"{unknown('role', role, roles)}"
                    )
        for role, members in roles.items():
            if members is not everyone and not set(everyone).issuperset(members):
                stranger = min(set(members) - set(everyone))
                raise ContractError(
                    f"{place_of(self.roles)}: role {role!r} has party {stranger}, who is not in "
                    "'all'"
                )
        return roles

    def check_setup(self, setup: S, me: PartyId) -> None:
        """Check that a set-up makes sense for a party.

        Raises:
            UsageError: it does not; ``ContractError``: the check answers in place of raising.
        """
        answer: object = self.check(setup, me)  # type: ignore[func-returns-value]
        if answer is not None:
            raise ContractError(
                f"{place_of(self.check)}: the check of {self.name!r} returned {answer!r}; it "
                "raises UsageError for a set-up that makes no sense, and returns nothing"
            )

    def check_no_context(self) -> None:
        """Check that messages decode without a context of the session.

        Raises:
            ContractError: a field needs one.
        """
        for _, sends in self.kinds():
            for name, codec in sends.message.CODECS:
                if needs_session(codec):
                    raise ContractError(
                        f"{place_of(self.wire)}: field {name!r} of {sends.kind} is read with the "
                        "group of the session, and wire gives no context: WireContext(SECP256K1)"
                    )

    def kinds(self) -> tuple[tuple[Round, Sends], ...]:
        """Return every kind of message with its round; position plus one is its number on the
        wire."""
        return tuple([(round_, sends) for round_ in self.rounds for sends in round_.sends])


def wrong_secret(secrets: Mapping[PartyId, bytes]) -> str | None:
    """Return which secret is of the wrong length, or None."""
    for j in secrets:
        if (found := len(secrets[j])) != SECRET_BYTES:
            return f"the secret with party {j} has {found} bytes, expected {SECRET_BYTES}"
    return None


def place_of(function: Callable[..., Any]) -> str:
    """Return where a function of a protocol's author stands: its name, file and line."""
    named = getattr(function, "__qualname__", repr(function))
    code = getattr(function, "__code__", None)
    if code is None:
        return named
    return f"{named} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def _sequences(definition: Definition[Any, Any]) -> Iterator[tuple[str, object]]:
    """Yield the fields of a definition that have to be tuples, each with its name."""
    yield "rounds", definition.rounds
    for round_ in definition.rounds:
        yield f"needs of round {round_.number} ({round_.name})", round_.needs
        yield f"sends of round {round_.number} ({round_.name})", round_.sends


def _has_encoding(of: object) -> bool:
    """Return whether something is a class of messages made by ``wire``."""
    made = getattr(of, "__dataclass_fields__", None)  # Message itself is no dataclass
    return (
        isinstance(of, type)
        and issubclass(of, Message)
        and made is not None
        and len(made) == len(of.CODECS)
    )


def _contradictions(definition: Definition[Any, Any]) -> Iterator[str]:
    """Yield what is wrong with a definition by itself."""
    for name, given in _sequences(definition):
        if not isinstance(given, tuple):
            yield f"{name} is no tuple: a single one has a comma behind it"
    if not 0 <= definition.number <= MAX_PROTOCOL:
        yield f"number {definition.number}: from 0 to {MAX_PROTOCOL}, a byte on the wire"
    if not definition.rounds:
        yield "it has no rounds"
    numbers = [round_.number for round_ in definition.rounds]
    if any(one >= other for one, other in pairwise(numbers)):
        yield f"its rounds are numbered {', '.join(map(str, numbers))}: they increase"
    kinds = definition.kinds()
    if len(kinds) >= ABORT_KIND:
        yield f"it has {len(kinds)} kinds of messages: {ABORT_KIND - 1} at most"
    sent: dict[str, Round] = {}
    for round_, sends in kinds:
        first = sent.setdefault(sends.kind, round_)
        if first is not round_ or [s.kind for s in round_.sends].count(sends.kind) > 1:
            yield (
                f"{sends.kind} is sent in round {first.number} ({first.name}) and again in round "
                f"{round_.number} ({round_.name}): one message a kind and sender is accepted; "
                "derive a class for each"
            )
    for round_ in definition.rounds:
        for kind in round_.needs:
            sender = sent.get(kind.__name__)
            if sender is None or sender.number > round_.number:
                when = "no round sends" if sender is None else f"round {sender.number} sends"
                yield f"round {round_.number} ({round_.name}) needs {kind.__name__}, which {when}"
    for name, of in (("setup", definition.setup), *((s.kind, s.message) for _, s in kinds)):
        if not _has_encoding(of):
            yield f"{name} has no encoding: a class derived from Message, with @wire before it"
    for name, codec in definition.setup.CODECS:
        if needs_session(codec):
            yield (
                f"field {name!r} of the set-up {definition.setup.__name__} is read with the group "
                "of a session, and a stored set-up has none: keep its bytes, or a value that "
                "brings its curve"
            )
    for name in () if definition.reasons is None else definition.reasons.__members__:
        if name in Reason.__members__ or name == GIVEN_UP:
            yield f"its reason {name} is one of the engine's: another name"


@dataclass
class View(Generic[S]):
    """Surroundings of a round function: all that it may see of them."""

    setup: S
    """Set-up of the party."""
    me: PartyId
    """Identifier of the party."""
    session_id: bytes
    """Name of the session: 32 bytes, the same for all its parties."""
    rng: Drbg
    """Randomness of this round and party: the only source that a round may draw from."""
    roles: Mapping[str, tuple[PartyId, ...]]
    """Members of each role."""
    wire: WireContext
    """Context that messages are encoded and decoded with."""
    step: Callable[[str], AbstractContextManager[None]]
    """Context manager that marks a numbered step for listeners: ``with view.step("step 7"):``."""
    recall: bool | None = None
    """Answer that state outside the session gave then, while a stored session is replayed; None
    while the session is live."""

    def others(self, role: str = "all") -> tuple[PartyId, ...]:
        """Return the members of a role without this party."""
        return tuple([j for j in self.roles[role] if j != self.me])


@dataclass
class Inbox:
    """Messages accepted so far, by kind and sender, and this party's own broadcasts.

    One message a kind and sender is accepted, so each mapping has at most one entry for each.
    """

    payloads: dict[type[Message], dict[PartyId, bytes]] = field(default_factory=dict, repr=False)
    """Messages of the others as they came."""
    values: dict[type[Message], dict[PartyId, Message]] = field(default_factory=dict)
    """Messages of the others, decoded."""
    own: dict[type[Message], tuple[PartyId, Message]] = field(default_factory=dict)
    """Broadcasts of this party, each with the party itself."""

    def encoded(self, kind: type[Message], wire: WireContext) -> dict[PartyId, bytes]:
        """Return the broadcasts of ``everyone`` as bytes, those of the others as they came."""
        found = dict(self.payloads.get(kind, {}))
        if kind in self.own:
            me, message = self.own[kind]
            found[me] = message.encode(wire)
        return {j: found[j] for j in sorted(found)}

    def received(self, kind: type[M]) -> dict[PartyId, M]:
        """Return the messages of the other parties, in order of sender."""
        found = self.values.get(kind, {})
        return {j: found[j] for j in sorted(found)}  # type: ignore[misc]

    def everyone(self, kind: type[M]) -> dict[PartyId, M]:
        """Return the broadcasts of all senders, this party's own included, in order of sender."""
        found: dict[PartyId, Any] = dict(self.values.get(kind, {}))
        if kind in self.own:
            me, message = self.own[kind]
            found[me] = message
        return {j: found[j] for j in sorted(found)}
