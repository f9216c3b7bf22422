"""Attacks on encodings: points of small order, two encodings of one value, ambiguous hashing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from nacl import bindings as sodium

from mpcsim.attacks.gallery import edwards
from mpcsim.attacks.gallery.dkg import Dealer, cheating_dealer, honest_dealers
from mpcsim.attacks.gallery.edwards import LaxPoint, accept_small_order, verify_with_cofactor
from mpcsim.attacks.gallery.entries import entry
from mpcsim.attacks.gallery.frost import MESSAGE, cheating_signer, signer
from mpcsim.attacks.harness import (
    ALL,
    CHEATER,
    HONEST,
    PAIR,
    can_combine,
    cheat_one_party,
    cheat_two_parties,
    cheating_party,
)
from mpcsim.attacks.model import Effect, Finding
from mpcsim.attacks.research import Build, Shape
from mpcsim.crypto import commitment, schnorr
from mpcsim.crypto.hashing import HashTag, Tag, tagged_hash
from mpcsim.crypto.rng import SeededRng
from mpcsim.protocols import frost
from mpcsim.protocols.dkg import DKG
from mpcsim.protocols.dkg.messages import Reveal
from mpcsim.protocols.engine import RoundOutput
from mpcsim.protocols.frost import FROST, steps
from mpcsim.protocols.frost.messages import Commitments, SignatureShare
from mpcsim.protocols.frost.rounds import AfterSign
from mpcsim.protocols.key_share import KeyShare
from mpcsim.protocols.sample_keys import keys
from mpcsim.sim.run.adversary import Adversary, alter_kind, with_round

# ---------------------------------------------------------------------- P4: ambiguous hashing


def hash_joined_parts(tag: HashTag, *parts: bytes) -> bytes:
    """Hash parts joined by a character that may be in the parts."""
    return hashlib.sha256(b"$".join([tag.value.encode(), *parts])).digest()


@entry("P4", replacing={tagged_hash: hash_joined_parts})
def alpha_shuffle(build: Build) -> Finding:
    """Commit to the values (a$b, c), open as (a, b$c)."""
    commit, opens = build.function(commitment.commit), build.function(commitment.opens)
    sid, blinding = bytes(32), bytes(32)
    V = commit(sid, CHEATER, blinding, b"pay 5$to Alice", b"today")
    text = "one commitment, opened as ('pay 5$to Alice', 'today') and ('pay 5', 'to Alice$today')"
    other = opens(V, sid, CHEATER, blinding, b"pay 5", b"to Alice$today")
    return Finding.broken_if(other, Effect.AMBIGUOUS, text)


# ---------------------------------------------------------------------- S10: small order in a key


@entry("S10a", shape=Shape(wire=accept_small_order))
def small_order_in_key(build: Build) -> Finding:
    """Add T = (0, -1), of order two, to both coefficients of party 2's polynomial.

    At 1 and 3 it cancels, T + 1*T = T + 3*T = 0, so both shares pass; and the proof passes if its
    challenge is even. The key that comes out is Y + T: a signature verifies in one of two cases.
    """
    T = LaxPoint(edwards.ORDER_2)
    inner = cheating_dealer(ALL, definition=build.definition(DKG))
    rng = SeededRng("until the challenge is even")

    def reveal(message: Reveal, to: int) -> Reveal:
        C = tuple(T + C_k for C_k in message.coefficients)
        if message.proof is None:
            return replace(message, coefficients=C)
        transcript, a_0 = inner.keep.transcript, inner.keep.committed.polynomial[0]
        while True:
            proof = schnorr.prove(transcript, CHEATER, a_0, C[0], rng)
            if schnorr._challenge(transcript, CHEATER, C[0], proof.R).n % 2 == 0:
                return replace(message, coefficients=C, proof=proof)

    def is_outside(one: KeyShare, other: KeyShare) -> bool:
        Y = one.public_key.encode()
        return not (can_combine(one, other) or sodium.crypto_core_ed25519_is_valid_point(Y))

    text = "both finish with Y + T, which is not in the group"
    return cheat_two_parties(
        honest_dealers(build), Dealer(inner, reveal), is_outside, Effect.UNUSABLE, text
    )


# ---------------------------------------------------------------------- S10: small order in R


def verify_cofactored(signature: Any, group_public_key: Any, msg: bytes) -> bool:
    """Verify a signature by the equation with the cofactor."""
    return verify_with_cofactor(signature.encode(), group_public_key.encode(), msg)


@entry(
    "S10b",
    shape=Shape(wire=accept_small_order),
    replacing={steps.verify_signature: verify_cofactored},
)
def small_order_in_nonce(build: Build) -> Finding:
    """Add a point of order eight to D_2: verifiers with and without the cofactor then disagree."""

    def commit(
        original: Callable[..., RoundOutput], view: Any, keep: Any, inbox: Any
    ) -> RoundOutput:
        output = original(view, keep, inbox)
        sent = cast(Commitments, output.broadcast)
        return replace(
            output, broadcast=replace(sent, hiding=LaxPoint(edwards.ORDER_8) + sent.hiding)
        )

    def sign(original: object, view: Any, keep: Any, inbox: Any) -> RoundOutput:
        share = view.setup.share
        listed = [
            steps.Commitment(i, c.hiding, c.binding) for i, c in inbox.everyone(Commitments).items()
        ]
        bound = steps.bind(share.public_key, listed, MESSAGE)
        z = steps.sign(CHEATER, share.secret_share, keep.nonces, bound)
        encoded = steps.encode_group_commitment_list(listed)
        key = share.public_key.encode()
        seen = tagged_hash(Tag.FROST_VIEW, view.session_id, keep.context, key, encoded)
        return RoundOutput(keep=AfterSign(seen, bound), broadcast=SignatureShare(seen, z))

    honest = signer(build, HONEST)
    setup = frost.setup(keys("ed25519")[CHEATER], PAIR, MESSAGE)
    cheater = cheating_party(with_round(with_round(FROST, 1, commit), 2, sign), setup)
    Y = honest.setup.share.public_key

    def verifiers_disagree(signature: steps.Ed25519Signature) -> bool:
        refused = not steps.verify_signature(signature, Y, MESSAGE)
        return refused and verify_with_cofactor(signature.encode(), Y.encode(), MESSAGE)

    text = "released; valid with the cofactor (RFC 8032), refused by libsodium"
    return cheat_one_party(honest, cheater, verifiers_disagree, Effect.SPLIT, text)


# ---------------------------------------------------------------------- S10: S + L


@entry("S10c", shape=Shape(wire=accept_small_order))
def scalar_out_of_range(build: Build) -> Finding:
    """Send z_2 + L instead of z_2: the same residue, other bytes."""

    def raised(message: SignatureShare) -> bytes:
        return message.seen + (message.share.n + edwards.L).to_bytes(32, "little")

    honest = signer(build, HONEST)
    cheater = Adversary(cheating_signer(), alter_kind("SignatureShare", raised))

    def has_a_twin(signature: steps.Ed25519Signature) -> bool:
        S = int.from_bytes(signature.z, "little") + edwards.L
        twin, Y = signature.R + S.to_bytes(32, "little"), honest.setup.share.public_key.encode()
        return verify_with_cofactor(twin, Y, MESSAGE)

    text = "accepted as z_2; and (R, S + L) verifies wherever S is not compared with L"
    return cheat_one_party(honest, cheater, has_a_twin, Effect.MALLEABLE, text)
