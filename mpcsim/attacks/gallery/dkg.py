"""Attacks on key generation: rogue keys, wrong thresholds, wrong shares, replayed proofs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.harness import (
    ALL,
    CHEATER,
    HONEST,
    PAIR,
    THIRD,
    WRONG_SHARE,
    cheat_one_party,
    cheat_two_parties,
    cheating_party,
    crash_party,
    finding_of,
    honest_party,
    point_of_unknown_logarithm,
    spoil_shares_of_two,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import Build, Shape, without
from mpcsim.crypto import commitment, schnorr
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Group, Point, Scalar
from mpcsim.crypto.groups.polynomial import commit as feldman_commit
from mpcsim.crypto.groups.polynomial import evaluate, evaluate_commitment, lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.mta.base import direction_sid
from mpcsim.crypto.rng import SeededRng
from mpcsim.crypto.schnorr import Proof
from mpcsim.errors import Reason, UsageError
from mpcsim.ids import PartyId
from mpcsim.protocols import dkg
from mpcsim.protocols.dkg import DKG, steps
from mpcsim.protocols.dkg.messages import Commit, Deal, MultiplicationOffer, Reveal
from mpcsim.protocols.engine import Definition, Done, RoundOutput
from mpcsim.protocols.engine.echo import check_echo, echo
from mpcsim.protocols.engine.transcript import transcript_hash
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.local_run import run
from mpcsim.sim.run.adversary import Adversary, alter_kind, with_round


def honest_dealer(
    build: Build, i: int = HONEST, parties: Any = PAIR, curve: str = "ed25519"
) -> Any:
    """Return an honest party of the build's key generation."""
    return honest_party(build, DKG, dkg.setup(curve, 2, tuple(parties)), i)


def honest_dealers(build: Build, curve: str = "ed25519") -> dict[PartyId, Any]:
    """Return the two honest parties of three."""
    return {i: honest_dealer(build, i, ALL, curve) for i in (HONEST, THIRD)}


def cheating_dealer(
    parties: Any = PAIR, curve: str = "ed25519", definition: Definition[Any, Any] = DKG
) -> Any:
    """Return the cheater's party, still honest: the caller makes it cheat."""
    return cheating_party(definition, dkg.setup(curve, 2, tuple(parties)))


class Dealer(Adversary):
    """A dealer that reveals commitments and deals shares of its own making, consistently.

    ``reveal`` and ``share`` make what each receiver gets; the round-1 commitment is made to fit.
    """

    def __init__(
        self,
        inner: Any,
        reveal: Callable[[Reveal, int], Reveal] = lambda message, to: message,
        share: Callable[[Scalar, int], Scalar] = lambda share, to: share,
    ) -> None:
        super().__init__(inner)
        self._reveal, self._share = reveal, share
        self.tamper = self._tamper

    def _tamper(self, kind: str, to: int, message: Any) -> Any:
        if isinstance(message, Commit):
            kept = self.party.keep
            values = kept.coefficients, None, kept.chain_code, kept.channel_key, kept.blinding
            opened = self._reveal(Reveal({}, *values), to)
            V = steps.commit_to_reveal(
                self.party.session_id,
                self.me,
                opened.blinding,
                message.nonce,
                opened.coefficients,
                opened.channel_key,
                c=opened.chain_code,
            )
            sent = replace(message, commitment=V)
            self.party.inbox.own[Commit] = (self.me, sent)  # it echoes what it sent
            return sent
        if isinstance(message, Reveal):
            return self._reveal(message, to)
        if isinstance(message, Deal) and message.share is not None:
            return replace(message, share=self._share(message.share, to))
        return message


# ---------------------------------------------------------------------- D1: rogue key


