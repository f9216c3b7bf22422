"""Adversary: an honest party whose outgoing messages pass through a tampering function.

The wrapped party is unchanged and makes every check that an honest one makes; so do the others.
``Adversary`` decrypts the party's envelopes with its own keys, passes the message to ``tamper``,
and encrypts the result under the same header, so that receivers cannot tell it from the party's own
messages. It can do what the holder of one share can do, and no more.

The usual attacks::

    Adversary(party, on("Commit", lambda m: replace(m, nonce=bytes(32))))          # mutate
    Adversary(party, on("Commit", lambda m: another))                              # replace
    Adversary(party, on("Commit", lambda m: replace(m, nonce=bytes(32)), to={2}))  # equivocate
    Adversary(party, on("Commit", lambda m: m.encode(party.wire) + b"!"))          # raw bytes
    Adversary(party, on("Commit", lambda m: None))                                 # withhold
    Adversary(party, on("Commit", lambda m: [m, recorded_send]))                   # replay
    Adversary(party, on("Share", steer), hold={"Share"})                           # rush
    Adversary(deviating_party(party, 2, round_function))                           # own round

In a simulation::

    Simulation(network, corrupt={2: lambda party: Adversary(party, on("Respond", change))})

Faults (``mpcsim.sim.run.faults``) happen to honest parties; adversaries are parties that cheat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import Aborted, InternalError, UsageError
from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Definition, Done, Output, Party, RoundOutput, Send, Waiting
from mpcsim.protocols.engine.channel import seal, unseal
from mpcsim.protocols.engine.envelope import ABORT_KIND, AbortNotice, Envelope

__all__ = [
    "Adversary",
    "Item",
    "KindAlteration",
    "Tamper",
    "Tampered",
    "deviating_party",
    "pass_unchanged",
    "alter_kind",
    "with_round",
]

Item = Message | bytes | Send
"""Message to encode and encrypt, payload to encrypt as it is, or envelope to send as it is."""
Tampered = Item | None | list[Item]
"""Result of tampering: one item, None for nothing, or several items."""
Tamper = Callable[[str, int, Any], Tampered]
"""Function (kind, receiver, message of the honest party) -> items to send instead."""
Change = Callable[[Any], Tampered]
"""Function (message of the honest party) -> items to send instead."""


def pass_unchanged(kind: str, to: int, message: Message) -> Tampered:
    """Return the message unchanged: the tampering function of a party that does not cheat."""
    return message


@dataclass(frozen=True)
class KindAlteration:
    """Tampering with one kind of message; see ``alter_kind``."""

    kind: str
    change: Change
    to: Collection[int] | None = None

    def __call__(self, kind: str, to: int, message: Message) -> Tampered:
        """Return the items to send instead; messages of other kinds pass unchanged."""
        if kind != self.kind or (self.to is not None and to not in self.to):
            return message
        return self.change(message)


def alter_kind(kind: str, change: Change, to: Collection[int] | None = None) -> KindAlteration:
    """Return a function that alters messages of one kind, to all receivers or only to some.

    Args:
        kind: name of the message's class, e.g. ``Commit``.
        change: function from the honest party's message to the items to send instead.
        to: receivers whose messages are altered; the others get the honest party's messages.
    """
    return KindAlteration(kind, change, to)


class WrappedParty:
    """Participant that looks from outside like the party in it; base class of those that deviate.

    ``start`` and ``receive`` are the subclass's.
    """

    party: Party[Any, Any]

    @property
    def me(self) -> PartyId:
        return self.party.me

    @property
    def outcome(self) -> Done[Any] | Aborted | None:
        return self.party.outcome

    def waiting_state(self) -> Waiting | None:
        """Return the parties that the wrapped party waits for; None if it does not wait."""
        return self.party.waiting_state()


class Adversary(WrappedParty):
    """Participant that wraps a party and alters its outgoing messages."""

    def __init__(
        self,
        party: Party[Any, Any],
        tamper: Tamper = pass_unchanged,
        *,
        hold: Collection[str] = (),
        after: Collection[int] | None = None,
    ) -> None:
        """Wrap a party that has not started.

        Args:
            tamper: alters outgoing messages, notices of an abort (``AbortNotice``) included.
            hold: kinds of messages to hold back until those of the same kind have come from
                ``after`` (all others by default): a rushing adversary. ``tamper`` only runs then,
                with the others' messages in ``party.inbox``.

        Raises:
            UsageError: the protocol has no message of a kind named in ``hold`` or by
                ``alter_kind``, or ``after`` names a party that is not among the others.
        """
        known = [sends.kind for _, sends in party.definition.kinds()] + [AbortNotice.__name__]
        if isinstance(tamper, KindAlteration):
            _check_kind(party, "tamper", tamper.kind, known)
        for kind in hold:
            _check_kind(party, "hold", kind, known)
        others = frozenset(party.participants) - {party.me}
        self._after = others if after is None else frozenset(PartyId(i) for i in after)
        if not self._after <= others:
            strangers = ", ".join(map(str, sorted(self._after - others)))
            raise UsageError(f"adversary after names party {strangers}: not one of the others")
        self.party = party
        """Wrapped party; its inbox and its state are the adversary's knowledge."""
        self.tamper = tamper
        self.sent: list[Send] = []
        """Envelopes as they were sent."""
        self._hold = frozenset(hold)
        self._held: list[Send] = []
        self._secrets: dict[PartyId, list[bytes]] = {}
        self._rng = SeededRng(f"adversary {party.me} in session {party.session_id.hex()}")

    # ------------------------------------------------------------------ as a participant

    def start(self) -> list[Output[Any]]:
        """Start the wrapped party; return the outputs after tampering."""
        return self._filter(self.party.start)

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        """Pass a message to the wrapped party; return the outputs after tampering."""
        return self._filter(lambda: self.party.receive(sender, data))

    def replace_party(
        self, party: Party[Any, Any], outputs: list[Output[Any]]
    ) -> list[Output[Any]]:
        """Replace the wrapped party by its copy resumed after a crash; tampering goes on.

        Args:
            outputs: outputs of ``Party.resume``: everything the party has sent so far.

        Returns:
            The outputs after tampering.
        """
        self.party = party
        self._held.clear()
        return self._filter(lambda: outputs)

    # ------------------------------------------------------------------ for attacks

    def payload(self, send: Send) -> bytes:
        """Return the decrypted payload of an envelope of the wrapped party.

        Raises:
            InvalidEncoding: not an envelope.
            InternalError: it was not encrypted by the wrapped party.
        """
        return self._payload(Envelope.decode(send.data))

    # ------------------------------------------------------------------ helpers

    def _filter(self, act: Callable[[], list[Output[Any]]]) -> list[Output[Any]]:
        self._remember_secrets()
        outputs = act()
        self._remember_secrets()
        altered: list[Output[Any]] = []
        for output in outputs:
            if not isinstance(output, Send):
                altered.append(output)
            elif output.kind in self._hold:
                self._held.append(output)
            else:
                altered += self._alter(output)
        for send in [held for held in self._held if self._has_others_messages(held.kind)]:
            self._held.remove(send)
            altered += self._alter(send)
        self.sent += [output for output in altered if isinstance(output, Send)]
        return altered

    def _has_others_messages(self, kind: str) -> bool:
        inbox = self.party.inbox.values
        return any(of.__name__ == kind and self._after <= set(inbox[of]) for of in inbox)

    def _alter(self, send: Send) -> list[Send]:
        envelope = Envelope.decode(send.data)
        payload = self._payload(envelope)
        wire = self.party.wire
        if envelope.kind == ABORT_KIND:
            kind: type[Message] = AbortNotice
        else:
            kind = self.party.definition.kinds()[envelope.kind - 1][1].message
        tampered = self.tamper(send.kind, send.to, kind.decode(payload, wire))
        items = tampered if isinstance(tampered, list) else [tampered]
        outputs: list[Send] = []
        for item in items:
            if item is None:
                continue
            if isinstance(item, Send):
                outputs.append(item)
                continue
            new = item if isinstance(item, bytes) else item.encode(wire)
            outputs.append(send if new == payload else self._reseal(send, envelope, new))
        return outputs

    def _remember_secrets(self) -> None:
        """Remember pair secrets: one call can send under an old one, then switch to a new one."""
        for peer, secret in self.party.pair_secrets.items():
            known = self._secrets.setdefault(peer, [])
            if secret not in known:
                known.append(secret)

    def _decrypt_own(self, envelope: Envelope) -> tuple[bytes, bytes]:
        """Return the secret that an envelope is encrypted with, and the payload."""
        for secret in self._secrets.get(envelope.receiver, ()):
            payload = unseal(secret, envelope)
            if payload is not None:
                return secret, payload
        raise InternalError("an envelope of the wrapped party does not open with its own keys")

    def _payload(self, envelope: Envelope) -> bytes:
        return self._decrypt_own(envelope)[1] if envelope.sealed else envelope.body

    def _reseal(self, send: Send, envelope: Envelope, payload: bytes) -> Send:
        if not envelope.sealed:
            return replace(send, data=replace(envelope, body=payload).encode())
        secret, _ = self._decrypt_own(envelope)
        return replace(send, data=seal(secret, envelope, payload, self._rng).encode())

    def __repr__(self) -> str:
        return f"Adversary<{self.party!r}>"


