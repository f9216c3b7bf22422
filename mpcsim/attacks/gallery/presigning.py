"""Attacks on presignatures: reuse, a message chosen after the nonce, a steered re-randomisation.

The honest party is 1. Where it answers, the cheater finishes, and may choose message and rho; where
it finishes, the cheater answers.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from mpcsim.attacks.gallery.signing import BIAS_BITS, scalar
from mpcsim.attacks.harness import (
    CHEATER,
    DIGEST,
    HONEST,
    WANTED,
    cheating_party,
    finding_of,
    honest_party,
    run_to_end,
    solve_linear,
)
from mpcsim.attacks.model import Attack, Effect, Finding
from mpcsim.attacks.research import USE_ONCE, Build, ForgetfulUse, ResearchBuild
from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1, Secp256k1Point
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.errors import InRound, Reason, UsageError
from mpcsim.protocols import presigned
from mpcsim.protocols.ecdsa import EcdsaSignature
from mpcsim.protocols.ecdsa.steps import verifies
from mpcsim.protocols.engine import Done, RoundOutput
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presigned import PRESIGNED, PresignedSetup, steps
from mpcsim.protocols.presigned.messages import Answer
from mpcsim.protocols.presigned.rounds import Finished
from mpcsim.protocols.sample_keys import keys, presignatures
from mpcsim.sim.run.adversary import with_round

PAIR = (HONEST, CHEATER)
RHO = tagged_hash(Tag.CONTEXT, b"fresh")


def presignature_of(i: int) -> Presignature:
    """Return party i's part of a presignature of the two."""
    return presignatures(2, 3, PAIR)[i][0]


def setup(i: int, finisher: int, digest: bytes = DIGEST, of: Presignature | None = None) -> Any:
    """Party i's set-up; by default with a part that nobody has used."""
    share = keys("secp256k1")[i]
    return presigned.setup(share, presignature_of(i) if of is None else of, finisher, digest, RHO)


def signature_of(finisher: Any) -> EcdsaSignature | None:
    """Return the signature of the party that finishes, if it is done."""
    outcome = finisher.outcome
    return outcome.result if isinstance(outcome, Done) else None


# ---------------------------------------------------------------------- S1: used twice


def reused_presignature(build: Build) -> Finding:
    """Ask for two messages with one presignature: s (k + delta) = m + r x, up to the sign of s."""
    mine = presignature_of(HONEST)
    if not build.fulfils(USE_ONCE):
        mine = replace(mine, use=ForgetfulUse())
    rows = []
    for digest in (DIGEST, WANTED):
        finisher = cheating_party(PRESIGNED, setup(CHEATER, CHEATER, digest))
        try:
            agreed = setup(HONEST, CHEATER, digest, mine)
            run_to_end(honest_party(build, PRESIGNED, agreed, HONEST), finisher)
        except UsageError as error:
            return Finding.refused(str(error))
        found = signature_of(finisher)
        if found is None:
            return finding_of(finisher)
        opened = {HONEST: finisher.inbox.received(Answer)[HONEST].rho_i}
        delta, Y = steps.shift(finisher.setup.request(), opened), finisher.setup.public_key
        rows.append((SECP256K1.scalar(found.s), SECP256K1.scalar(found.r), delta, scalar(digest)))
    for signs in product((1, -1), repeat=2):
        signed = [
            (SECP256K1.scalar(sign) * s, r, d, m)
            for sign, (s, r, d, m) in zip(signs, rows, strict=True)
        ]
        if SECP256K1.base(solve_linear([[s, -r, m - s * d] for s, r, d, m in signed])[1]) == Y:
            return Finding.broken(
                Effect.KEY, "the key from two signatures with one presignature: x*G = Y"
            )
    return Finding.harmless()


# ---------------------------------------------------------------------- S3: chosen after R


