"""Attacks on oblivious transfer: cheating in OT extension, selective abort, devious base OT.

In OT extension the roles are swapped: the multiplication *receiver* holds both seeds of each base
OT and sends a matrix u; the multiplication *sender* holds Delta, its choices in the base OTs, for
as long as the key share lives. Delta gives both pads of every OT, and with them the sender's
inputs: its nonce share and its key share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.harness import (
    CHEATER,
    DIGEST,
    HONEST,
    PAIR,
    cheating_party,
    honest_party,
    message_scalar,
    record_rounds,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import DISCARD, ONE_GUARD, Build, ForgetfulGuard
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.mta.base import direction_sid
from mpcsim.crypto.mta.ot import (
    COLUMNS,
    PAD_BLOCKS,
    OtMta,
    OtPairSetup,
    OtSetupReply,
    challenge,
    gadget,
)
from mpcsim.crypto.ot import base as ot_base
from mpcsim.crypto.ot import extension as ot_extension
from mpcsim.crypto.ot.all_but_one import BLOCK_BYTES
from mpcsim.crypto.ot.extension import (
    ROWS_BYTES,
    ExtensionMessage,
    ReceiverSetup,
    SenderSetup,
    row_bytes,
)
from mpcsim.crypto.params import LAMBDA_C, OtParameters
from mpcsim.crypto.rng import Rng
from mpcsim.crypto.zero_share import zero_share
from mpcsim.errors import Aborted, Reason, UsageError
from mpcsim.protocols import dkg, ecdsa
from mpcsim.protocols.ecdsa.messages import Offer, Respond, SignatureShare
from mpcsim.protocols.engine import Done, Party, RoundOutput
from mpcsim.protocols.key_share import Guard, KeyShare
from mpcsim.protocols.local_run import LocalRun, run
from mpcsim.protocols.sample_keys import keys, with_fresh_guard
from mpcsim.sim.run.adversary import Adversary, alter_kind

# ------------------------------------------------------------------ what the cheater can compute


@dataclass
class Receiver:
    """Knowledge of the cheater as OT-extension receiver (k = 1) in one signing session."""

    mta: OtMta
    pair: OtPairSetup
    sid: bytes
    t: bytes
    """t_i = PRG(leaf 1 of tree i), LAMBDA_C rows."""
    other: bytes
    """PRG(leaf 0), as ``t``."""

    @classmethod
    def of(cls, share: KeyShare, transcript: bytes) -> Receiver:
        mta = cast(OtMta, share.mta)
        pair = cast(OtPairSetup, share.peers[HONEST].multiplication)
        sid = direction_sid(transcript, sender=HONEST, receiver=CHEATER)
        key = tagged_hash(Tag.OT_EXT_PRG, sid)
        width = row_bytes(mta.parameters.xi)
        t = mta.kernel.expand(key, pair.rest, width)
        return cls(mta, pair, sid, t, mta.kernel.expand(key, pair.zeroth, width))

    def message(self, x: bytes, rows: bytes) -> ExtensionMessage:
        """Make u from a choice row of its own for every i; open it as if all were ``x``."""
        kernel, xi = self.mta.kernel, self.mta.parameters.xi
        u = kernel.xor(kernel.xor(self.t, self.other), rows)
        open_session = ot_extension._hashed_rows(kernel, self.sid, u, self.t + x, xi)
        t = ot_extension._opening(self.sid, open_session[:ROWS_BYTES])
        return ExtensionMessage(u, x=open_session[ROWS_BYTES:], t=t)

    def columns(self) -> bytearray:
        """Return the columns of t, a block for every OT."""
        return bytearray(ot_extension._columns(self.mta.kernel, self.t, self.mta.parameters.xi))

    def checked(self, columns: bytes, reply: Any) -> bytes:
        """Return the input of the hash mu, if these are the sender's columns: 32 bytes an OT."""
        kernel = self.mta.kernel
        pads = ot_extension._pads(kernel, self.sid, columns, PAD_BLOCKS)
        theta = challenge(self.sid, kernel.join(reply.a))
        return kernel.combine((*theta, 1), kernel.split(pads, COLUMNS, ORDER)).encode()


