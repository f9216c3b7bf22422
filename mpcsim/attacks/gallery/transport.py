"""Attacks by the carrier of the messages, and on session ids.

The carrier (a gateway, say) is not trusted: it reads, drops, repeats, reorders, alters and invents
messages. It must get no secret, and no ban for an honest party.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mpcsim.attacks.gallery.dkg import transcript_of_name_only
from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.harness import (
    ALL,
    CHEATER,
    DIGEST,
    HONEST,
    NAMES,
    PAIR,
    THIRD,
    find_false_blame,
    finding_of,
    honest_party,
    record_rounds,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import Build, Shape
from mpcsim.crypto.encoding import WireContext
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.mta.ot import OtMta
from mpcsim.crypto.rng import Rng, SeededRng
from mpcsim.crypto.zero_share import zero_share
from mpcsim.errors import CheckFailed, InvalidEncoding, Reason, UsageError
from mpcsim.protocols import dkg, ecdsa, frost, reshare
from mpcsim.protocols.dkg import DKG
from mpcsim.protocols.dkg.messages import Deal
from mpcsim.protocols.ecdsa import ECDSA
from mpcsim.protocols.ecdsa.messages import Respond
from mpcsim.protocols.engine import Done, Party, RoundOutput, Send, channel
from mpcsim.protocols.engine.channel import seal
from mpcsim.protocols.engine.envelope import Envelope
from mpcsim.protocols.engine.transcript import transcript_hash
from mpcsim.protocols.frost import FROST
from mpcsim.protocols.local_run import InFlight, LocalRun, run
from mpcsim.protocols.reshare import RESHARE
from mpcsim.protocols.sample_keys import keys, session_id

MESSAGE = b"pay 5 to Alice"


def signers(build: Build, label: str = "") -> dict[int, Any]:
    """Return two honest signers of the build."""
    held = keys("ed25519")
    return {
        i: honest_party(build, FROST, frost.setup(held[i], PAIR, MESSAGE), i, label) for i in PAIR
    }


def run_with_carrier(
    parties: Any, meddle: Callable[[LocalRun[Any], InFlight], None]
) -> LocalRun[Any]:
    """Run to the end with a carrier that may meddle with every message before it is delivered."""
    local: LocalRun[Any] = LocalRun(parties)
    local.start()
    while local.in_flight:
        meddle(local, local.in_flight[0])
        local.deliver()
    return local


# ---------------------------------------------------------------------- O11: one session id twice


class ChosenBeta(OtMta):
    """OT receiver whose choice bits are all the same, which nobody can see."""

    def __init__(self, bit: int) -> None:
        super().__init__()
        self._bit = bit

    def receiver_start(self, setup: Any, sid: bytes, rng: Rng) -> tuple[Any, Scalar, Any]:
        length = self.parameters.xi // 8
        chosen = (b"\xff" if self._bit else b"\x00") * length

        class Loaded:
            reproducible = True

            def __init__(self) -> None:
                self._first = [chosen]

            def bytes(self, n: int) -> bytes:
                return self._first.pop() if self._first else rng.bytes(n)

        return super().receiver_start(setup, sid, Loaded())


@entry("O11", replacing={transcript_hash: transcript_of_name_only})
def reused_session_id(build: Build) -> Finding:
    """Give two sessions the same id; choose all 0 in one and all 1 in the other.

    With one session id the pads are the same two, exchanged: a~ + a~' = 2 * sk_1, nothing hidden.
    """
    shares = keys("secp256k1")
    total, zeta = SECP256K1.scalar(0), SECP256K1.scalar(0)
    for bit in (0, 1):
        diary: dict[int, RoundOutput] = {}
        mine = replace(shares[CHEATER], mta=ChosenBeta(bit))
        name = session_id("one name for both")
        honest = build.party(
            build.definition(ECDSA),
            ecdsa.setup(shares[HONEST], PAIR, DIGEST),
            HONEST,
            session_id=name,
            rng=SeededRng(f"party 1, session {bit}"),
        )
        cheater = Party(
            record_rounds(build.definition(ECDSA), diary),
            ecdsa.EcdsaSetup(mine, PAIR, DIGEST),
            CHEATER,
            session_id=name,
            rng=SeededRng(f"cheater, session {bit}"),
        )
        run([honest, cheater])
        if not cheater.inbox.received(Respond):
            return finding_of(honest)
        reply = cast(Any, cheater.inbox.received(Respond)[HONEST].reply)
        total = total + SECP256K1.scalar(int.from_bytes(reply.a[1].encode()[:32], "little"))
        seed = shares[CHEATER].peers[HONEST].zero_seed
        zeta = zero_share(SECP256K1, HONEST, {CHEATER: seed}, diary[2].keep.transcript)
    sk_1 = total * SECP256K1.scalar(2).inverse()
    weight = lagrange_coefficient(SECP256K1, CHEATER, PAIR)
    key = sk_1 - zeta + weight * shares[CHEATER].secret_share
    text = "two sessions of one name, both completed: a~ + a~' = 2 sk_1, then x*G = Y"
    return Finding.broken_if(SECP256K1.base(key) == shares[HONEST].public_key, Effect.KEY, text)


# ---------------------------------------------------------------------- O12: spoofing, key streams


@entry("O12a", shape=Shape(sealing=False))
def forged_message(build: Build) -> Finding:
    """Deliver a made-up signature share in party 2's name before the real one."""
    parties = signers(build)
    forged: list[int] = []

    def inject(local: LocalRun[Any], message: InFlight) -> None:
        if message.send.kind != "SignatureShare" or message.send.to != HONEST or forged:
            return
        forged.append(1)
        real = Envelope.decode(message.send.data)
        fake = replace(real, body=real.body[:-1] + bytes([real.body[-1] ^ 1]))
        local.in_flight.insert(0, replace(message, send=replace(message.send, data=fake.encode())))

    run_with_carrier(parties.values(), inject)
    if not forged:
        raise UsageError("the carrier found nothing to forge")
    ignored = replace(finding_of(parties[HONEST]), shown="the forged message is ignored")
    return find_false_blame(parties, NAMES) or ignored


