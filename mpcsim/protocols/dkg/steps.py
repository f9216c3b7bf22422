"""Steps of key generation, in the order of FROST's KeyGen (eprint 2020/852, Figure 1).

Symbols: n parties, threshold t, f_i the polynomial of dealer i with coefficients a_{i,0..t-1},
C_{i,k} = a_{i,k} * G its commitment, s_i the share of party i, Y the public key, Y_i = s_i * G,
and, not in the paper, c_i party i's part in the chain code c.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nacl import bindings as sodium
from nacl.exceptions import RuntimeError as SodiumError

from mpcsim.crypto import schnorr
from mpcsim.crypto.commitment import commit, opens
from mpcsim.crypto.groups.group import Group, Point, Scalar
from mpcsim.crypto.groups.polynomial import (
    Polynomial,
    evaluate,
    evaluate_commitment,
    random_polynomial,
)
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.errors import Reason, check
from mpcsim.ids import PartyId
from mpcsim.protocols.dkg.messages import Commit, Reveal


def sample_polynomial(constant: Scalar, threshold: int, rng: Rng) -> Polynomial:
    """Sample a_{i,1..t-1}; the constant term is given (random in key generation).

    Spec: FROST20 | Figure 1 | round 1, step 1
    """
    return random_polynomial(constant, threshold - 1, rng)


def commit_to_reveal(
    session_id: bytes,
    i: PartyId,
    blinding: bytes,
    nonce: bytes,
    C: Sequence[Point],
    E: bytes,
    *,
    c: bytes | None,
) -> bytes:
    """V_i: commit to C_i, E_i and c_i before those of anyone else are seen (rogue-key attack).

    Spec: FROST20 | Figure 1 | round 1, step 3
    Differs: the paper broadcasts C_i at once; here it is committed first and revealed in round 2.
    """
    return commit(session_id, i, blinding, *_revealed(nonce, c, C, E))


def _revealed(nonce: bytes, c: bytes | None, C: Sequence[Point], E: bytes) -> tuple[bytes, ...]:
    """Return the values that round 1 commits to and round 2 reveals."""
    return (nonce, c or b"", *(C_k.encode() for C_k in C), E)


def prove_constant_term(
    transcript: bytes, i: PartyId, a_0: Scalar, C_0: Point, rng: Rng
) -> schnorr.Proof:
    """sigma_i: proof of knowledge of a_{i,0}, bound to session and party.

    Spec: FROST20 | Figure 1 | round 1, step 2
    Differs: the challenge binds the session, not only the party: no replay across sessions.
    """
    return schnorr.prove(transcript, i, a_0, C_0, rng)


def check_reveal(
    session_id: bytes,
    transcript: bytes,
    j: PartyId,
    committed: Commit,
    reveal: Reveal,
    *,
    count: int,
    chain_code: bool,
) -> None:
    """Check a party's opening, the length of its polynomial and its proof.

    Args:
        count: number of coefficients that it must have: t for a dealer, 0 for others.
        chain_code: whether it must have a part in one.

    Raises:
        CheckFailed: COMMITMENT_OPENING, MALFORMED_MESSAGE, THRESHOLD_MISMATCH or
            PROOF_OF_KNOWLEDGE, naming ``j``.

    Spec: FROST20 | Figure 1 | round 1, step 5
    """
    C = reveal.coefficients
    check(
        opens(
            committed.commitment,
            session_id,
            j,
            reveal.blinding,
            *_revealed(committed.nonce, reveal.chain_code, C, reveal.channel_key),
        ),
        Reason.COMMITMENT_OPENING,
        j,
    )
    check(
        (reveal.chain_code is not None) == chain_code,
        Reason.MALFORMED_MESSAGE,
        j,
        detail="Reveal with a chain code's part missing or too many",
    )
    check(
        len(C) == count and (reveal.proof is not None) == (count > 0),
        Reason.THRESHOLD_MISMATCH,
        j,
        detail=f"{len(C)} coefficients, {count} expected",
    )
    if reveal.proof is not None:
        check(schnorr.verify(transcript, j, C[0], reveal.proof), Reason.PROOF_OF_KNOWLEDGE, j)


def deal(f: Polynomial, j: PartyId) -> Scalar:
    """f_i(j), for party j alone.

    Spec: FROST20 | Figure 1 | round 2, step 1
    """
    return evaluate(f, j)


def check_share(C: Sequence[Point], i: PartyId, share: Scalar, dealer: PartyId) -> None:
    """Check that f_l(i) * G = sum_k i^k * C_{l,k}, l the dealer.

    Raises:
        CheckFailed: SHARE_INCONSISTENT, naming the dealer.

    Spec: FROST20 | Figure 1 | round 2, step 2
    """
    check(share.group.base(share) == evaluate_commitment(C, i), Reason.SHARE_INCONSISTENT, dealer)


def combine_shares(group: Group, shares: Iterable[Scalar]) -> Scalar:
    """s_i = sum_l f_l(i).

    Spec: FROST20 | Figure 1 | round 2, step 3
    """
    return sum(shares, group.scalar(0))


def public_key(group: Group, C: Iterable[Sequence[Point]]) -> Point:
    """Y = sum_l C_{l,0}.

    Raises:
        CheckFailed: DEGENERATE_KEY.

    Spec: FROST20 | Figure 1 | round 2, step 4
    """
    Y = group.sum(C_l[0] for C_l in C)
    check(not Y.is_identity, Reason.DEGENERATE_KEY)
    return Y


def public_shares(
    group: Group, C: Iterable[Sequence[Point]], holders: Iterable[PartyId]
) -> dict[PartyId, Point]:
    """Y_i = sum_l sum_k i^k * C_{l,k}: evaluate the sum of all polynomials in the exponent.

    Raises:
        CheckFailed: DEGENERATE_KEY.

    Spec: FROST20 | Figure 1 | round 2, step 4
    """
    total = [group.sum(column) for column in zip(*C, strict=True)]
    found = {i: evaluate_commitment(total, i) for i in holders}
    check(not any(Y_i.is_identity for Y_i in found.values()), Reason.DEGENERATE_KEY)
    return found


def chain_code(parts: Mapping[PartyId, bytes]) -> bytes:
    """c: a hash of every c_i, so that it is random as long as one of them is; 32 bytes."""
    return tagged_hash(
        Tag.CHAIN_CODE, *(part for j in sorted(parts) for part in (u32(j), parts[j]))
    )


def channel_key_pair(rng: Rng) -> tuple[bytes, bytes]:
    """(e_i, E_i): X25519 secret and public key (RFC 7748)."""
    secret = rng.bytes(32)
    return secret, sodium.crypto_scalarmult_base(secret)


def channel_agreement(e_i: bytes, E_j: bytes, j: PartyId) -> bytes:
    """The X25519 secret shared with party j.

    Raises:
        CheckFailed: CHANNEL_KEY_INVALID if E_j has low order, naming ``j``.
    """
    try:
        return sodium.crypto_scalarmult(e_i, E_j)
    except SodiumError:
        check(False, Reason.CHANNEL_KEY_INVALID, j)
        raise  # unreachable: check raised
