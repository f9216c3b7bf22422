"""Attacks on key generation: rogue keys, wrong thresholds, wrong shares, replayed proofs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from mpcsim.attacks.harness import (
    CHEATER,
    HONEST,
    THIRD,
    broken_if_both_done,
    broken_if_done,
    cannot_combine,
    cheating_party,
    crash_if_raised,
    finding_of,
    honest_party,
    point_of_unknown_logarithm,
    run_to_end,
)
from mpcsim.attacks.model import Attack, Effect, Finding
from mpcsim.attacks.research import Build, ResearchBuild, Shape, without
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
from mpcsim.errors import Consequence, InRound, Reason, UsageError
from mpcsim.protocols import dkg
from mpcsim.protocols.dkg import DKG, steps
from mpcsim.protocols.dkg.messages import Commit, Deal, MultiplicationOffer, Reveal
from mpcsim.protocols.engine import Definition, Done, RoundOutput
from mpcsim.protocols.engine.echo import check_echo, echo
from mpcsim.protocols.engine.transcript import transcript_hash
from mpcsim.protocols.key_share import KeyShare
from mpcsim.sim.run.adversary import Adversary, alter_kind, with_round

PAIR, ALL = (HONEST, CHEATER), (HONEST, CHEATER, THIRD)
RETRY = Consequence.RETRY


def honest_dealer(
    build: Build, i: int = HONEST, parties: Any = PAIR, curve: str = "ed25519"
) -> Any:
    """Return an honest party of the build's key generation."""
    return honest_party(build, DKG, dkg.setup(curve, 2, tuple(parties)), i)


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
            opened = self._reveal(
                Reveal(
                    {},
                    kept.coefficients,
                    None,
                    kept.chain_code,
                    kept.channel_key,
                    kept.blinding,
                ),
                to,
            )
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
    honest = honest_dealer(build)
    run_to_end(honest, adversary)
    text = "the honest party holds a share of a key that the cheater chose: y*G = Y"
    chosen = ED25519.base(y)
    return broken_if_done(honest, lambda it: it.public_key == chosen, Effect.CHOSEN_KEY, text)


# ---------------------------------------------------------------------- D2: threshold raise


def padded_public_shares(group: Group, C: Any, holders: Any) -> dict[Any, Point]:
    """Compute ``steps.public_shares`` as many libraries do: add polynomials of any lengths."""
    total = [group.sum(column) for column in zip_longest(*C, fillvalue=group.identity)]
    return {i: evaluate_commitment(total, i) for i in holders}


def threshold_raise(build: Build) -> Finding:
    """Deal one coefficient more than agreed: the sum has degree t, and t shares are too few."""
    extra = ED25519.scalar(99)

    def reveal(message: Reveal, to: int) -> Reveal:
        return replace(message, coefficients=(*message.coefficients, ED25519.base(extra)))

    def share(honest: Scalar, to: int) -> Scalar:
        return honest + extra * ED25519.scalar(to * to)

    lax = without(DKG, Reason.THRESHOLD_MISMATCH)
    honest = {i: honest_dealer(build, i, ALL) for i in (HONEST, THIRD)}
    cheater = Dealer(cheating_dealer(ALL, definition=lax), reveal, share)
    text = "a key of '2 of 3', of which no two honest shares make the key"
    return broken_if_both_done(honest, cheater, cannot_combine, Effect.UNUSABLE, text)


# ---------------------------------------------------------------------- D3: a bad share


def bad_share(build: Build) -> Finding:
    """Deal party 1 the right share plus one."""
    one = ED25519.scalar(1)
    honest = {i: honest_dealer(build, i, ALL) for i in (HONEST, THIRD)}
    bad = alter_kind("Deal", lambda m: replace(m, share=m.share + one), to={HONEST})
    cheater = Adversary(cheating_dealer(ALL), bad)
    text = "both finish, with two shares that do not make the key"
    return broken_if_both_done(honest, cheater, cannot_combine, Effect.UNUSABLE, text)


# ---------------------------------------------------------------------- D4: index zero


