"""Attacks on threshold ECDSA by a signer: wrong inputs to the multiplication, late or wrong
messages.

The strongest ones share a pattern. The cheater waits for its peer's ``Respond``, which opens the
peer's nonce share, and only then decides what it puts into the multiplication itself. If it gets
away with sk_2 + delta in place of sk_2, the parties compute

    s = (m + r (x + delta)) / k = (m + r delta + r x) / k,

a signature on m + r*delta. So delta = (m' - m) / r gives a signature on any m' it wants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from mpcsim.attacks.harness import (
    CHEATER,
    DIGEST,
    HONEST,
    THIRD,
    WANTED,
    broken_if_done,
    cheating_party,
    crash_if_raised,
    finding_of,
    honest_party,
    run_to_end,
)
from mpcsim.attacks.model import Attack, Effect, Finding
from mpcsim.attacks.research import Build, ResearchBuild, Shape, without
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1, Secp256k1Point
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.mta.base import direction_sid
from mpcsim.crypto.mta.ot import COLUMNS, PAD_BLOCKS, OtMta, OtPairSetup, OtReply, challenge, gadget
from mpcsim.crypto.ot import extension as ot_extension
from mpcsim.crypto.ot.extension import SenderSetup
from mpcsim.errors import Aborted, InRound, Reason, UsageError, check
from mpcsim.ids import PartyId
from mpcsim.protocols import ecdsa
from mpcsim.protocols.ecdsa import ECDSA, EcdsaSetup, EcdsaSignature, steps
from mpcsim.protocols.ecdsa.messages import Offer, Respond, SignatureShare
from mpcsim.protocols.engine import Definition, Done, Inbox, RoundOutput, View
from mpcsim.protocols.sample_keys import keys
from mpcsim.sim.run.adversary import Adversary, alter_kind, with_round

PAIR = (HONEST, CHEATER)
ALL = (HONEST, CHEATER, THIRD)


def scalar(digest: bytes) -> Scalar:
    """Return a hash as the scalar that is signed."""
    return SECP256K1.scalar(int.from_bytes(digest, "big"))


def answer_last(
    definition: Definition[Any, Any], respond: Callable[..., RoundOutput]
) -> Definition[Any, Any]:
    """Return the protocol of a cheater that runs round 3 after it has all other answers."""
    rounds = list(definition.rounds)
    rounds[2] = replace(rounds[2], needs=(Offer, Respond), run=partial(respond, rounds[2].run))
    return replace(definition, rounds=tuple(rounds))


def assemble_low_s(w: Scalar, u: Scalar, R: Secp256k1Point, r_x: Scalar) -> EcdsaSignature:
    """Return the signature with s = w / u, made low."""
    s, recovery_id = (w * u.inverse()).n, int(R.y_is_odd()) | (R.x() >= ORDER) << 1
    if s > ORDER // 2:
        s, recovery_id = ORDER - s, recovery_id ^ 1
    return EcdsaSignature(r_x.n, s, recovery_id)


def assemble_unchecked(original: object, view: Any, keep: Any, inbox: Inbox) -> RoundOutput:
    """Run round 5 as a cheater: assemble the signature unchecked."""
    shares = inbox.everyone(SignatureShare).values()
    zero = SECP256K1.scalar(0)
    w, u = sum((m.w_i for m in shares), zero), sum((m.u_i for m in shares), zero)
    return RoundOutput(result=assemble_low_s(w, u, keep.R, keep.r_x))


def honest_signer(build: Build, i: int = HONEST, signers: Sequence[int] = PAIR) -> Any:
    """Return an honest signer of the build."""
    shares = keys("secp256k1")
    return honest_party(build, ECDSA, ecdsa.setup(shares[i], tuple(signers), DIGEST), i)


def cheating_signer(definition: Definition[Any, Any], signers: Sequence[int] = PAIR) -> Any:
    """Return the cheater, with whatever definition it likes."""
    shares = keys("secp256k1")
    return cheating_party(definition, ecdsa.setup(shares[CHEATER], tuple(signers), DIGEST), CHEATER)


# ---------------------------------------------------------------------- O4, O5: another key share


def multiply_shifted_key(
    publish: bool, original: Callable[..., RoundOutput], view: Any, keep: Any, inbox: Any
) -> RoundOutput:
    """Multiply sk_2 + delta in; publish the pk_2 that fits it, or the true one."""
    setup, theirs = view.setup, inbox.received(Respond)[HONEST]
    R = cast(Secp256k1Point, keep.committed.R_i + theirs.R_i)
    delta = (scalar(WANTED) - setup.message_scalar()) * SECP256K1.scalar(R.x()).inverse()
    weight = lagrange_coefficient(SECP256K1, CHEATER, setup.signers)
    x = setup.share.secret_share + delta * weight.inverse()
    other = replace(setup, share=replace(setup.share, secret_share=x))
    output = original(replace(view, setup=other), keep, inbox)
    if publish:
        return output
    true_pk = output.keep.pk_i - SECP256K1.base(delta)
    direct = {j: replace(cast(Respond, m), pk_i=true_pk) for j, m in output.direct.items()}
    return replace(output, keep=replace(output.keep, pk_i=true_pk), direct=direct)


def another_key_share(publish: bool, build: Build) -> Finding:
    """Sign with another key share, and turn the result into a signature of another hash."""
    own = without(ECDSA, Reason.PUBLIC_KEY_MISMATCH)  # it does not check itself
    definition = with_round(
        answer_last(own, partial(multiply_shifted_key, publish)), 5, assemble_unchecked
    )
    honest, cheater = honest_signer(build), cheating_signer(definition)
    run_to_end(honest, cheater)
    if not isinstance(cheater.outcome, Done):
        return finding_of(honest)
    public_key = honest.setup.share.public_key
    return Finding.broken_if(
        steps.verifies(cheater.outcome.result, WANTED, public_key),
        Effect.FORGERY,
        "the honest signer signed one hash; libsecp256k1 accepts the signature of another, chosen",
    )


def other_nonce_toward_one(build: Build) -> Finding:
    """Multiply r_2 + 1 with party 3's chi, and r_2 with party 1's."""

    def respond(
        original: Callable[..., RoundOutput], view: Any, keep: Any, inbox: Any
    ) -> RoundOutput:
        one, first = SECP256K1.scalar(1), keep.committed
        true = original(view, keep, inbox)
        moved = replace(keep, committed=replace(first, r_i=first.r_i + one))
        false = original(view, moved, inbox).direct[THIRD]
        return replace(true, direct={**true.direct, THIRD: false})

    cheater = Adversary(cheating_signer(with_round(ECDSA, 3, respond), ALL))
    honest = {i: honest_signer(build, i, ALL) for i in (HONEST, THIRD)}
    run_to_end(honest[HONEST], cheater, honest[THIRD])
    outcome = honest[THIRD].outcome
    if isinstance(outcome, Aborted) and outcome.reason is Reason.SIGNATURE_INVALID:
        text = "the signature does not verify; each honest signer suspects the other as well"
        return Finding.broken_if(not outcome.culprits, Effect.NOBODY_NAMED, text)
    return Finding.of_outcome(outcome)


# ------------------------------------------------------------------ O3: inconsistent corrections

PROBES = 24
"""Number of OTs at which the cheater's input differs: bits of beta to learn in one session."""


