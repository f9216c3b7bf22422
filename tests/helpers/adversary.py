"""A cheating party: an honest one whose outgoing messages pass through a function.

The wrapped party is untouched product code. ``Adversary`` opens its envelopes with its own keys,
hands the message to ``tamper``, and seals whatever comes back under the same header, so receivers
cannot tell it from what the party itself would send.

What the usual attacks look like::

    Adversary(party, on("Commit", lambda m: replace(m, nonce=bytes(32))))          # mutate
    Adversary(party, on("Commit", lambda m: replace(m, nonce=bytes(32)), to={2}))  # equivocate
    Adversary(party, on("Commit", lambda m: m.encode(wire) + b"!"))                # raw bytes
    Adversary(party, on("Commit", lambda m: None))                                 # withhold
    Adversary(party, on("Commit", lambda m: [m, recorded_send]))                   # replay
    Adversary(party, on("Share", steer), hold={"Share"})                           # rush
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from mpcsim.algebra.group import Scalar
from mpcsim.encoding import Message
from mpcsim.protocol import Definition, Output, Party, Send, Turn, View
from mpcsim.protocol.channel import seal, unseal
from mpcsim.protocol.envelope import Envelope
from mpcsim.protocol.party import ABORT_KIND, AbortNotice
from mpcsim.rng import Rng, SeededRng
from mpcsim.runner import InFlight, Schedule

Item = Message | bytes | Send
"""A message to encode and seal, a payload to seal as it is, or an envelope to send as it is."""
Tampered = Item | None | list[Item]
"""What goes out instead: one item, nothing, or several."""
Tamper = Callable[[str, int, Message], Tampered]
"""(kind, receiver, message as the honest party made it) -> what goes out instead."""


def honest(kind: str, to: int, message: Message) -> Tampered:
    """The function of a party that does not cheat."""
    return message


def on(
    kind: str, change: Callable[[Message], Tampered], to: Collection[int] | None = None
) -> Tamper:
    """Tamper with one kind of message, toward everyone or only toward some."""

    def tamper(sent: str, receiver: int, message: Message) -> Tampered:
        if sent != kind or (to is not None and receiver not in to):
            return message
        return change(message)

    return tamper


class Adversary:
    """Looks like the party it wraps; ``LocalRun`` takes it in its place."""

    def __init__(
        self,
        party: Party,
        tamper: Tamper = honest,
        *,
        hold: Collection[str] = (),
        after: Collection[int] | None = None,
    ) -> None:
        """Wrap a party that has not started.

        Args:
            tamper: alters outgoing messages.
            hold: rush: keep back messages of these kinds until those of the same kind have come
                from ``after`` (all others by default). ``tamper`` only runs then, so
                ``party.inbox`` holds what the others said.
        """
        self.party = party
        self.tamper = tamper
        self.sent: list[Send] = []
        """Every envelope that went out, as it went out."""
        self._hold = hold
        self._after = frozenset(party._view.others() if after is None else after)
        self._held: list[Send] = []
        self._secrets: dict[int, list[bytes]] = {}
        self._rng = SeededRng(f"adversary {party.me}")

    @property
    def me(self):
        return self.party.me

    @property
    def outcome(self):
        return self.party.outcome

    def waiting(self):
        return self.party.waiting()

    def start(self) -> list[Output]:
        return self._filter(self.party.start)

    def receive(self, sender: int, data: bytes) -> list[Output]:
        return self._filter(lambda: self.party.receive(sender, data))

    def payload(self, send: Send) -> bytes:
        """What is inside an envelope of the wrapped party."""
        return self._open(Envelope.decode(send.data))

    def _filter(self, act: Callable[[], list[Output]]) -> list[Output]:
        self._learn_secrets()
        outputs = act()
        self._learn_secrets()
        altered: list[Output] = []
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

    def _alter(self, send: Send) -> list[Output]:
        envelope = Envelope.decode(send.data)
        payload = self._open(envelope)
        wire = self.party._wire
        if envelope.kind == ABORT_KIND:
            kind: type[Message] = AbortNotice
        else:
            kind = self.party.definition.kinds()[envelope.kind - 1][1].message
        tampered = self.tamper(send.kind, send.to, kind.decode(payload, wire))
        items = tampered if isinstance(tampered, list) else [tampered]
        outputs: list[Output] = []
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
        for peer, secret in self.party._pair_secrets.items():
            known = self._secrets.setdefault(peer, [])
            if secret not in known:
                known.append(secret)

    def _open(self, envelope: Envelope) -> bytes:
        if not envelope.sealed:
            return envelope.body
        for secret in self._secrets[envelope.receiver]:
            payload = unseal(secret, envelope)
            if payload is not None:
                return payload
        raise AssertionError("an envelope of the wrapped party does not open with its own keys")

    def _pack(self, send: Send, envelope: Envelope, payload: bytes) -> Send:
        if not envelope.sealed:
            return replace(send, data=replace(envelope, body=payload).encode())
        secret = next(
            s for s in self._secrets[envelope.receiver] if unseal(s, envelope) is not None
        )
        return replace(send, data=seal(secret, envelope, payload, self._rng).encode())


def with_round(definition: Definition, number: int, run: Callable[..., Turn]) -> Definition:
    """The protocol with one round function replaced; for parties that cheat from the inside.

    ``run(original, view, keep, inbox)`` gets the function it replaces.
    """
    original = definition.rounds[number - 1]
    changed = replace(original, run=partial(run, original.run))
    rounds = (*definition.rounds[: number - 1], changed, *definition.rounds[number:])
    return replace(definition, rounds=rounds)


def drawing(first: Scalar) -> Callable[..., Turn]:
    """For ``with_round``: the round's first random scalar is ``first`` (not zero)."""

    def run(original: Callable[..., Turn], view: View, keep: object, inbox: object) -> Turn:
        return original(replace(view, rng=_Loaded(view.rng, first)), keep, inbox)

    return run


class _Loaded:
    """A generator whose first bytes make ``Group.random_scalar`` return a given scalar."""

    reproducible = True

    def __init__(self, rng: Rng, first: Scalar) -> None:
        self._rng = rng
        self._first = [(first.n - 1).to_bytes(48, "big")]

    def bytes(self, n: int) -> bytes:
        if self._first:
            assert n == 48, "the round does not begin with a random scalar"
            return self._first.pop()
        return self._rng.bytes(n)


def favouring(party: int) -> Schedule:
    """A schedule in which ``party`` hears everything first and is heard last."""

    def choose(messages: Sequence[InFlight]) -> int:
        def delay(index: int) -> tuple[bool, bool]:
            message = messages[index]
            return message.send.to != party, message.sender == party

        return min(range(len(messages)), key=delay)

    return choose