@entry("D1", without=[Reason.COMMITMENT_OPENING, Reason.PROOF_OF_KNOWLEDGE])
def rogue_key(build: Build) -> Finding:
    """Reveal last, and cancel what the other revealed: C_2 = y*G - C_1, for a y of its choice.

    With one receiver any share can be dealt to fit: C_{2,1} = f_2(1)*G - C_{2,0}.
    """
    y, share = ED25519.scalar(12345), ED25519.scalar(777)
    adversary = Adversary(cheating_dealer(), hold={"Reveal"})

    def tamper(kind: str, to: int, message: Any) -> Any:
        if isinstance(message, Reveal):
            (theirs,) = adversary.party.inbox.received(Reveal).values()
            C_0 = ED25519.base(y) - theirs.coefficients[0]
            return replace(message, coefficients=(C_0, ED25519.base(share) - C_0))
        return replace(message, share=share) if isinstance(message, Deal) else message

    adversary.tamper = tamper
    text = "the honest party holds a share of a key that the cheater chose: y*G = Y"
    return cheat_one_party(
        honest_dealer(build),
        adversary,
        lambda it: it.public_key == ED25519.base(y),
        Effect.CHOSEN_KEY,
        text,
    )


# ---------------------------------------------------------------------- D2: threshold raise


def padded_public_shares(group: Group, C: Any, holders: Any) -> dict[Any, Point]:
    """Compute ``steps.public_shares`` as many libraries do: add polynomials of any lengths."""
    total = [group.sum(column) for column in zip_longest(*C, fillvalue=group.identity)]
    return {i: evaluate_commitment(total, i) for i in holders}


@entry(
    "D2", without=[Reason.THRESHOLD_MISMATCH], replacing={steps.public_shares: padded_public_shares}
)
def threshold_raise(build: Build) -> Finding:
    """Deal one coefficient more than agreed: the sum has degree t, and t shares are too few."""
    extra = ED25519.scalar(99)

    def reveal(message: Reveal, to: int) -> Reveal:
        return replace(message, coefficients=(*message.coefficients, ED25519.base(extra)))

    def share(honest: Scalar, to: int) -> Scalar:
        return honest + extra * ED25519.scalar(to * to)

    lax = without(DKG, Reason.THRESHOLD_MISMATCH)
    cheater = Dealer(cheating_dealer(ALL, definition=lax), reveal, share)
    text = "a key of '2 of 3', of which no two honest shares make the key"
    return spoil_shares_of_two(honest_dealers(build), cheater, text)


# ---------------------------------------------------------------------- D3: a bad share


@entry("D3", without=[Reason.SHARE_INCONSISTENT])
def bad_share(build: Build) -> Finding:
    """Deal party 1 the right share plus one."""
    cheater = Adversary(cheating_dealer(ALL), WRONG_SHARE)
    text = "both finish, with two shares that do not make the key"
    return spoil_shares_of_two(honest_dealers(build), cheater, text)


# ---------------------------------------------------------------------- D4: index zero


def try_parties(build: Build, parties: Any, members: Any, attacker: int) -> Any:
    """Run a key generation of these parties; return the attacker's share, or another finding."""
    try:
        agreed = dkg.DkgSetup("ed25519", 2, parties)
        joined = [honest_party(build, DKG, agreed, i) for i in members]
    except UsageError as error:
        return Finding.refused(str(error))
    run(joined)
    outcome = joined[attacker].outcome
    return outcome.result if isinstance(outcome, Done) else finding_of(joined[attacker])


@entry(
    "D4a",
    shape=Shape(setup_check=False),
    replacing={echo: lambda view, inbox, kind: {}, check_echo: lambda *_: None},
)
def index_zero(build: Build) -> Finding:
    """Ask for the index 0: f(0) is the key itself."""
    held = try_parties(build, (0, 1, 2), (0, 1, 2), 0)
    if isinstance(held, Finding):
        return held
    text = "the 'share' of party 0 is the private key: x_0*G = Y"
    return Finding.broken_if(ED25519.base(held.secret_share) == held.public_key, Effect.KEY, text)


@entry("D4b", shape=Shape(setup_check=False))
def duplicate_index(build: Build) -> Finding:
    """Set up three holders of whom two have the same index, and so the same share."""
    held = try_parties(build, (HONEST, CHEATER, CHEATER), PAIR, 1)
    if isinstance(held, Finding):
        return held
    try:
        lagrange_coefficient(ED25519, CHEATER, (CHEATER, CHEATER))
    except UsageError as error:
        text = f"two of the three holders have one share between them: {error}"
        return Finding.broken(Effect.UNUSABLE, text)
    return Finding.harmless()


# ---------------------------------------------------------------------- D5, P8: proofs