def index_zero(build: Build) -> Finding:
    """Ask for the index 0: f(0) is the key itself."""
    parties = (0, 1, 2)
    try:
        agreed = dkg.DkgSetup("ed25519", 2, parties)  # type: ignore[arg-type]
        members = [honest_party(build, DKG, agreed, i) for i in parties]
    except UsageError as error:
        return Finding.refused(str(error))
    run_to_end(*members)
    attacker = members[0].outcome
    if not isinstance(attacker, Done):
        return finding_of(members[0])
    held = attacker.result
    text = "the 'share' of party 0 is the private key: x_0*G = Y"
    return Finding.broken_if(ED25519.base(held.secret_share) == held.public_key, Effect.KEY, text)


def duplicate_index(build: Build) -> Finding:
    """Set up three holders of whom two have the same index, and so the same share."""
    parties = (HONEST, CHEATER, CHEATER)
    try:
        agreed = dkg.DkgSetup("ed25519", 2, parties)
        members = [honest_party(build, DKG, agreed, i) for i in PAIR]
    except UsageError as error:
        return Finding.refused(str(error))
    run_to_end(*members)
    held = members[1].outcome
    if not isinstance(held, Done):
        return finding_of(members[1])
    try:
        lagrange_coefficient(ED25519, CHEATER, parties[1:])
    except UsageError as error:
        text = f"two of the three holders have one share between them: {error}"
        return Finding.broken(Effect.UNUSABLE, text)
    return finding_of(members[1])


# ---------------------------------------------------------------------- D5, P8: proofs


def unbound_challenge(session: bytes, prover: int, Y: Point, R: Point) -> Scalar:
    """Return a challenge that binds neither session nor prover, as in several libraries."""
    return Y.group.hash_to_scalar(Tag.SCHNORR, Y.encode(), R.encode())


def challenge_without_nonce(session: bytes, prover: int, Y: Point, R: Point) -> Scalar:
    """Return a challenge that leaves R out: it is known before R is chosen."""
    return Y.group.hash_to_scalar(Tag.SCHNORR, session, u32(prover), Y.encode())


def borrowed_proof(build: Build) -> Finding:
    """Replay another party's constant term, and the proof it made for it in an earlier session."""
    earlier = [honest_party(build, DKG, dkg.setup("ed25519", 2, PAIR), i, "earlier") for i in PAIR]
    run_to_end(*earlier)
    old = earlier[1].inbox.received(Reveal)[HONEST]
    return _deal_unknown_constant(
        build, old.coefficients[0], lambda sid, C_0: old.proof, "party 1's own proof, replayed"
    )


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

    honest = honest_dealer(build)
    run_to_end(honest, Dealer(inner, reveal, lambda _, to: share))
    text += "; nobody knows the key that came out"
    return broken_if_done(honest, lambda _: True, Effect.NO_KNOWLEDGE, text)


# ---------------------------------------------------------------------- D6: copied commitment


def commit_without_committer(
    session: bytes, committer: int, blinding: bytes, *values: bytes
) -> bytes:
    """Commit without binding the committer (nor the channel key, the last value)."""
    return tagged_hash(Tag.COMMITMENT, session, blinding, *values[:-1])


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
    run_to_end(honest, adversary)
    text = "the 'joint' key is twice party 1's own part: Y = 2*C_1"

    def is_twice_its_own(share: KeyShare) -> bool:
        mine = honest.inbox.own[Reveal][1].coefficients[0]
        return bool(share.public_key == mine + mine)

    return broken_if_done(honest, is_twice_its_own, Effect.BIAS, text)


# ---------------------------------------------------------------------- D7: equivocation


def transcript_of_name_only(view: Any, inbox: Any, kind: Any) -> bytes:
    """Return a hash of the session's name alone, in place of the transcript."""
    return tagged_hash(Tag.SESSION, view.session_id)


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

    adversary = Dealer(inner, reveal, lambda _, to: evaluate(f[to], to))
    honest = {i: honest_dealer(build, i, ALL) for i in (HONEST, THIRD)}
    text = "parties 1 and 3 finish with different public keys"
    return broken_if_both_done(
        honest, adversary, lambda a, b: a.public_key != b.public_key, Effect.SPLIT, text
    )


# ---------------------------------------------------------------------- D8: chain code