def probe_choice_bits(respond: Respond, view: View[EcdsaSetup], keep: Any, offer: Offer) -> Respond:
    """Add delta_j = 2^j / g_j to a_1 at the first OTs, and make eta and mu anew.

    The receiver's d_1 is then off by sum_j beta_j 2^j, a number whose bits are its choices.
    """
    mta = cast(OtMta, view.setup.mta)
    kernel, xi = mta.kernel, mta.parameters.xi
    pair = cast(OtPairSetup, view.setup.multiplication(HONEST))
    sid = direction_sid(keep.transcript, sender=CHEATER, receiver=HONEST)
    pads = ot_extension.sender(
        kernel,
        SenderSetup(mta.parameters.k, pair.delta, pair.punctured),
        sid,
        cast(Any, offer.offer),
        xi,
        PAD_BLOCKS,
    )
    reply = cast(OtReply, respond.reply)
    g, column = gadget(kernel, sid, xi).encode(), bytearray(reply.a[0].encode())
    for j in range(PROBES):
        at = slice(32 * j, 32 * j + 32)
        g_j = SECP256K1.scalar(int.from_bytes(g[at], "little"))
        error = SECP256K1.scalar(1 << j) * g_j.inverse()
        moved = SECP256K1.scalar(int.from_bytes(column[at], "little")) + error
        column[at] = moved.n.to_bytes(32, "little")
    a = (kernel.decode(bytes(column), ORDER), *reply.a[1:])
    # eta = a^ + sum theta_i a_i; the inputs themselves stay, the weights change with a~.
    inputs = (keep.committed.r_i, _session_key_share(view, keep))
    before, after = (challenge(sid, kernel.join(rows)) for rows in (reply.a, a))
    eta = reply.eta
    for old, new, a_i in zip(before, after, inputs, strict=True):
        eta = eta + SECP256K1.scalar(new - old) * a_i
    checked = kernel.combine((*after, 1), kernel.split(pads[0], COLUMNS, ORDER))
    mu = tagged_hash(Tag.MTA_MU, sid, checked.encode())
    return replace(respond, reply=OtReply(a, eta, mu))


