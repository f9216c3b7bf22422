"""Attacks on presignatures: reuse, a message chosen after the nonce, a steered re-randomisation.

The honest party is 1. Where it answers, the cheater finishes, and may choose message and rho; where
it finishes, the cheater answers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.gallery.signing import BIAS_BITS, BIASED, is_biased
from mpcsim.attacks.harness import (
    CHEATER,
    DIGEST,
    HONEST,
    PAIR,
    WANTED,
    can_recover_key,
    cheat_one_party,
    cheating_party,
    finding_of,
    honest_party,
    message_scalar,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import USE_ONCE, Build, ForgetfulUse
from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1, Secp256k1Point
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.errors import Reason, UsageError
from mpcsim.protocols import presigned
from mpcsim.protocols.ecdsa import EcdsaSignature
from mpcsim.protocols.ecdsa.steps import verifies
from mpcsim.protocols.engine import Done, RoundOutput
from mpcsim.protocols.local_run import run
from mpcsim.protocols.presign import Presignature
from mpcsim.protocols.presigned import PRESIGNED, PresignedSetup, steps
from mpcsim.protocols.presigned.messages import Answer
from mpcsim.protocols.presigned.rounds import Finished
from mpcsim.protocols.sample_keys import keys, presignatures
from mpcsim.sim.run.adversary import with_round

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


@entry("S1c", neglecting=[USE_ONCE])
def reused_presignature(build: Build) -> Finding:
    """Ask for two messages with one presignature: s (k + delta) = m + r x, up to the sign of s."""
    mine = presignature_of(HONEST)
    if not build.fulfils(USE_ONCE):
        mine = replace(mine, use=ForgetfulUse())
    signatures = []
    for digest in (DIGEST, WANTED):
        finisher = cheating_party(PRESIGNED, setup(CHEATER, CHEATER, digest))
        try:
            agreed = setup(HONEST, CHEATER, digest, mine)
            run([honest_party(build, PRESIGNED, agreed, HONEST), finisher])
        except UsageError as error:
            return Finding.refused(str(error))
        found = signature_of(finisher)
        if found is None:
            return finding_of(finisher)
        opened = {HONEST: finisher.inbox.received(Answer)[HONEST].rho_i}
        delta, Y = steps.shift(finisher.setup.request(), opened), finisher.setup.public_key
        s, r = SECP256K1.scalar(found.s), SECP256K1.scalar(found.r)
        signatures.append((s, r, delta, message_scalar(digest)))
    text = "the key from two signatures with one presignature: x*G = Y"
    return Finding.broken_if(can_recover_key(Y, signatures), Effect.KEY, text)


# ---------------------------------------------------------------------- S3: chosen after R


def zero_shift(*_: object) -> Scalar:
    """Return zero in place of ``steps.shift``: the nonce is not moved."""
    return SECP256K1.scalar(0)


@entry("S3a", replacing={steps.shift: zero_shift})
def message_chosen_after_nonce(build: Build) -> Finding:
    """Turn a signature of h = r h* / x(2 R), which any caller that sends hashes can get, into one
    of h*."""
    R, two = presignature_of(CHEATER).R, SECP256K1.scalar(2)
    doubled = two * R
    assert isinstance(doubled, Secp256k1Point)
    r, r_2 = SECP256K1.scalar(R.x()), SECP256K1.scalar(doubled.x())
    h = r * message_scalar(WANTED) * r_2.inverse()
    honest, finisher = (
        honest_party(build, PRESIGNED, setup(i, CHEATER, h.encode()), i) for i in (HONEST, CHEATER)
    )

    def makes_another(found: EcdsaSignature) -> bool:
        s = (SECP256K1.scalar(found.s) * r_2 * (r * two).inverse()).n
        made = (EcdsaSignature(r_2.n, low, v) for low in (s, ORDER - s) for v in (0, 1))
        return any(verifies(each, WANTED, finisher.setup.public_key) for each in made)

    text = "signed was one hash; libsecp256k1 accepts the signature of another, made out of it"
    return cheat_one_party(
        honest, finisher, makes_another, Effect.FORGERY, text, result_of=finisher
    )


@entry("S3c", replacing={steps.shift: zero_shift})
def child_chosen_after_nonce(build: Build) -> Finding:
    """Turn a signature of h = h* + r tau by the key itself into one of h* by a child, key + tau."""
    child, tau = keys("secp256k1")[CHEATER].record.derive((7,))
    h = message_scalar(WANTED) + SECP256K1.scalar(presignature_of(CHEATER).R.x()) * tau
    honest, finisher = (
        honest_party(build, PRESIGNED, setup(i, CHEATER, h.encode()), i) for i in (HONEST, CHEATER)
    )
    return cheat_one_party(
        honest,
        finisher,
        lambda it: verifies(it, WANTED, child),
        Effect.FORGERY,
        "signed was one hash with the key; the signature is one of another hash with a child of it",
        result_of=finisher,
    )


@entry("S3b", without=[Reason.COMMITMENT_OPENING])
def steered_nonce(build: Build) -> Finding:
    """Wait for message and rho of the signer that finishes, then try rho_2 until R' is biased."""

    def answer(original: object, view: Any, keep: Any, inbox: Any) -> RoundOutput:
        agreed: PresignedSetup = view.setup
        mine = agreed.presignature
        rho, delta, R, r_x = mine.rho_i, *shifted_nonce(agreed, mine.rho_i)
        while R.x() >> 256 - BIAS_BITS:
            rho = tagged_hash(Tag.CONTEXT, rho)
            delta, R, r_x = shifted_nonce(agreed, rho)
        m = message_scalar(agreed.message_hash)
        w_2, u_2 = steps.signature_share(mine, m, r_x, delta, agreed.tau)
        sent = Answer(agreed.request(), w_2, u_2, rho, mine.blinding)
        return RoundOutput(keep=Finished(R, r_x), broadcast=sent)

    return cheat_one_party(
        honest_party(build, PRESIGNED, setup(HONEST, HONEST), HONEST),
        cheating_party(with_round(PRESIGNED, 2, answer), setup(CHEATER, HONEST)),
        is_biased,
        Effect.BIAS,
        BIASED,
    )


def shifted_nonce(agreed: PresignedSetup, rho: bytes) -> tuple[Scalar, Secp256k1Point, Scalar]:
    """Return delta, R' and r'_x if party 2 opens this rho."""
    delta = steps.shift(agreed.request(), {CHEATER: rho})
    return delta, *steps.rerandomise(agreed.presignature.R, delta)