def two_chain_codes(build: Build) -> Finding:
    """Reveal one part of the chain code to party 1, another to party 3: they would pay to addresses
    that the other one cannot sign for."""

    def other(message: Reveal) -> Reveal:
        return replace(message, chain_code=bytes(32))

    adversary = Adversary(cheating_dealer(ALL, "secp256k1"), alter_kind("Reveal", other, {THIRD}))
    honest = {i: honest_dealer(build, i, ALL, "secp256k1") for i in (HONEST, THIRD)}
    text = "parties 1 and 3 finish with one key, and different children of it"
    return broken_if_both_done(
        honest,
        adversary,
        lambda a, b: a.record.derive((0,))[0] != b.record.derive((0,))[0],
        Effect.SPLIT,
        text,
        otherwise=THIRD,
    )


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
    honest = honest_dealer(build, curve="secp256k1")
    run_to_end(honest, adversary)
    text = "the chain code begins with the byte it was to have"
    return broken_if_done(honest, lambda it: it.record.chain_code[0] == 0, Effect.BIAS, text)


# ---------------------------------------------------------------------- D9: identity


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
    honest = honest_dealer(build, curve="secp256k1")

    def run_it() -> Finding:
        run_to_end(honest, adversary)
        return finding_of(honest)

    return crash_if_raised(run_it)


