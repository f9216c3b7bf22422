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

from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.harness import (
    ALL,
    BANS,
    CHEATER,
    DIGEST,
    HONEST,
    PAIR,
    THIRD,
    WANTED,
    cheat_one_party,
    cheating_party,
    crash_party,
    find_false_blame,
    finding_of,
    honest_party,
    message_scalar,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import Build, ResearchBuild, Shape, without
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1, Secp256k1Point
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.mta.base import direction_sid
from mpcsim.crypto.mta.ot import COLUMNS, PAD_BLOCKS, OtMta, OtPairSetup, OtReply, challenge, gadget
from mpcsim.crypto.ot import extension as ot_extension
from mpcsim.crypto.ot.extension import SenderSetup
from mpcsim.errors import Aborted, Reason, UsageError, check
from mpcsim.ids import PartyId
from mpcsim.protocols import ecdsa
from mpcsim.protocols.ecdsa import ECDSA, EcdsaSetup, EcdsaSignature, steps
from mpcsim.protocols.ecdsa.messages import Offer, Respond, SignatureShare
from mpcsim.protocols.engine import Definition, Done, Inbox, RoundOutput, View
from mpcsim.protocols.local_run import run
from mpcsim.protocols.sample_keys import keys
from mpcsim.sim.run.adversary import Adversary, alter_kind, with_round


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
    delta = (message_scalar(WANTED) - setup.message_scalar()) * SECP256K1.scalar(R.x()).inverse()
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
    return cheat_one_party(
        honest,
        cheater,
        lambda it: steps.verifies(it, WANTED, honest.setup.share.public_key),
        Effect.FORGERY,
        "the honest signer signed one hash; libsecp256k1 accepts the signature of another, chosen",
        result_of=cheater,
    )


entry("O4a", without=[Reason.GAMMA_V_MISMATCH])(partial(another_key_share, False))
entry("O5", without=[Reason.PUBLIC_KEY_MISMATCH])(partial(another_key_share, True))


@entry("O4b", without=[Reason.GAMMA_U_MISMATCH])
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
    run([honest[HONEST], cheater, honest[THIRD]])
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


@entry("O3", without=[Reason.MULTIPLICATION_CHECK, Reason.GAMMA_U_MISMATCH])
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
            return RoundOutput(result=None)
        return RoundOutput(result=assemble_low_s(w, u - SECP256K1.scalar(e), keep.R, keep.r_x))

    definition = with_round(with_round(ECDSA, 3, respond), 5, recover)
    honest, cheater = honest_signer(build), cheating_signer(definition)
    run([honest, cheater])
    if not isinstance(cheater.outcome, Done) or cheater.outcome.result is None:
        return finding_of(honest)
    return Finding.broken_if(
        steps.verifies(cheater.outcome.result, DIGEST, honest.setup.share.public_key),
        Effect.LEAK,
        f"{PROBES} choice bits of one session, all right: with them the bad signature verifies",
    )


# ---------------------------------------------------------------------- O6: R_i chosen late

BIAS_BITS = 10
BIASED = f"the first {BIAS_BITS} bits of r are zero, as the cheater wanted"


def is_biased(signature: EcdsaSignature) -> bool:
    """Return whether the nonce's x coordinate begins with zero bits, as a cheater wanted it."""
    return signature.r >> 256 - BIAS_BITS == 0


@entry("O6", without=[Reason.COMMITMENT_OPENING])
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

    cheater = cheating_signer(answer_last(ECDSA, respond))
    return cheat_one_party(honest_signer(build), cheater, is_biased, Effect.BIAS, BIASED)


# ---------------------------------------------------------------------- O7: equivocation


@entry("O7", without=[Reason.ECHO_MISMATCH])
def two_faced_commit(build: Build) -> Finding:
    """Send party 3 another nonce: the others' transcripts differ, and so do their OTs."""
    other = alter_kind("Commit", lambda m: replace(m, nonce=bytes(32)), to={THIRD})
    honest = {i: honest_signer(build, i, ALL) for i in (HONEST, THIRD)}
    run([honest[HONEST], Adversary(cheating_signer(ECDSA, ALL), other), honest[THIRD]])
    return find_false_blame(honest, BANS) or finding_of(honest[HONEST])


# ---------------------------------------------------------------------- O13, O14, S7, S9


@entry("O13", without=[Reason.ZERO_DENOMINATOR])
def zero_denominator(build: Build) -> Finding:
    """Speak last, and make sum u_i = 0."""
    adversary = Adversary(cheating_signer(ECDSA), hold={"SignatureShare"})

    def annihilate(message: SignatureShare) -> SignatureShare:
        theirs = adversary.party.inbox.received(SignatureShare)[HONEST]
        return replace(message, u_i=-theirs.u_i)

    adversary.tamper = alter_kind("SignatureShare", annihilate)
    return crash_party(honest_signer(build), adversary)


@entry("O14", shape=Shape(setup_check=False))
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
    return crash_party(honest, twin)


@entry("S7a", without=[Reason.SIGNATURE_INVALID])
def invalid_signature(build: Build) -> Finding:
    """Send a wrong numerator: the signature is invalid."""
    one = SECP256K1.scalar(1)
    wrong = alter_kind("SignatureShare", lambda m: replace(m, w_i=m.w_i + one))
    honest = honest_signer(build)
    return cheat_one_party(
        honest,
        Adversary(cheating_signer(ECDSA), wrong),
        lambda it: not steps.verifies(it, DIGEST, honest.setup.share.public_key),
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


@entry("S9", replacing={steps.assemble: assemble_without_low_s})
def high_s(build: Build) -> Finding:
    """Sign honestly: half of all signatures have s > n/2, and thus a second encoding."""
    shares = keys("secp256k1")
    public_key = shares[HONEST].public_key
    for n in range(8):
        signers = [
            honest_party(build, ECDSA, ecdsa.setup(shares[i], PAIR, DIGEST), i, f"high s {n}")
            for i in PAIR
        ]
        run(signers)
        if not isinstance(signers[0].outcome, Done):
            return finding_of(signers[0])
        high = signers[0].outcome.result
        low = replace(high, s=ORDER - high.s, recovery_id=high.recovery_id ^ 1)
        both = all(steps.verifies(s, DIGEST, public_key) for s in (high, low))
        if both and high.s > ORDER // 2:
            text = "released with s > n/2: whoever sees it can make the other, low one out of it"
            return Finding.broken(Effect.MALLEABLE, text)
    return Finding.harmless("eight signatures, all with s <= n/2")