def message_chosen_after_nonce(build: Build) -> Finding:
    """Turn a signature of h = r h* / x(2 R), which any caller that sends hashes can get, into one
    of h*."""
    R, two = presignature_of(CHEATER).R, SECP256K1.scalar(2)
    doubled = two * R
    assert isinstance(doubled, Secp256k1Point)
    r, r_2 = SECP256K1.scalar(R.x()), SECP256K1.scalar(doubled.x())
    h = r * scalar(WANTED) * r_2.inverse()
    honest, finisher = (
        honest_party(build, PRESIGNED, setup(i, CHEATER, h.encode()), i) for i in (HONEST, CHEATER)
    )
    run_to_end(honest, finisher)
    found = signature_of(finisher)
    if found is None:
        return finding_of(finisher)
    s = (SECP256K1.scalar(found.s) * r_2 * (r * two).inverse()).n
    made = (EcdsaSignature(r_2.n, low, v) for low in (s, ORDER - s) for v in (0, 1))
    return Finding.broken_if(
        any(verifies(each, WANTED, finisher.setup.public_key) for each in made),
        Effect.FORGERY,
        "signed was one hash; libsecp256k1 accepts the signature of another, made out of it",
    )


def steered_nonce(build: Build) -> Finding:
    """Wait for message and rho of the signer that finishes, then try rho_2 until R' is biased."""

    def answer(original: object, view: Any, keep: Any, inbox: Any) -> RoundOutput:
        agreed: PresignedSetup = view.setup
        mine = agreed.presignature
        rho, delta, R, r_x = mine.rho_i, *shifted_nonce(agreed, mine.rho_i)
        while R.x() >> 256 - BIAS_BITS:
            rho = tagged_hash(Tag.CONTEXT, rho)
            delta, R, r_x = shifted_nonce(agreed, rho)
        w_2, u_2 = steps.signature_share(mine, scalar(agreed.message_hash), r_x, delta, agreed.tau)
        sent = Answer(agreed.request(), w_2, u_2, rho, mine.blinding)
        return RoundOutput(keep=Finished(R, r_x), broadcast=sent)

    honest = honest_party(build, PRESIGNED, setup(HONEST, HONEST), HONEST)
    run_to_end(honest, cheating_party(with_round(PRESIGNED, 2, answer), setup(CHEATER, HONEST)))
    found = signature_of(honest)
    if found is None:
        return finding_of(honest)
    text = f"the first {BIAS_BITS} bits of r are zero, as the cheater wanted"
    return Finding.broken_if(found.r >> 256 - BIAS_BITS == 0, Effect.BIAS, text)


def shifted_nonce(agreed: PresignedSetup, rho: bytes) -> tuple[Scalar, Secp256k1Point, Scalar]:
    """Return delta, R' and r'_x if party 2 opens this rho."""
    delta = steps.shift(agreed.request(), {CHEATER: rho})
    return delta, *steps.rerandomise(agreed.presignature.R, delta)


def zero_shift(*_: object) -> Scalar:
    """Return zero in place of ``steps.shift``: the nonce is not moved."""
    return SECP256K1.scalar(0)


ATTACKS = (
    Attack(
        id="S1c",
        name="a presignature used twice",
        reference="mpcsec, presignature reuse; Blockdaemon's documentation",
        step="presigned, round 2, Answer",
        check="a presignature is marked as used before anything is sent",
        injection="X: the one who finishes asks for two messages with one presignature",
        run=reused_presignature,
        research=lambda: ResearchBuild(neglecting=[USE_ONCE]),
        expected_on=Finding.refused(),
        expected_off=Finding.broken(Effect.KEY),
    ),
    Attack(
        id="S3a",
        name="a message chosen after the nonce point",
        reference="Groth-Shoup, eprint 2021/1330, on presignatures and raw hashes",
        step="presigned, set-up: the message hash",
        check="R is moved by a hash of the message and of what nobody could know before",
        injection="X: asks for the hash r h* / x(2 R)",
        run=message_chosen_after_nonce,
        research=lambda: ResearchBuild(replacing={steps.shift: zero_shift}),
        expected_on=Finding.harmless(),
        expected_off=Finding.broken(Effect.FORGERY),
    ),
    Attack(
        id="S3b",
        name="re-randomisation steered by one signer",
        reference="Groth-Shoup, eprint 2021/1330: delta is to be unpredictable",
        step="presigned, round 2, Answer: rho_i",
        check="rho_i opens the commitment of presigning",
        injection="U, F: tries rho_2 until R' suits it",
        run=steered_nonce,
        research=lambda: ResearchBuild(without=[Reason.COMMITMENT_OPENING]),
        expected_on=Finding.aborted(Reason.COMMITMENT_OPENING, InRound(3, "finish"), {CHEATER}),
        expected_off=Finding.broken(Effect.BIAS),
    ),
)