def derive_one_key(pair_secret: bytes, envelope: Envelope, salt: bytes) -> AESGCM:
    """Return a key for a pair of parties: the same for both directions and all messages."""
    return AESGCM(tagged_hash(Tag.CHANNEL_KEY, pair_secret))


@entry("O12b", replacing={channel._message_key: derive_one_key})
def reused_key_stream(build: Build) -> Finding:
    """Add the ciphertexts of both directions, as the carrier: E(p) + E(p') = p + p'."""
    seal_ = build.function(seal)
    rng, secret = SeededRng("sealing"), bytes(32)
    known, wanted = b"known to the carrier: ok, go on.", b"the secret share of someone else"
    sealed = [
        seal_(secret, Envelope(1, 1, True, i, j, session_id(""), b""), text, rng).body
        for i, j, text in ((HONEST, CHEATER, known), (CHEATER, HONEST, wanted))
    ]
    one, other = (body[channel.SALT_BYTES : -channel.TAG_BYTES] for body in sealed)
    read = bytes(a ^ b ^ c for a, b, c in zip(one, other, known, strict=True))
    return Finding.broken_if(
        read == wanted, Effect.LEAK, f"read by the carrier: {read.decode('latin-1')!r}"
    )


# ---------------------------------------------------------------------- D15: reading the shares


@entry("D15a", shape=Shape(sealing=False))
def eavesdropping(build: Build) -> Finding:
    """Collect the dealt shares, as the carrier: f_i(j) and f_i(k) give f_i(0), for every i."""
    agreed = dkg.setup("ed25519", 2, ALL)
    parties = {i: honest_party(build, DKG, agreed, i) for i in ALL}
    read: dict[int, dict[int, Scalar]] = {i: {} for i in ALL}

    def listen(local: LocalRun[Any], message: InFlight) -> None:
        if message.send.kind == "Deal":
            body = Envelope.decode(message.send.data).body
            try:
                deal = Deal.decode(body, WireContext(ED25519))
            except InvalidEncoding:
                return
            if deal.share is not None:
                read[message.sender][message.send.to] = deal.share

    run_with_carrier(parties.values(), listen)
    done = parties[HONEST].outcome
    if not isinstance(done, Done) or not all(len(shares) == 2 for shares in read.values()):
        return Finding.of_outcome(done)
    key = ED25519.scalar(0)
    for shares in read.values():
        for j, share in shares.items():
            key = key + lagrange_coefficient(ED25519, j, shares) * share
    text = "the key, from six messages that passed by: x*G = Y"
    return Finding.broken_if(ED25519.base(key) == done.result.public_key, Effect.KEY, text)