@dataclass
class Session:
    """Open signing session of an honest signer and the cheater."""

    honest: Party[Any, Any]
    cheater: Adversary
    diary: dict[int, RoundOutput]
    """Outputs of the cheater's rounds, by number."""
    run: LocalRun[Any]

    @property
    def transcript(self) -> bytes:
        """Transcript hash, which the cryptography binds to."""
        return cast(bytes, self.diary[2].keep.transcript)

    @property
    def reply(self) -> Any:
        """Reply of the honest party as multiplication sender, or None."""
        respond = self.cheater.party.inbox.received(Respond).get(HONEST)
        return respond and respond.reply

    def finish(self) -> Session:
        """Deliver all messages."""
        self.run.finish()
        return self


def open_session(
    build: Build,
    shares: dict[int, KeyShare],
    label: str,
    craft: Callable[[Receiver], ExtensionMessage] | None = None,
) -> Session:
    """Start a session in which the cheater crafts the message of its OT extension."""
    diary: dict[int, RoundOutput] = {}
    setup = ecdsa.setup(shares[CHEATER], PAIR, DIGEST)
    adversary = Adversary(cheating_party(record_rounds(ecdsa.ECDSA, diary), setup, CHEATER, label))

    def tamper(message: Offer) -> Offer:
        if craft is None:
            return message
        return replace(message, offer=craft(Receiver.of(shares[CHEATER], diary[2].keep.transcript)))

    adversary.tamper = alter_kind("Offer", tamper)
    setup = ecdsa.setup(shares[HONEST], PAIR, DIGEST)
    honest = honest_party(build, ecdsa.ECDSA, setup, HONEST, label)
    run: LocalRun[Any] = LocalRun([honest, adversary])
    run.start()
    return Session(honest, adversary, diary, run)