# ---------------------------------------------------------------------- altered rounds

RoundFunction = Callable[..., RoundOutput]
"""Function ``run(original, view, keep, inbox)`` that runs a round in place of ``original``."""


def with_round(
    definition: Definition[Any, Any], number: int, run: RoundFunction
) -> Definition[Any, Any]:
    """Return a protocol definition with one round's function replaced.

    Args:
        number: number of the round, from 1.
        run: called with the replaced function, and that function's arguments.

    Raises:
        UsageError: there is no such round.
    """
    if not 1 <= number <= len(definition.rounds):
        raise UsageError(f"{definition.name} has rounds 1 to {len(definition.rounds)}, no {number}")
    original = definition.rounds[number - 1]
    changed = replace(original, run=partial(run, original.run))
    rounds = (*definition.rounds[: number - 1], changed, *definition.rounds[number:])
    return replace(definition, rounds=rounds)


def deviating_party(party: Party[Any, Any], number: int, run: RoundFunction) -> Party[Any, Any]:
    """Return a party that runs one round by another function; see ``with_round``.

    Args:
        party: party that has not started; the new one has its randomness.

    Raises:
        UsageError: there is no such round, or the party has started.
    """
    if party.outcome is not None or party.waiting_state() is not None:
        raise UsageError("only a party that has not started can be made to deviate")
    deviant, _ = Party.resume(
        with_round(party.definition, number, run),
        party.snapshot(),
        share=party.share,
        listener=party.listener,
    )
    deviant.reproducible = party.reproducible
    return deviant


def _check_kind(party: Party[Any, Any], field: str, kind: str, known: Collection[str]) -> None:
    if kind not in known:
        near = get_close_matches(kind, known)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(
            f"adversary {field}: {party.definition.name} has no message {kind!r}{hint} "
            f"(known: {', '.join(known)})"
        )