def _session_key_share(view: View[EcdsaSetup], keep: Any) -> Scalar:
    setup = view.setup
    seeds: dict[int, bytes] = {j: setup.share.peers[j].zero_seed for j in view.others()}
    x_2 = setup.share.secret_share
    return steps.session_key_share(x_2, view.me, setup.signers, seeds, keep.transcript)


def bits_of_beta(W: Point, Q: Point, u: Scalar) -> int | None:
    """Return e < 2^PROBES with (u - e) * Q = W, by baby steps and giant steps."""
    half = 1 << PROBES // 2
    giant = -(SECP256K1.scalar(half) * Q)
    baby, point = {}, cast(Point, SECP256K1.identity)
    for k in range(half):
        baby[b"" if point.is_identity else point.encode()] = k
        point = point + Q
    target = u * Q - W
    for k in range(half):
        found = baby.get(b"" if target.is_identity else target.encode())
        if found is not None:
            return k * half + found
        target = target + giant
    return None


def inconsistent_corrections(build: Build) -> Finding:
    """Probe choice bits, and read them off the bad signature."""

    def respond(
        original: Callable[..., RoundOutput], view: Any, keep: Any, inbox: Any
    ) -> RoundOutput:
        output = original(view, keep, inbox)
        offer = inbox.received(Offer)[HONEST]
        made = probe_choice_bits(cast(Respond, output.direct[HONEST]), view, keep, offer)
        return replace(output, direct={HONEST: made})

    def recover(original: object, view: Any, keep: Any, inbox: Any) -> RoundOutput:
        shares = inbox.everyone(SignatureShare).values()
        zero = SECP256K1.scalar(0)
        w, u = sum((m.w_i for m in shares), zero), sum((m.u_i for m in shares), zero)
        # w * R = (u - e) * (m*G + r*Y) with the true denominator u - e
        Y = view.setup.share.public_key
        Q = SECP256K1.base(view.setup.message_scalar()) + keep.r_x * Y
        e = bits_of_beta(w * keep.R, Q, u)
        if e is None:
            return RoundOutput()
        return RoundOutput(result=assemble_low_s(w, u - SECP256K1.scalar(e), keep.R, keep.r_x))

    definition = with_round(with_round(ECDSA, 3, respond), 5, recover)
    honest, cheater = honest_signer(build), cheating_signer(definition)
    run_to_end(honest, cheater)
    if not isinstance(cheater.outcome, Done) or cheater.outcome.result is None:
        return finding_of(honest)
    return Finding.broken_if(
        steps.verifies(cheater.outcome.result, DIGEST, honest.setup.share.public_key),
        Effect.LEAK,
        f"{PROBES} choice bits of one session, all right: with them the bad signature verifies",
    )


# ---------------------------------------------------------------------- O6: R_i chosen late

BIAS_BITS = 10