def encode_delta(delta: list[int]) -> bytes:
    """Encode Delta as the protocol stores it."""
    value = sum(bit << k for k, bit in enumerate(delta))
    return value.to_bytes(LAMBDA_C // 8, "little")


def key_from_delta(build: Build, shares: dict[int, KeyShare], delta: bytes) -> Scalar | None:
    """Return the private key, computed from Delta and one *honest* signing session.

    Both pads of every OT are known then, so a = a~ - alpha_0 + alpha_1 can be read off the reply.
    """
    mine = shares[CHEATER]
    found = open_session(build, shares, "with Delta known").finish()
    if found.reply is None:
        return None
    at = Receiver.of(mine, found.transcript)
    kernel, pair = at.mta.kernel, at.pair
    leaves = [
        b"".join(half[BLOCK_BYTES * i :][:BLOCK_BYTES] for half in (pair.zeroth, pair.rest))
        for i in range(LAMBDA_C)
    ]
    offer = cast(ExtensionMessage, cast(Offer, found.diary[2].direct[HONEST]).offer)
    xi = at.mta.parameters.xi
    pads = ot_extension.sender(kernel, SenderSetup.of(delta, leaves), at.sid, offer, xi, PAD_BLOCKS)

    def first(vector: Any) -> int:
        return int.from_bytes(vector.encode()[:32], "little")

    alpha0, alpha1 = (kernel.split(pad, COLUMNS, ORDER)[1] for pad in pads)
    sk_1 = SECP256K1.scalar(first(found.reply.a[1]) - first(alpha0) + first(alpha1))
    zeta_1 = zero_share(
        SECP256K1, HONEST, {CHEATER: mine.peers[HONEST].zero_seed}, found.transcript
    )
    lambda_2 = lagrange_coefficient(SECP256K1, CHEATER, PAIR)
    return sk_1 - zeta_1 + lambda_2 * mine.secret_share


def is_private_key(key: Scalar | None, shares: dict[int, KeyShare]) -> bool:
    """Return whether the key is the private key that the shares belong to."""
    return key is not None and SECP256K1.base(key) == shares[CHEATER].public_key


# ---------------------------------------------------------------------- O1: inconsistent choices

AT_ONCE = 8
"""Number of bits of Delta to learn in one session; the cheater tries 2^8 hashes for them."""


@entry("O1", without=[Reason.OT_EXTENSION_CHECK])
def inconsistent_choices(build: Build) -> Finding:
    """Set choice bit k in row i alone: the sender's column is t_k or t_k + e_i, depending on
    Delta_i.

    mu, which the sender must send, is a hash of values computed from its columns: try both.
    """
    shares = keys("secp256k1")
    delta: list[int] = []
    for first in range(0, LAMBDA_C, AT_ONCE):

        def craft(at: Receiver, first: int = first) -> ExtensionMessage:
            width = row_bytes(at.mta.parameters.xi)
            rows = bytearray(LAMBDA_C * width)
            for k in range(AT_ONCE):
                rows[(first + k) * width + k // 8] |= 1 << k % 8
            return at.message(bytes(width), bytes(rows))

        found = open_session(build, shares, f"inconsistent {first}", craft).finish()
        if found.reply is None:
            return Finding.of_outcome(found.honest.outcome)
        delta += _read_bits_from_mu(
            Receiver.of(shares[CHEATER], found.transcript), first, found.reply
        )
    key = key_from_delta(build, shares, encode_delta(delta))
    text = "128 bits of Delta in 16 sessions without one failed check, then the key: x*G = Y"
    return Finding.broken_if(is_private_key(key, shares), Effect.KEY, text)


def _read_bits_from_mu(at: Receiver, first: int, reply: Any) -> list[int]:
    zero, one = at.columns(), at.columns()
    for k in range(AT_ONCE):
        one[k * BLOCK_BYTES + (first + k) // 8] ^= 1 << (first + k) % 8
    versions = [at.checked(bytes(columns), reply) for columns in (zero, one)]
    rest = versions[0][32 * AT_ONCE :]
    for guess in product((0, 1), repeat=AT_ONCE):
        head = b"".join(versions[bit][32 * k : 32 * k + 32] for k, bit in enumerate(guess))
        if tagged_hash(Tag.MTA_MU, at.sid, head + rest) == reply.mu:
            return list(guess)
    return [0] * AT_ONCE


# ---------------------------------------------------------------------- O2: selective abort


def guess_delta_bit(i: int) -> Callable[[Receiver], ExtensionMessage]:
    """Flip one bit of row i of u: the check passes if and only if Delta_i = 0."""

    def craft(at: Receiver) -> ExtensionMessage:
        width = row_bytes(at.mta.parameters.xi)
        rows = bytearray(LAMBDA_C * width)
        rows[i * width] ^= 1
        return at.message(bytes(width), bytes(rows))

    return craft


@entry("O2a", neglecting=[DISCARD])
def selective_abort(build: Build) -> Finding:
    """Guess one bit of Delta in each session; every second session fails.

    The first failure ends it: the set-up with this peer is discarded.
    """
    shares = keys("secp256k1")
    if not build.fulfils(DISCARD):
        shares[HONEST] = replace(shares[HONEST], guard=ForgetfulGuard())
    delta: list[int] = []
    failed = None
    for i in range(LAMBDA_C):
        try:
            session = open_session(build, shares, f"guess {i}", guess_delta_bit(i)).finish()
        except UsageError:  # ecdsa.setup: "... was discarded after an attack"
            break
        delta.append(0 if session.reply else 1)
        if isinstance(session.honest.outcome, Aborted) and not session.reply:
            failed = failed or session.honest.outcome
            if build.fulfils(DISCARD):
                shares[HONEST] = shares[HONEST].after_abort(session.honest.outcome)
    if len(delta) < LAMBDA_C:
        text = f"{len(delta)} bits learnt; the set-up is discarded, the next session refused"
        return replace(Finding.of_outcome(failed), shown=text)
    key = key_from_delta(build, shares, encode_delta(delta))
    text = f"{sum(delta)} failed sessions of 128 were all it took to learn Delta: x*G = Y"
    return Finding.broken_if(is_private_key(key, shares), Effect.KEY, text)


@entry("O2b", neglecting=[ONE_GUARD])
def selective_abort_in_open_sessions(build: Build) -> Finding:
    """Open all 128 sessions before the first failure, so that none of them is refused."""
    shares = keys("secp256k1")
    sessions = []
    for i in range(LAMBDA_C):
        if not build.fulfils(ONE_GUARD):  # as if each session ran in a process of its own
            shares[HONEST] = replace(shares[HONEST], guard=Guard())
        sessions.append(open_session(build, shares, f"open guess {i}", guess_delta_bit(i)))
    delta = [0 if session.finish().reply else 1 for session in sessions]
    failed = [s.honest.outcome for s in sessions if s.reply is None]
    checked = [o for o in failed if isinstance(o, Aborted) and o.culprits]
    if len(checked) == 1 < len(failed):
        text = "one failed check; every other open session refuses before it checks anything"
        return replace(Finding.of_outcome(failed[-1]), shown=text)
    shares[HONEST] = replace(shares[HONEST], guard=Guard())
    key = key_from_delta(build, shares, encode_delta(delta))
    text = f"{sum(delta)} of 128 open sessions failed, each for itself: x*G = Y"
    return Finding.broken_if(is_private_key(key, shares), Effect.KEY, text)


# ---------------------------------------------------------------------- O8: devious base OT


def devious_hash(sid: bytes, k: int, branch: int, r: Point) -> Point:
    """Return H(x) = h(x)*G: a hash to a point whose discrete logarithm is known to all."""
    return SECP256K1.base(devious_scalar(sid, k, branch, r))


def devious_scalar(sid: bytes, k: int, branch: int, r: Point) -> Scalar:
    """Return h(x), the discrete logarithm of ``devious_hash``."""
    return SECP256K1.hash_to_scalar(Tag.OT_BASE_POINT, sid, u32(k), u32(branch), r.encode())


class DeviousMta(OtMta):
    """Base-OT receiver that wants both keys: r_0 = a*G and r_1 = b*G, as if H were devious."""

    def __init__(self, build: Build) -> None:
        super().__init__()
        self.both: tuple[bytes, bytes] | None = None
        self._answer = build.function(OtMta.setup_answer)  # as base-OT sender it is honest

    def setup_answer(
        self, sid: bytes, me: int, peer: int, offer: Any, rng: Rng
    ) -> tuple[ReceiverSetup, Any]:
        return self._answer(self, sid, me, peer, offer, rng)

    def setup_start(self, sid: bytes, me: int, peer: int, rng: Rng) -> tuple[Any, Any]:
        pairs = [
            (SECP256K1.random_scalar(rng), SECP256K1.random_scalar(rng)) for _ in range(LAMBDA_C)
        ]
        r0, r1 = (tuple(SECP256K1.base(pair[b]) for pair in pairs) for b in (0, 1))
        exponents = [
            (
                a + devious_scalar(direction_sid(sid, me, peer), k, 0, r1[k]),
                b + devious_scalar(direction_sid(sid, me, peer), k, 1, r0[k]),
            )
            for k, (a, b) in enumerate(pairs)
        ]
        message = ot_base.ReceiverMessage(r0, r1)
        kept = ot_base.ReceiverKeep(bytes(LAMBDA_C // 8), tuple(e[0] for e in exponents), message)
        self._exponents = exponents
        return kept, message

    def setup_finish(
        self, sid: bytes, me: int, peer: int, started: Any, answered: Any, reply: Any
    ) -> OtPairSetup:
        at = direction_sid(sid, me, peer)
        zero, one = (
            b"".join(
                ot_base._key(at, k, branch, A_k, self._exponents[k][branch] * A_k)
                for k, A_k in enumerate(reply.base.A)
            )
            for branch in (0, 1)
        )
        self.both = (zero, one)
        return super().setup_finish(sid, me, peer, started, answered, reply)


@entry("O8", replacing={ot_base._hash_point: devious_hash})
def devious_transfer(build: Build) -> Finding:
    """Get both keys of each base OT in key generation; then one honest signature is enough."""
    agreed = dkg.setup("secp256k1", 2, PAIR)
    devious = DeviousMta(build)

    class DeviousSetup(dkg.DkgSetup):
        mta = devious

    cheaters = DeviousSetup(agreed.curve_name, agreed.threshold, agreed.parties, agreed.scheme)
    outcomes = run(
        [
            honest_party(build, dkg.DKG, agreed, HONEST, "devious"),
            cheating_party(dkg.DKG, cheaters, CHEATER, "devious"),
        ]
    )
    shares: dict[int, KeyShare] = {i: o.result for i, o in outcomes.items() if isinstance(o, Done)}
    both = devious.both
    if len(shares) < 2 or both is None:
        return Finding.of_outcome(outcomes[HONEST])
    theirs = cast(OtPairSetup, shares[HONEST].peers[CHEATER].multiplication)
    if both != (theirs.rest, theirs.zeroth):
        return Finding.harmless("key generation completes; the cheater holds no key of any base OT")
    key = _key_from_both_seeds(build, shares, both)
    text = "all 2 x 128 seeds of the other side, then its choices, its nonce and the key: x*G = Y"
    return Finding.broken_if(is_private_key(key, shares), Effect.KEY, text)


def _key_from_both_seeds(
    build: Build, shares: dict[int, KeyShare], both: tuple[bytes, bytes]
) -> Scalar | None:
    """Return the private key, from one honest signature with the other side's choice bits known."""
    session = open_session(build, shares, "devious signing").finish()
    inbox, kept = session.cheater.party.inbox, session.diary[2].keep
    (offer,) = inbox.received(Offer).values()
    (respond,) = inbox.received(Respond).values()
    (share,) = inbox.received(SignatureShare).values()
    mta = cast(OtMta, shares[CHEATER].mta)
    kernel, xi = mta.kernel, mta.parameters.xi
    # x = u + PRG(k_0) + PRG(k_1): the other's choice bits, hence its chi and its mask phi.
    at = direction_sid(kept.transcript, sender=CHEATER, receiver=HONEST)
    key, width = tagged_hash(Tag.OT_EXT_PRG, at), row_bytes(xi)
    pads = (kernel.expand(key, seeds, width) for seeds in both)
    x = kernel.xor(kernel.xor(*pads), cast(ExtensionMessage, offer.offer).u)[: xi // 8]
    from_them = SECP256K1.scalar(kernel.subset_sum(x, gadget(kernel, at, xi)))
    phi = respond.psi + from_them + kept.committed.phi_i
    # u_1 = r_1 phi - d + r_2 chi_12 - c, and all but r_1 is known.
    d_u, _ = mta.receiver_finish(kept.offered[HONEST], respond.reply)
    c_u, _ = session.diary[3].keep.c[HONEST]
    r_1 = (share.u_i + d_u + c_u - kept.committed.r_i * from_them) * phi.inverse()
    signature = session.cheater.outcome
    if not isinstance(signature, Done):
        return None
    r = r_1 + kept.committed.r_i
    m = message_scalar(DIGEST)
    r_x, s = SECP256K1.scalar(signature.result.r), SECP256K1.scalar(signature.result.s)
    candidates = [(sign * r - m) * r_x.inverse() for sign in (s, -s)]
    return next((key for key in candidates if is_private_key(key, shares)), None)


# ---------------------------------------------------------------------- O9: false sums

TREES_OF_4 = "ot/80/4"


class CrookedMta(OtMta):
    """All-but-one OT sender with one false sum: that of first children, on the second level of the
    first tree. The receiver uses it if and only if its Delta_1 is 1."""

    def __init__(self) -> None:
        super().__init__(OtParameters(k=4))

    def setup_answer(
        self, sid: bytes, me: int, peer: int, offer: Any, rng: Rng
    ) -> tuple[ReceiverSetup, Any]:
        kept, reply = super().setup_answer(sid, me, peer, offer, rng)
        honest = cast(OtSetupReply, reply)
        sums = bytes([honest.all_but_one.sums[0] ^ 1]) + honest.all_but_one.sums[1:]
        return kept, replace(honest, all_but_one=replace(honest.all_but_one, sums=sums))


@entry("O9", without=[Reason.ALL_BUT_ONE_OT_CHECK])
def false_sums(build: Build) -> Finding:
    """Send a false sum in key generation: unchecked, the first signature fails if a bit of Delta is
    1.

    Four key generations leak one bit each. A check in key generation itself fails before there is
    a key.
    """
    agreed = dkg.setup("secp256k1", 2, PAIR, TREES_OF_4)

    class CrookedSetup(dkg.DkgSetup):
        mta = CrookedMta()

    theirs = CrookedSetup(agreed.curve_name, agreed.threshold, agreed.parties, agreed.scheme)
    learnt, truth = [], []
    for attempt in range(4):
        label = f"false sums {attempt}"
        outcomes = run(
            [
                honest_party(build, dkg.DKG, agreed, HONEST, label),
                cheating_party(dkg.DKG, theirs, CHEATER, label),
            ]
        )
        shares: dict[int, KeyShare] = {
            i: with_fresh_guard(o.result) for i, o in outcomes.items() if isinstance(o, Done)
        }
        if HONEST not in shares or CHEATER not in shares:
            return Finding.of_outcome(outcomes[HONEST])
        learnt.append(int(open_session(build, shares, label).finish().reply is None))
        pair = cast(OtPairSetup, shares[HONEST].peers[CHEATER].multiplication)
        truth.append(ot_base.bit(pair.delta, 1))
    text = f"bits of Delta, from who aborts the first signature: {learnt}"
    return Finding.broken_if(learnt == truth and len(set(truth)) == 2, Effect.LEAK, text)
