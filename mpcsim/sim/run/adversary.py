"""A cheating party: an honest one whose outgoing messages pass through a function.

The wrapped party is untouched: it makes every check that an honest one makes, and so does everyone
else. ``Adversary`` opens the party's envelopes with its own keys, hands the message to ``tamper``,
and seals whatever comes back under the same header, so receivers cannot tell it from what the
party itself would send. It can do what the holder of one share can do, and no more.

What the usual attacks look like::

    Adversary(party, on("Commit", lambda m: replace(m, nonce=bytes(32))))          # mutate
    Adversary(party, on("Commit", lambda m: another))                              # replace
    Adversary(party, on("Commit", lambda m: replace(m, nonce=bytes(32)), to={2}))  # equivocate
    Adversary(party, on("Commit", lambda m: m.encode(party.wire) + b"!"))          # raw bytes
    Adversary(party, on("Commit", lambda m: None))                                 # withhold
    Adversary(party, on("Commit", lambda m: [m, recorded_send]))                   # replay
    Adversary(party, on("Share", steer), hold={"Share"})                           # rush
    Adversary(deviating(party, 2, round_function))                                 # from inside

In a simulation::

    Simulation(network, corrupt={2: lambda party: Adversary(party, on("Respond", change))})

Faults (``mpcsim.sim.run.faults``) happen to honest parties; this is the other seam.
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
    "OneKind",
    "Tamper",
    "Tampered",
    "deviating",
    "honest",
    "on",
    "with_round",
]

Item = Message | bytes | Send
"""A message to encode and seal, a payload to seal as it is, or an envelope to send as it is."""
Tampered = Item | None | list[Item]
"""What goes out instead: one item, nothing, or several."""
Tamper = Callable[[str, int, Any], Tampered]
"""(kind, receiver, message as the honest party made it) -> what goes out instead."""
Change = Callable[[Any], Tampered]
"""(message as the honest party made it) -> what goes out instead."""


def honest(kind: str, to: int, message: Message) -> Tampered:
    """The function of a party that does not cheat."""
    return message


@dataclass(frozen=True)
class OneKind:
    """Tampers with one kind of message; see ``on``."""

    kind: str
    change: Change
    to: Collection[int] | None = None

    def __call__(self, kind: str, to: int, message: Message) -> Tampered:
        """What goes out instead of one message; messages of other kinds pass unchanged."""
        if kind != self.kind or (self.to is not None and to not in self.to):
            return message
        return self.change(message)


def on(kind: str, change: Change, to: Collection[int] | None = None) -> OneKind:
    """Tamper with one kind of message, toward everyone or only toward some.

    Args:
        kind: name of the message's class, e.g. ``Commit``.
        change: gets the message as the honest party made it; returns what goes out instead.
        to: receivers whose messages are altered; the others get what an honest party sends.
    """
    return OneKind(kind, change, to)


class Adversary:
    """Looks like the party it wraps: a run takes it in its place."""

    def __init__(
        self,
        party: Party[Any, Any],
        tamper: Tamper = honest,
        *,
        hold: Collection[str] = (),
        after: Collection[int] | None = None,
    ) -> None:
        """Wrap a party that has not started.

        Args:
            tamper: alters outgoing messages, notices of an abort (``AbortNotice``) included.
            hold: rush: keep back messages of these kinds until those of the same kind have come
                from ``after`` (all others by default). ``tamper`` only runs then, so
                ``party.inbox`` holds what the others said.

        Raises:
            UsageError: the protocol has no messages of a kind that is named (in ``hold``, or by
                ``on``), or ``after`` names a party that takes no part.
        """
        known = [sends.kind for _, sends in party.definition.kinds()] + [AbortNotice.__name__]
        if isinstance(tamper, OneKind):
            _known(party, "tamper", tamper.kind, known)
        for kind in hold:
            _known(party, "hold", kind, known)
        others = frozenset(party.participants) - {party.me}
        self._after = others if after is None else frozenset(PartyId(i) for i in after)
        if not self._after <= others:
            strangers = ", ".join(map(str, sorted(self._after - others)))
            raise UsageError(f"adversary after names party {strangers}: not one of the others")
        self.party = party
        """The wrapped party, its inbox and its kept state: what the cheater knows."""
        self.tamper = tamper
        self.sent: list[Send] = []
        """Every envelope that went out, as it went out."""
        self._hold = frozenset(hold)
        self._held: list[Send] = []
        self._secrets: dict[PartyId, list[bytes]] = {}
        self._rng = SeededRng(f"adversary {party.me} in session {party.session_id.hex()}")

    # ------------------------------------------------------------------ what a run needs

    @property
    def me(self) -> PartyId:
        return self.party.me

    @property
    def outcome(self) -> Done[Any] | Aborted | None:
        return self.party.outcome

    def waiting(self) -> Waiting | None:
        """For whom the wrapped party waits."""
        return self.party.waiting()

    def start(self) -> list[Output[Any]]:
        """Start the wrapped party; returns what goes out instead of its messages."""
        return self._filter(self.party.start)

    def receive(self, sender: int, data: bytes) -> list[Output[Any]]:
        """Pass a message to the wrapped party; returns what goes out instead of its answers."""
        return self._filter(lambda: self.party.receive(sender, data))

    def rejoin(self, party: Party[Any, Any], outputs: list[Output[Any]]) -> list[Output[Any]]:
        """Go on with the party as it was resumed after a crash, and cheat as before.

        Args:
            outputs: what ``Party.resume`` returned: everything the party has put out so far.

        Returns:
            What goes out instead.
        """
        self.party = party
        self._held.clear()
        return self._filter(lambda: outputs)

    # ------------------------------------------------------------------ for whoever attacks

    def payload(self, send: Send) -> bytes:
        """What is inside an envelope of the wrapped party.

        Raises:
            InvalidEncoding: not an envelope.
            InternalError: it was sealed by somebody else.
        """
        return self._open(Envelope.decode(send.data))

    # ------------------------------------------------------------------ helpers

    def _filter(self, act: Callable[[], list[Output[Any]]]) -> list[Output[Any]]:
        self._learn_secrets()
        outputs = act()
        self._learn_secrets()
        altered: list[Output[Any]] = []
        for output in outputs:
            if not isinstance(output, Send):
                altered.append(output)
            elif output.kind in self._hold:
                self._held.append(output)
            else:
                altered += self._alter(output)
        for send in [held for held in self._held if self._seen_the_others(held.kind)]:
            self._held.remove(send)
            altered += self._alter(send)
        self.sent += [output for output in altered if isinstance(output, Send)]
        return altered

    def _seen_the_others(self, kind: str) -> bool:
        inbox = self.party.inbox.values
        return any(of.__name__ == kind and self._after <= set(inbox[of]) for of in inbox)

    def _alter(self, send: Send) -> list[Send]:
        envelope = Envelope.decode(send.data)
        payload = self._open(envelope)
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
            outputs.append(send if new == payload else self._pack(send, envelope, new))
        return outputs

    def _learn_secrets(self) -> None:
        """One call can send under an older secret and then switch to a new one: know both."""
        for peer, secret in self.party.pair_secrets.items():
            known = self._secrets.setdefault(peer, [])
            if secret not in known:
                known.append(secret)

    def _secret(self, envelope: Envelope) -> tuple[bytes, bytes]:
        """The secret that an envelope of the wrapped party is sealed with, and its payload."""
        for secret in self._secrets.get(envelope.receiver, ()):
            payload = unseal(secret, envelope)
            if payload is not None:
                return secret, payload
        raise InternalError("an envelope of the wrapped party does not open with its own keys")

    def _open(self, envelope: Envelope) -> bytes:
        return self._secret(envelope)[1] if envelope.sealed else envelope.body

    def _pack(self, send: Send, envelope: Envelope, payload: bytes) -> Send:
        if not envelope.sealed:
            return replace(send, data=replace(envelope, body=payload).encode())
        secret, _ = self._secret(envelope)
        return replace(send, data=seal(secret, envelope, payload, self._rng).encode())

    def __repr__(self) -> str:
        return f"Adversary<{self.party!r}>"


# ---------------------------------------------------------------------- cheating from the inside

RoundFunction = Callable[..., RoundOutput]
"""``run(original, view, keep, inbox)``: plays a round in place of the ``original`` function."""


def with_round(
    definition: Definition[Any, Any], number: int, run: RoundFunction
) -> Definition[Any, Any]:
    """The protocol as a cheater plays it, with one round function replaced.

    Args:
        number: of the round, from 1.
        run: gets the function it replaces, and that function's arguments.

    Raises:
        UsageError: there is no such round.
    """
    if not 1 <= number <= len(definition.rounds):
        raise UsageError(f"{definition.name} has rounds 1 to {len(definition.rounds)}, no {number}")
    original = definition.rounds[number - 1]
    changed = replace(original, run=partial(run, original.run))
    rounds = (*definition.rounds[: number - 1], changed, *definition.rounds[number:])
    return replace(definition, rounds=rounds)


def deviating(party: Party[Any, Any], number: int, run: RoundFunction) -> Party[Any, Any]:
    """The party of somebody who plays one round in another way; see ``with_round``.

    Args:
        party: has not started; the new one takes its place, with its randomness.

    Raises:
        UsageError: there is no such round, or the party has started.
    """
    if party.outcome is not None or party.waiting() is not None:
        raise UsageError("only a party that has not started can be made to deviate")
    deviant, _ = Party.resume(
        with_round(party.definition, number, run),
        party.snapshot(),
        share=party.share,
        listener=party.listener,
    )
    deviant.reproducible = party.reproducible
    return deviant


def _known(party: Party[Any, Any], field: str, kind: str, known: Collection[str]) -> None:
    if kind not in known:
        near = get_close_matches(kind, known)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(
            f"adversary {field}: {party.definition.name} has no message {kind!r}{hint} "
            f"(known: {', '.join(known)})"
        )