def chosen_nonce(build: Build) -> Finding:
    """Wait for R_1, then try nonce shares until the x coordinate of R is biased."""

    def respond(
        original: Callable[..., RoundOutput], view: Any, keep: Any, inbox: Any
    ) -> RoundOutput:
        theirs, one = inbox.received(Respond)[HONEST].R_i, SECP256K1.scalar(1)
        r_2, R_2 = keep.committed.r_i, keep.committed.R_i
        while cast(Secp256k1Point, R_2 + theirs).x() >> 256 - BIAS_BITS:
            r_2, R_2 = r_2 + one, R_2 + SECP256K1.base(one)
        return original(
            view, replace(keep, committed=replace(keep.committed, r_i=r_2, R_i=R_2)), inbox
        )

    honest = honest_signer(build)
    run_to_end(honest, cheating_signer(answer_last(ECDSA, respond)))
    text = f"the first {BIAS_BITS} bits of r are zero, as the cheater wanted"
    return broken_if_done(honest, lambda it: it.r >> 256 - BIAS_BITS == 0, Effect.BIAS, text)


# ---------------------------------------------------------------------- O7: equivocation


def two_faced_commit(build: Build) -> Finding:
    """Send party 3 another nonce: the others' transcripts differ, and so do their OTs."""
    other = alter_kind("Commit", lambda m: replace(m, nonce=bytes(32)), to={THIRD})
    honest = {i: honest_signer(build, i, ALL) for i in (HONEST, THIRD)}
    run_to_end(honest[HONEST], Adversary(cheating_signer(ECDSA, ALL), other), honest[THIRD])
    for i, j in ((HONEST, THIRD), (THIRD, HONEST)):
        outcome = honest[i].outcome
        if isinstance(outcome, Aborted) and j in outcome.culprits:
            text = f"party {i} bans the honest party {j}: {outcome.reason.text}"
            return Finding.broken(Effect.HONEST_BLAMED, text)
    return finding_of(honest[HONEST])


# ---------------------------------------------------------------------- O13, O14, S7, S9


def zero_denominator(build: Build) -> Finding:
    """Speak last, and make sum u_i = 0."""
    adversary = Adversary(cheating_signer(ECDSA), hold={"SignatureShare"})

    def annihilate(message: SignatureShare) -> SignatureShare:
        theirs = adversary.party.inbox.received(SignatureShare)[HONEST]
        return replace(message, u_i=-theirs.u_i)

    adversary.tamper = alter_kind("SignatureShare", annihilate)
    honest = honest_signer(build)

    def run_it() -> Finding:
        run_to_end(honest, adversary)
        return finding_of(honest)

    return crash_if_raised(run_it)


def duplicate_signers(build: Build) -> Finding:
    """List party 2 twice among the signers: it counts twice, or there is a division by i - i."""
    share = keys("secp256k1")[HONEST]
    signers = (HONEST, CHEATER, CHEATER)
    try:
        honest = honest_party(build, ECDSA, EcdsaSetup(share, signers, DIGEST), HONEST)
    except UsageError as error:
        return Finding.refused(str(error))
    twin = Adversary(
        cheating_party(
            ResearchBuild(shape=Shape(setup_check=False)).definition(ECDSA),
            EcdsaSetup(keys("secp256k1")[CHEATER], signers, DIGEST),
        )
    )

    def run_it() -> Finding:
        run_to_end(honest, twin)
        return finding_of(honest)

    return crash_if_raised(run_it)


def invalid_signature(build: Build) -> Finding:
    """Send a wrong numerator: the signature is invalid."""
    one = SECP256K1.scalar(1)
    wrong = alter_kind("SignatureShare", lambda m: replace(m, w_i=m.w_i + one))
    honest = honest_signer(build)
    run_to_end(honest, Adversary(cheating_signer(ECDSA), wrong))
    public_key = honest.setup.share.public_key
    return broken_if_done(
        honest,
        lambda it: not steps.verifies(it, DIGEST, public_key),
        Effect.BAD_OUTPUT,
        "released, and libsecp256k1 refuses it",
    )