ATTACKS = (
    Attack(
        id="D1",
        name="rogue key",
        reference="Sigma Prime on drand (2020); Komlo-Goldberg, eprint 2020/852",
        step="dkg, round 2, Reveal: C_{i,0}",
        check="coefficients are committed to in round 1, and the constant term proven known",
        injection="U: reveals last, y*G less what the other revealed",
        run=rogue_key,
        research=lambda: ResearchBuild(
            without=[Reason.COMMITMENT_OPENING, Reason.PROOF_OF_KNOWLEDGE]
        ),
        expected_on=Finding.aborted(
            Reason.COMMITMENT_OPENING, InRound(3, "deal"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.CHOSEN_KEY),
    ),
    Attack(
        id="D2",
        name="threshold raise",
        reference="Trail of Bits, TOB-SILA-1 and -2; WSTS, issue 87 and pull request 88",
        step="dkg, round 2, Reveal: the length of C_i",
        check="exactly t coefficients, and a proof for the first",
        injection="M: one coefficient more, committed to and dealt by",
        run=threshold_raise,
        research=lambda: ResearchBuild(
            without=[Reason.THRESHOLD_MISMATCH],
            replacing={steps.public_shares: padded_public_shares},
        ),
        expected_on=Finding.aborted(
            Reason.THRESHOLD_MISMATCH, InRound(3, "deal"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.UNUSABLE),
    ),
    Attack(
        id="D3",
        name="a bad share for one party",
        reference="Feldman, FOCS 1987; Pedersen, EUROCRYPT 1991",
        step="dkg, round 3, Deal: f_i(j)",
        check="f_i(j)*G = sum_k j^k * C_{i,k}, or the dealer is named",
        injection="M: share + 1, toward party 1 alone",
        run=bad_share,
        research=lambda: ResearchBuild(without=[Reason.SHARE_INCONSISTENT]),
        expected_on=Finding.aborted(
            Reason.SHARE_INCONSISTENT, InRound(4, "finish"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.UNUSABLE),
    ),
    Attack(
        id="D4a",
        name="an index of zero",
        reference="mpcsec, zero and duplicate indices; tss-lib, NotUniqueXiValues",
        step="dkg, set-up: the parties",
        check="identifiers are 1..65535, distinct and in order; on the wire, too",
        injection="X: parties 0, 1 and 2",
        run=index_zero,
        research=lambda: ResearchBuild(
            shape=Shape(setup_check=False),
            replacing={echo: lambda view, inbox, kind: {}, check_echo: lambda *_: None},
        ),
        expected_on=Finding.refused(),
        expected_off=Finding.broken(Effect.KEY),
    ),
    Attack(
        id="D4b",
        name="one index twice",
        reference="mpcsec, zero and duplicate indices; tss-lib, NotUniqueXiValues",
        step="dkg, set-up: the parties",
        check="identifiers are distinct and in order",
        injection="X: parties 1, 2 and 2",
        run=duplicate_index,
        research=lambda: ResearchBuild(shape=Shape(setup_check=False)),
        expected_on=Finding.refused(),
        expected_off=Finding.broken(Effect.UNUSABLE),
    ),
    Attack(
        id="D5",
        name="a replayed proof of knowledge",
        reference="CVE-2022-47930 (tss-lib, pull request 256)",
        step="dkg, round 2, Reveal: the proof",
        check="the challenge binds session and prover",
        injection="R: another's constant term with its proof of an earlier session",
        run=borrowed_proof,
        research=lambda: ResearchBuild(replacing={schnorr._challenge: unbound_challenge}),
        expected_on=Finding.aborted(
            Reason.PROOF_OF_KNOWLEDGE, InRound(3, "deal"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.NO_KNOWLEDGE),
    ),
    Attack(
        id="D6",
        name="a copied commitment",
        reference="Dolev-Dwork-Naor, STOC 1991 (non-malleability)",
        step="dkg, rounds 1 and 2, Commit and Reveal",
        check="the committer's identifier is inside the commitment and the proof",
        injection="U: repeats party 1's commitment and opening",
        run=copied_commitment,
        research=lambda: ResearchBuild(
            without=[Reason.SHARE_INCONSISTENT],
            replacing={
                commitment.commit: commit_without_committer,
                schnorr._challenge: unbound_challenge,
            },
        ),
        expected_on=Finding.aborted(
            Reason.COMMITMENT_OPENING, InRound(3, "deal"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.BIAS),
    ),
    Attack(
        id="D7",
        name="different polynomials for different receivers",
        reference="The FROST Book, distributed key generation: broadcast channel",
        step="dkg, round 1, Commit, three parties",
        check="round 2 echoes a digest of every Commit; the transcript binds them all",
        injection="E: a polynomial for each receiver, consistent with itself",
        run=two_polynomials,
        research=lambda: ResearchBuild(
            without=[Reason.ECHO_MISMATCH], replacing={transcript_hash: transcript_of_name_only}
        ),
        expected_on=Finding.aborted(Reason.ECHO_MISMATCH, InRound(3, "deal"), suspects={CHEATER}),
        expected_off=Finding.broken(Effect.SPLIT),
    ),
    Attack(
        id="D8a",
        name="different chain codes for different receivers",
        reference="Trail of Bits, TOB-SILA-7",
        step="dkg, round 2, Reveal: c_i, three parties",
        check="c_i is committed to in round 1, and round 2 echoes a digest of every Commit",
        injection="E: another c_i for party 3",
        run=two_chain_codes,
        research=lambda: ResearchBuild(without=[Reason.COMMITMENT_OPENING]),
        expected_on=Finding.aborted(
            Reason.COMMITMENT_OPENING, InRound(3, "deal"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.SPLIT),
    ),
    Attack(
        id="D8b",
        name="a chain code of one's choice",
        reference="Trail of Bits, TOB-SILA-7; Cleve, STOC 1986 (biased coins)",
        step="dkg, round 2, Reveal: c_i",
        check="c_i is committed to in round 1",
        injection="U: reveals last, and tries parts until their hash begins as it likes",
        run=chosen_chain_code,
        research=lambda: ResearchBuild(without=[Reason.COMMITMENT_OPENING]),
        expected_on=Finding.aborted(
            Reason.COMMITMENT_OPENING, InRound(3, "deal"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.BIAS),
    ),
    Attack(
        id="D9",
        name="the identity in a base OT",
        reference="Trail of Bits, TOB-SILA-3 (panics)",
        step="dkg, round 2, MultiplicationOffer: r_0",
        check="a combined point that is the identity aborts; decoders refuse the identity",
        injection="M: r_0 = -H_0(r_1)",
        run=identity_in_base_ot,
        research=lambda: ResearchBuild(without=[Reason.BASE_OT_DEGENERATE]),
        expected_on=Finding.aborted(
            Reason.BASE_OT_DEGENERATE, InRound(3, "deal"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.CRASH),
    ),
    Attack(
        id="P8",
        name="a Fiat-Shamir challenge that leaves a value out",
        reference="tss-lib, pull requests 42 and 43; Bernhard-Pereira-Warinschi, ASIACRYPT 2012",
        step="dkg, round 2, Reveal: the proof",
        check="the challenge hashes every value of the equation that is verified",
        injection="F: R = z*G - e*Y for a Y whose logarithm the cheater does not know",
        run=forged_proof,
        research=lambda: ResearchBuild(replacing={schnorr._challenge: challenge_without_nonce}),
        expected_on=Finding.aborted(
            Reason.PROOF_OF_KNOWLEDGE, InRound(3, "deal"), {CHEATER}, consequence=RETRY
        ),
        expected_off=Finding.broken(Effect.NO_KNOWLEDGE),
    ),
)