def unbound_challenge(session: bytes, prover: int, Y: Point, R: Point) -> Scalar:
    """Return a challenge that binds neither session nor prover, as in several libraries."""
    return Y.group.hash_to_scalar(Tag.SCHNORR, Y.encode(), R.encode())


def challenge_without_nonce(session: bytes, prover: int, Y: Point, R: Point) -> Scalar:
    """Return a challenge that leaves R out: it is known before R is chosen."""
    return Y.group.hash_to_scalar(Tag.SCHNORR, session, u32(prover), Y.encode())


@entry("D5", replacing={schnorr._challenge: unbound_challenge})
def borrowed_proof(build: Build) -> Finding:
    """Replay another party's constant term, and the proof it made for it in an earlier session."""
    earlier = [honest_party(build, DKG, dkg.setup("ed25519", 2, PAIR), i, "earlier") for i in PAIR]
    run(earlier)
    old = earlier[1].inbox.received(Reveal)[HONEST]
    return _deal_unknown_constant(
        build, old.coefficients[0], lambda sid, C_0: old.proof, "party 1's own proof, replayed"
    )


@entry("P8", replacing={schnorr._challenge: challenge_without_nonce})
def forged_proof(build: Build) -> Finding:
    """Exploit weak Fiat-Shamir: with e = H(Y), choose z and solve for R = z*G - e*Y."""

    def forge(transcript: bytes, C_0: Point) -> Proof:
        z = ED25519.scalar(4242)
        e = challenge_without_nonce(transcript, CHEATER, C_0, C_0)
        return Proof(ED25519.base(z) - e * C_0, z)

    return _deal_unknown_constant(
        build, point_of_unknown_logarithm("ed25519"), forge, "a proof of nothing"
    )


def _deal_unknown_constant(
    build: Build, C_0: Point, prove: Callable[[bytes, Point], Any], text: str
) -> Finding:
    """Deal with a constant term whose discrete logarithm the cheater does not know."""
    share = ED25519.scalar(777)
    inner = cheating_dealer(definition=build.definition(DKG))

    def reveal(message: Reveal, to: int) -> Reveal:
        C = (C_0, ED25519.base(share) - C_0)
        proof = prove(inner.keep.transcript, C_0) if message.proof else None
        return replace(message, coefficients=C, proof=proof)

    cheater = Dealer(inner, reveal, lambda _, to: share)
    text += "; nobody knows the key that came out"
    return cheat_one_party(honest_dealer(build), cheater, lambda _: True, Effect.NO_KNOWLEDGE, text)


# ---------------------------------------------------------------------- D6: copied commitment


def commit_without_committer(
    session: bytes, committer: int, blinding: bytes, *values: bytes
) -> bytes:
    """Commit without binding the committer (nor the channel key, the last value)."""
    return tagged_hash(Tag.COMMITMENT, session, blinding, *values[:-1])


@entry(
    "D6",
    without=[Reason.SHARE_INCONSISTENT],
    replacing={
        commitment.commit: commit_without_committer,
        schnorr._challenge: unbound_challenge,
    },
)
def copied_commitment(build: Build) -> Finding:
    """Copy party 1's commitment, later its opening.

    The copied shares do not fit, so the check of shares has to be off as well, to see the key.
    """

    def believe(
        original: Callable[..., RoundOutput], view: Any, keep: Any, inbox: Any
    ) -> RoundOutput:
        inbox.own[Commit] = (view.me, inbox.received(Commit)[HONEST])
        return original(view, keep, inbox)

    inner = cheating_dealer(definition=with_round(build.definition(DKG), 2, believe))
    adversary = Adversary(inner, hold={"Commit", "Reveal"})

    def copy(kind: str, to: int, message: Any) -> Any:
        if kind in ("Commit", "Reveal"):
            theirs = inner.inbox.received(type(message))[HONEST]
            if isinstance(theirs, Reveal):
                return replace(theirs, channel_key=message.channel_key)
            return theirs
        return None if kind == "AbortNotice" else message

    adversary.tamper = copy
    honest = honest_dealer(build)
    text = "the 'joint' key is twice party 1's own part: Y = 2*C_1"

    def is_twice_its_own(share: KeyShare) -> bool:
        mine = honest.inbox.own[Reveal][1].coefficients[0]
        return bool(share.public_key == mine + mine)

    return cheat_one_party(honest, adversary, is_twice_its_own, Effect.BIAS, text)