def assemble_without_low_s(
    message_hash: bytes,
    pk: Point,
    R: Secp256k1Point,
    r_x: Scalar,
    shares: Any,
    suspects: Sequence[PartyId],
) -> EcdsaSignature:
    """Run ``steps.assemble`` without the choice of the low s."""
    w, u = (sum(column, SECP256K1.scalar(0)) for column in zip(*shares, strict=True))
    s = (w * u.inverse()).n
    signature = EcdsaSignature(r_x.n, s, int(R.y_is_odd()) | (R.x() >= ORDER) << 1)
    recovered = assemble_low_s(w, u, R, r_x)
    check(steps.verifies(recovered, message_hash, pk), Reason.SIGNATURE_INVALID)
    return signature


def high_s(build: Build) -> Finding:
    """Sign honestly: half of all signatures have s > n/2, and thus a second encoding."""
    shares = keys("secp256k1")
    public_key = shares[HONEST].public_key
    for n in range(8):
        signers = [
            honest_party(build, ECDSA, ecdsa.setup(shares[i], PAIR, DIGEST), i, f"high s {n}")
            for i in PAIR
        ]
        run_to_end(*signers)
        if not isinstance(signers[0].outcome, Done):
            return finding_of(signers[0])
        high = signers[0].outcome.result
        low = replace(high, s=ORDER - high.s, recovery_id=high.recovery_id ^ 1)
        both = all(steps.verifies(s, DIGEST, public_key) for s in (high, low))
        if both and high.s > ORDER // 2:
            text = "released with s > n/2: whoever sees it can make the other, low one out of it"
            return Finding.broken(Effect.MALLEABLE, text)
    return Finding.harmless("eight signatures, all with s <= n/2")


