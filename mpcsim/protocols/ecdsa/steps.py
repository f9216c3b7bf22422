"""Steps of threshold ECDSA, in the order of DKLs23 (eprint 2023/765), Protocol 3.6.

Symbols, for signer i and peer j:

==============  ===================================================================
x_i, lambda_i   long-lived key share and its Lagrange coefficient for these signers
zeta_i          zero share of this session
r_i, R_i        nonce share and r_i * G
phi_i           inversion mask
sk_i, pk_i      key share of this session, lambda_i * x_i + zeta_i, and sk_i * G
chi_{i,j}       i's random multiplicand against j (j's r_j and sk_j are multiplied with it)
c, d            the two parties' additive shares of a product; u for r, v for sk
psi_{i,j}       phi_i - chi_{i,j}: moves j's products from chi_{i,j} to phi_i
tau             difference between the key to sign with and pk (BIP 32); public
u, v, w         r * phi, sk * phi, and the numerator SHA2(m) * phi + r_x * (sk + tau) * phi
==============  ===================================================================

so that s = w / u = (SHA2(m) + r_x * (sk + tau)) / r.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from coincurve import PublicKey

from mpcsim.crypto.commitment import commit, opens
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.groups.secp256k1 import ORDER, SECP256K1, Secp256k1Point
from mpcsim.crypto.zero_share import zero_share
from mpcsim.errors import Reason, check
from mpcsim.ids import PartyId


@dataclass(frozen=True)
class EcdsaSignature:
    """A signature with low s and its recovery id."""

    r: int
    s: int
    recovery_id: int

    def encode(self) -> bytes:
        """65 bytes: r, s, v with v = 27 + recovery id."""
        return self.compact() + bytes([27 + self.recovery_id])

    def compact(self) -> bytes:
        """64 bytes: r, s."""
        return self.r.to_bytes(32, "big") + self.s.to_bytes(32, "big")


def commit_nonce(session_id: bytes, i: PartyId, blinding: bytes, nonce: bytes, R_i: Point) -> bytes:
    """Commit to R_i before any other nonce share is seen.

    Spec: DKLs23 | Protocol 3.6 | step 5 Differs: the paper takes the signature id as agreed; here
    it is derived from every signer's first message (``mpcsim.protocols.engine.transcript``), so
    that a replayed session name cannot repeat it.
    """
    return commit(session_id, i, blinding, nonce, R_i.encode())


def session_key_share(
    x_i: Scalar,
    i: PartyId,
    signers: Sequence[PartyId],
    seeds: Mapping[int, bytes],
    transcript: bytes,
) -> Scalar:
    """sk_i = lambda_i * x_i + zeta_i: an additive sharing of the key, fresh for this session.

    Spec: DKLs23 | Protocol 3.6 | step 7, zero shares
    """
    lambda_i = lagrange_coefficient(SECP256K1, i, signers)
    return lambda_i * x_i + zero_share(SECP256K1, i, seeds, transcript)


def consistency_values(
    c: tuple[Scalar, ...], phi_i: Scalar, chi_ij: Scalar
) -> tuple[Point, Point, Scalar]:
    """Gamma^u = c^u * G, Gamma^v = c^v * G, psi = phi_i - chi_{i,j}.

    Spec: DKLs23 | Protocol 3.6 | step 7
    """
    c_u, c_v = c
    return SECP256K1.base(c_u), SECP256K1.base(c_v), phi_i - chi_ij


def check_opening(
    session_id: bytes, j: PartyId, commitment: bytes, blinding: bytes, nonce: bytes, R_j: Point
) -> None:
    """Check that R_j is what party j committed to.

    Raises:
        CheckFailed: COMMITMENT_OPENING, naming ``j``.

    Spec: DKLs23 | Protocol 3.6 | step 8, decommitment
    """
    check(
        opens(commitment, session_id, j, blinding, nonce, R_j.encode()),
        Reason.COMMITMENT_OPENING,
        j,
    )


def check_multiplied(
    chi_ij: Scalar, X_j: Point, Gamma: Point, d: Scalar, reason: Reason, j: PartyId
) -> None:
    """Check chi_{i,j} * X_j - Gamma = d * G: j multiplied the discrete log of X_j.

    Called with (R_j, Gamma^u, d^u) and with (pk_j, Gamma^v, d^v).

    Raises:
        CheckFailed: ``reason``, naming ``j``.

    Spec: DKLs23 | Protocol 3.6 | step 8, consistency checks
    Differs: where pk_j stands the paper prints lambda_j * P(j), that is pk_j without zeta_j * G.
    But j multiplies sk_j, zeta_j included: with the printed value the check fails for an honest j.
    Public implementations check pk_j, too (github.com/0xCarbon/DKLs23, src/protocols/signing.rs;
    silence-laboratories/dkls23, dsg.rs). That the pk_j are shares of the key ``check_public_key``
    sees to.
    """
    check(chi_ij * X_j == SECP256K1.base(d) + Gamma, reason, j)


def check_public_key(pk: Point, shares: Iterable[Point], suspects: Sequence[PartyId]) -> None:
    """Check sum_j pk_j = pk.

    Raises:
        CheckFailed: PUBLIC_KEY_MISMATCH. With a single peer it is that peer; among several the
            check cannot tell.

    Spec: DKLs23 | Protocol 3.6 | step 8, consistency check on the key
    """
    check(
        SECP256K1.sum(shares) == pk,
        Reason.PUBLIC_KEY_MISMATCH,
        single_suspect(suspects),
        suspects=suspects,
    )


def combine_nonce(shares: Iterable[Point]) -> tuple[Secp256k1Point, Scalar]:
    """R = sum_j R_j and r_x, its x coordinate modulo q.

    Raises:
        CheckFailed: DEGENERATE_NONCE.

    Spec: DKLs23 | Protocol 3.6 | step 9
    """
    R = cast(Secp256k1Point, SECP256K1.sum(shares))
    check(not R.is_identity, Reason.DEGENERATE_NONCE)
    r_x = SECP256K1.scalar(R.x())
    check(bool(r_x), Reason.DEGENERATE_NONCE)
    return R, r_x


def products(
    r_i: Scalar,
    sk_i: Scalar,
    phi_i: Scalar,
    *,
    psi: Iterable[Scalar],
    cd_u: Iterable[Scalar],
    cd_v: Iterable[Scalar],
) -> tuple[Scalar, Scalar]:
    """(u_i, v_i), additive shares of r * phi and sk * phi.

    u_i = r_i * (phi_i + sum_j psi_{j,i}) + sum_j (c^u_{i,j} + d^u_{i,j}), v_i likewise with sk_i.

    Args:
        psi: psi_{j,i} from every peer.
        cd_u: c^u_{i,j} + d^u_{i,j} for every peer; ``cd_v`` likewise.

    Spec: DKLs23 | Protocol 3.6 | step 9, u_i and v_i
    """
    zero = SECP256K1.scalar(0)
    Phi_i = sum(psi, phi_i)
    return r_i * Phi_i + sum(cd_u, zero), sk_i * Phi_i + sum(cd_v, zero)


def message_scalar(message_hash: bytes) -> Scalar:
    """SHA2(m) as a scalar (SEC 1, section 4.1.3, step 5)."""
    return SECP256K1.scalar(int.from_bytes(message_hash, "big"))


def numerator(m: Scalar, r_x: Scalar, phi_i: Scalar, v_i: Scalar, tau: Scalar) -> Scalar:
    """w_i = m * phi_i + r_x * (v_i + tau * phi_i).

    Args:
        tau: difference between the key to sign with and the shared one; 0: they are the same.

    Spec: DKLs23 | Protocol 3.6 | step 9, w_i
    Differs: the paper knows no derived keys. The v_i add up to sk * phi, the phi_i to phi; so the
    v_i + tau * phi_i add up to (sk + tau) * phi. Everything checked before is about sk alone.
    """
    return m * phi_i + r_x * (v_i + tau * phi_i)


def assemble(
    message_hash: bytes,
    pk: Point,
    R: Secp256k1Point,
    r_x: Scalar,
    shares: Iterable[tuple[Scalar, Scalar]],
    suspects: Sequence[PartyId],
) -> EcdsaSignature:
    """s = sum w_j / sum u_j, made low, with its recovery id, and verified by libsecp256k1.

    Recovering the public key from the signature and comparing it checks signature and recovery
    id at once.

    Raises:
        CheckFailed: ZERO_DENOMINATOR or SIGNATURE_INVALID. With a single peer it is that peer;
            among several the check cannot tell.

    Spec: DKLs23 | Protocol 3.6 | step 10
    """
    w, u = (sum(column, SECP256K1.scalar(0)) for column in zip(*shares, strict=True))
    check(bool(u), Reason.ZERO_DENOMINATOR, single_suspect(suspects), suspects=suspects)
    s = (w * u.inverse()).n
    recovery_id = int(R.y_is_odd()) | (R.x() >= ORDER) << 1
    if s > ORDER // 2:  # BIP 62: of s and -s the low one, so that nobody can make a second
        s, recovery_id = ORDER - s, recovery_id ^ 1
    signature = EcdsaSignature(r_x.n, s, recovery_id)
    check(
        verifies(signature, message_hash, pk),
        Reason.SIGNATURE_INVALID,
        single_suspect(suspects),
        suspects=suspects,
    )
    return signature


def verifies(signature: EcdsaSignature, message_hash: bytes, pk: Point) -> bool:
    """Return whether libsecp256k1 recovers ``pk`` from the signature."""
    recoverable = signature.compact() + bytes([signature.recovery_id])
    try:
        found = PublicKey.from_signature_and_message(recoverable, message_hash, hasher=None)
    except ValueError:
        return False
    return Secp256k1Point(found) == pk


def single_suspect(parties: Sequence[PartyId]) -> PartyId | None:
    """Return the single member, if there is just one: with one peer, blame needs no further
    proof."""
    return parties[0] if len(parties) == 1 else None