@entry("D15b", shape=Shape(sealing=False))
def false_sender(build: Build) -> Finding:
    """Party 3 and the carrier together: party 3's share arrives in party 2's name, before its own.

    It is a proper message of the session, and header and transport agree on who sent it.
    """
    agreed = dkg.setup("ed25519", 2, ALL)
    parties = {i: honest_party(build, DKG, agreed, i) for i in ALL}
    forged: list[int] = []

    def spoof(local: LocalRun[Any], message: InFlight) -> None:
        sent = [m for m in local.in_flight if m.send.kind == "Deal" and m.send.to == HONEST]
        if forged or {m.sender for m in sent} != {CHEATER, THIRD}:
            return
        forged.append(1)
        (mine,) = (m for m in sent if m.sender == THIRD)
        fake = replace(Envelope.decode(mine.send.data), sender=CHEATER)
        send = replace(mine.send, data=fake.encode())
        local.in_flight.remove(mine)
        local.in_flight[:0] = [replace(mine, sender=CHEATER, send=send), mine]

    run_with_carrier(parties.values(), spoof)
    if not forged:
        raise UsageError("the carrier found nothing to forge")
    return find_false_blame(parties, NAMES) or finding_of(parties[HONEST])


# ------------------------------------------------------------------ S11: of another protocol


@entry("S11", shape=Shape(number=FROST.number))
def across_protocols(build: Build) -> Finding:
    """Deliver a message of a resharing, with its true seal, to a signing session of that name."""
    held = keys("ed25519")
    resharing = {
        i: honest_party(build, RESHARE, reshare.setup(held[i].record, PAIR, share=held[i]), i)
        for i in PAIR
    }
    sent = [output for output in resharing[CHEATER].start() if isinstance(output, Send)]
    recorded = next(send for send in sent if send.to == HONEST)
    parties = signers(build)
    local: LocalRun[Any] = LocalRun(parties.values())
    local.start()
    local.parties[HONEST].receive(CHEATER, recorded.data)
    local.finish()
    return find_false_blame(parties, NAMES) or finding_of(parties[HONEST])


# ---------------------------------------------------------------------- S12: duplicates, disorder


class Impatient(Party[Any, Any]):
    """A research party that takes every message that is early or comes twice for an attack."""

    def _accept(self, envelope: Envelope, data: bytes) -> None:
        sender, kind = envelope.sender, envelope.kind
        if 1 <= kind <= len(self._kinds):
            round_, sends = self._kinds[kind - 1]
            early = round_.number >= self._next_round.number
            if early or sender in self.inbox.values.get(sends.message, {}):
                raise CheckFailed(Reason.CONFLICTING_MESSAGE, {sender}, detail="out of order")
        super()._accept(envelope, data)


@entry("S12", party=Impatient)
def disorder(build: Build) -> Finding:
    """Deliver everything twice, the latest first, and messages of another session in between."""
    parties = signers(build)
    others = signers(build, "another").values()
    foreign = [send for p in others for send in p.start() if isinstance(send, Send)]
    local: LocalRun[Any] = LocalRun(parties.values())
    local.start()
    for number in range(1000):
        if not local.in_flight:
            break
        message = local.in_flight[-1]
        if number % 2 == 0:
            local.in_flight.insert(0, message)
        local.deliver(len(local.in_flight) - 1)
        for send in foreign:
            local.parties[send.to].receive(PAIR[send.to == HONEST], send.data)
    return find_false_blame(parties, NAMES) or finding_of(parties[HONEST])