ATTACKS = (
    Attack(
        id="O3",
        name="inconsistent corrections in the multiplication",
        reference="DKLs23 (eprint 2023/765), Protocol 5.2; Doerner et al., eprint 2018/499",
        step="ecdsa, round 3, Respond: (a~, eta, mu)",
        check="mu, the hash of the combined columns; behind it the Gamma checks",
        injection=f"F: another input at {PROBES} of the OTs, eta and mu made to fit",
        run=inconsistent_corrections,
        research=lambda: ResearchBuild(
            without=[Reason.MULTIPLICATION_CHECK, Reason.GAMMA_U_MISMATCH]
        ),
        expected_on=Finding.aborted(Reason.MULTIPLICATION_CHECK, InRound(4, "share"), {CHEATER}),
        expected_off=Finding.broken(Effect.LEAK),
    ),
    Attack(
        id="O4a",
        name="another key share in the multiplication than the published one",
        reference=(
            "DKLs23, Protocol 3.6, step 8; 0xCarbon, test_sign_phase3_bans_on_inconsistent_gamma_u"
        ),
        step="ecdsa, round 3, Respond: a~ against (pk_i, Gamma^v)",
        check="chi * pk_j = d^v * G + Gamma^v",
        injection="U, F: waits for R_1, then multiplies sk_2 + (m' - m)/r",
        run=partial(another_key_share, False),
        research=lambda: ResearchBuild(without=[Reason.GAMMA_V_MISMATCH]),
        expected_on=Finding.aborted(Reason.GAMMA_V_MISMATCH, InRound(4, "share"), {CHEATER}),
        expected_off=Finding.broken(Effect.FORGERY),
    ),
    Attack(
        id="O4b",
        name="another nonce share toward one of the peers",
        reference="DKLs23, Protocol 3.6, step 8",
        step="ecdsa, round 3, Respond: a~ against (R_i, Gamma^u), three signers",
        check="chi * R_j = d^u * G + Gamma^u",
        injection="E, F: r_2 + 1 toward party 3 alone",
        run=other_nonce_toward_one,
        research=lambda: ResearchBuild(without=[Reason.GAMMA_U_MISMATCH]),
        expected_on=Finding.aborted(Reason.GAMMA_U_MISMATCH, InRound(4, "share"), {CHEATER}),
        expected_off=Finding.broken(Effect.NOBODY_NAMED),
    ),
    Attack(
        id="O5",
        name="signing with a share of another key",
        reference="DKLs23, Protocol 3.6, step 8, consistency check on the key",
        step="ecdsa, round 3, Respond: pk_i",
        check="sum_j pk_j = Y",
        injection="U, F: as O4a, and publishes the pk_2 that fits",
        run=partial(another_key_share, True),
        research=lambda: ResearchBuild(without=[Reason.PUBLIC_KEY_MISMATCH]),
        expected_on=Finding.aborted(
            Reason.PUBLIC_KEY_MISMATCH, InRound(4, "share"), {CHEATER}, {CHEATER}
        ),
        expected_off=Finding.broken(Effect.FORGERY),
    ),
    Attack(
        id="O6",
        name="a nonce share that was not committed to",
        reference="DKLs23, Protocol 3.6, steps 5 and 8",
        step="ecdsa, round 3, Respond: R_i",
        check="R_i opens the commitment of round 1",
        injection="U, F: tries nonce shares until R suits it",
        run=chosen_nonce,
        research=lambda: ResearchBuild(without=[Reason.COMMITMENT_OPENING]),
        expected_on=Finding.aborted(Reason.COMMITMENT_OPENING, InRound(4, "share"), {CHEATER}),
        expected_off=Finding.broken(Effect.BIAS),
    ),
    Attack(
        id="O7",
        name="two first messages in one session",
        reference="Trail of Bits, TOB-SILA-8; DKLs23, Protocol 3.6",
        step="ecdsa, round 1, Commit, three signers",
        check="round 2 carries a digest of everyone's round 1, compared before anything else",
        injection="E: another nonce toward party 3",
        run=two_faced_commit,
        research=lambda: ResearchBuild(without=[Reason.ECHO_MISMATCH]),
        expected_on=Finding.aborted(
            Reason.ECHO_MISMATCH, InRound(3, "respond"), suspects={CHEATER, THIRD}
        ),
        expected_off=Finding.broken(Effect.HONEST_BLAMED),
    ),
    Attack(
        id="O13",
        name="a denominator of zero",
        reference="sl-crypto dsg.rs (unwrap of an inverse); 0xCarbon, ZeroDenominator",
        step="ecdsa, round 4, SignatureShare: u_i",
        check="sum u_i = 0 aborts",
        injection="U, M: u_2 = -u_1",
        run=zero_denominator,
        research=lambda: ResearchBuild(without=[Reason.ZERO_DENOMINATOR]),
        expected_on=Finding.aborted(
            Reason.ZERO_DENOMINATOR, InRound(5, "assemble"), {CHEATER}, {CHEATER}
        ),
        expected_off=Finding.broken(Effect.CRASH),
    ),
    Attack(
        id="O14",
        name="one signer counted twice",
        reference="dkls23 dsg.rs compares (index, id) pairs; mpcsec, duplicate indices",
        step="ecdsa, set-up: the signers",
        check="identifiers are distinct, in order, and those of holders",
        injection="X: the list of signers names party 2 twice",
        run=duplicate_signers,
        research=lambda: ResearchBuild(shape=Shape(setup_check=False)),
        expected_on=Finding.refused(),
        expected_off=Finding.broken(Effect.CRASH),
    ),
    Attack(
        id="S7a",
        name="an ECDSA signature released without verification",
        reference="DKLs23, Protocol 3.6, step 10",
        step="ecdsa, round 4, SignatureShare: w_i",
        check="libsecp256k1 recovers the public key from the signature before it is released",
        injection="M: w_2 + 1",
        run=invalid_signature,
        research=lambda: ResearchBuild(without=[Reason.SIGNATURE_INVALID]),
        expected_on=Finding.aborted(
            Reason.SIGNATURE_INVALID, InRound(5, "assemble"), {CHEATER}, {CHEATER}
        ),
        expected_off=Finding.broken(Effect.BAD_OUTPUT),
        also=("P10",),
    ),
    Attack(
        id="S9",
        name="high s",
        reference="BIP 62 and BIP 146; EIP-2",
        step="ecdsa, round 5: the signature",
        check="of s and n - s the low one is released, with its recovery id",
        injection="X: none needed, half of all signatures are affected",
        run=high_s,
        research=lambda: ResearchBuild(replacing={steps.assemble: assemble_without_low_s}),
        expected_on=Finding.harmless(),
        expected_off=Finding.broken(Effect.MALLEABLE),
    ),
)