# ---------------------------------------------------------------------- D7: equivocation


def transcript_of_name_only(view: Any, inbox: Any, kind: Any) -> bytes:
    """Return a hash of the session's name alone, in place of the transcript."""
    return tagged_hash(Tag.SESSION, view.session_id)


@entry("D7", without=[Reason.ECHO_MISMATCH], replacing={transcript_hash: transcript_of_name_only})
def two_polynomials(build: Build) -> Finding:
    """Deal one polynomial to party 1, another to party 3, each consistent in itself."""
    group, rng = ED25519, SeededRng("two polynomials")
    f: dict[int, Any] = {
        i: steps.sample_polynomial(group.random_scalar(rng), 2, rng) for i in (HONEST, THIRD)
    }
    inner = cheating_dealer(ALL, definition=build.definition(DKG))

    def reveal(message: Reveal, to: int) -> Reveal:
        C = feldman_commit(f[to])
        proof = None
        if message.proof:
            proof = schnorr.prove(inner.keep.transcript, CHEATER, f[to][0], C[0], rng)
        return replace(message, coefficients=C, proof=proof)

    return cheat_two_parties(
        honest_dealers(build),
        Dealer(inner, reveal, lambda _, to: evaluate(f[to], to)),
        lambda a, b: a.public_key != b.public_key,
        Effect.SPLIT,
        "parties 1 and 3 finish with different public keys",
    )


# ---------------------------------------------------------------------- D8: chain code


@entry("D8a", without=[Reason.COMMITMENT_OPENING])
def two_chain_codes(build: Build) -> Finding:
    """Reveal one part of the chain code to party 1, another to party 3: they would pay to addresses
    that the other one cannot sign for."""

    other = alter_kind("Reveal", lambda m: replace(m, chain_code=bytes(32)), {THIRD})
    return cheat_two_parties(
        honest_dealers(build, "secp256k1"),
        Adversary(cheating_dealer(ALL, "secp256k1"), other),
        lambda a, b: a.record.derive((0,))[0] != b.record.derive((0,))[0],
        Effect.SPLIT,
        "parties 1 and 3 finish with one key, and different children of it",
        otherwise=THIRD,
    )


@entry("D8b", without=[Reason.COMMITMENT_OPENING])
def chosen_chain_code(build: Build) -> Finding:
    """Reveal last, and try parts until the chain code begins with a zero byte."""
    adversary = Adversary(cheating_dealer(curve="secp256k1"), hold={"Reveal"})

    def steer(message: Reveal) -> Reveal:
        (theirs,) = adversary.party.inbox.received(Reveal).values()
        parts = (n.to_bytes(32, "big") for n in range(1 << 16))
        their_part = theirs.chain_code or b""
        for part in parts:
            if steps.chain_code({HONEST: their_part, CHEATER: part})[0] == 0:
                return replace(message, chain_code=part)
        return message

    adversary.tamper = alter_kind("Reveal", steer)
    return cheat_one_party(
        honest_dealer(build, curve="secp256k1"),
        adversary,
        lambda it: it.record.chain_code[0] == 0,
        Effect.BIAS,
        "the chain code begins with the byte it was to have",
    )


# ---------------------------------------------------------------------- D9: identity


@entry("D9", without=[Reason.BASE_OT_DEGENERATE])
def identity_in_base_ot(build: Build) -> Finding:
    """Send r_0 = -H_0(r_1): the sender's combined point is the identity, which has no encoding."""
    adversary = Adversary(cheating_dealer(curve="secp256k1"))
    inner = adversary.party

    def annihilate(message: Any) -> MultiplicationOffer:
        offer, sid = message.offer, direction_sid(inner.keep.transcript, CHEATER, HONEST)
        parts = (sid, u32(0), u32(0), offer.r1[0].encode())
        r_0 = -SECP256K1.hash_to_point(Tag.OT_BASE_POINT, *parts)
        return MultiplicationOffer(replace(offer, r0=(r_0, *offer.r0[1:])))

    adversary.tamper = alter_kind("MultiplicationOffer", annihilate)
    return crash_party(honest_dealer(build, curve="secp256k1"), adversary)
