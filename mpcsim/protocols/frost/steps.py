"""Steps of FROST(Ed25519, SHA-512), in the order and with the names of RFC 9591.

Symbols: i the identifier of a signer, sk_i its share of the signing key, PK_i = sk_i * G, PK the
group public key, (d_i, e_i) its hiding and binding nonce, (D_i, E_i) their commitments, rho_i its
binding factor, R the group commitment, c the challenge, z_i its signature share. In the RFC's
words, G.SerializeElement and G.SerializeScalar are ``encode`` here; G.DeserializeElement and
G.DeserializeScalar run when a message is decoded, before any of these steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from nacl import bindings as sodium
from nacl.exceptions import BadSignatureError

from mpcsim.crypto.groups.ed25519 import ED25519 as G
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.ids import PartyId

CONTEXT_STRING = b"FROST-ED25519-SHA512-v1"
"""contextString of the ciphersuite (section 6.1)."""


# ------------------------------------------------------------------ section 6.1: hash functions


def H1(m: bytes) -> Scalar:
    """Random oracle of the binding factors.

    Spec: RFC9591 | Section 6.1 | H1
    """
    return _to_scalar(_sha512(CONTEXT_STRING + b"rho" + m))


def H2(m: bytes) -> Scalar:
    """Random oracle of the challenge: RFC 8032's own, therefore without the context string.

    Spec: RFC9591 | Section 6.1 | H2
    """
    return _to_scalar(_sha512(m))


def H3(m: bytes) -> Scalar:
    """Random oracle of the nonces.

    Spec: RFC9591 | Section 6.1 | H3
    """
    return _to_scalar(_sha512(CONTEXT_STRING + b"nonce" + m))


def H4(m: bytes) -> bytes:
    """Hash of the message.

    Spec: RFC9591 | Section 6.1 | H4
    """
    return _sha512(CONTEXT_STRING + b"msg" + m)


def H5(m: bytes) -> bytes:
    """Hash of the commitment list.

    Spec: RFC9591 | Section 6.1 | H5
    """
    return _sha512(CONTEXT_STRING + b"com" + m)


def _sha512(m: bytes) -> bytes:
    return hashlib.sha512(m).digest()


def _to_scalar(digest: bytes) -> Scalar:
    return G.scalar(int.from_bytes(digest, "little"))


# ------------------------------------------------------------------ section 4: helper functions


def nonce_generate(secret: Scalar, rng: Rng) -> Scalar:
    """Return a nonce that stays unpredictable if either the generator or the secret is.

    Spec: RFC9591 | Section 4.1 | nonce_generate
    """
    random_bytes = rng.bytes(32)
    secret_enc = secret.encode()
    return H3(random_bytes + secret_enc)


def derive_interpolating_value(L: Iterable[PartyId], x_i: PartyId) -> Scalar:
    """lambda_i: the weight of the share at x_i in the value at zero.

    Raises:
        UsageError: x_i is not in L, or L has duplicates.

    Spec: RFC9591 | Section 4.2 | derive_interpolating_value
    """
    return lagrange_coefficient(G, x_i, L)


def prestart_hedge(
    auth_keys: Mapping[PartyId, bytes],
    session_id: bytes,
    signers: Iterable[PartyId],
    message: bytes,
) -> Scalar:
    """Return a secret to hedge nonces with that are made before the signer has its key share.

    Args:
        auth_keys: both authentication keys that are kept beside the share.

    Spec: RFC9591 | Section 4.1 | nonce_generate: its second input
    Differs: the RFC hashes random bytes with the key share. A client that says its nonce
        commitments in the request that opens its vault does not have it yet. In its place stand
        the secrets it does have, the session, the signers and the message: should the generator
        repeat itself, the nonces are still others for every other session, message and signer, and
        unknown to anybody without both keys. (Session ids come from the same generator: of a
        repeated one, the same message to the same signer has the same nonces.)
    """
    keys = [part for j in sorted(auth_keys) for part in (u32(j), auth_keys[j])]
    everyone = b"".join(u32(i) for i in signers)
    digest = tagged_hash(Tag.FROST_HEDGE, session_id, everyone, message, *keys)
    return _to_scalar(digest)


class Commitment(NamedTuple):
    """An element of a commitment list; the list is in ascending order of identifier."""

    identifier: PartyId
    hiding_nonce_commitment: Point
    """D_i = d_i * G."""
    binding_nonce_commitment: Point
    """E_i = e_i * G."""


def encode_group_commitment_list(commitment_list: Sequence[Commitment]) -> bytes:
    """Return the commitment list as one byte string; each entry has a fixed length.

    Spec: RFC9591 | Section 4.3 | encode_group_commitment_list
    """
    encoded_group_commitment = b""
    for identifier, hiding_nonce_commitment, binding_nonce_commitment in commitment_list:
        encoded_commitment = (
            G.scalar(identifier).encode()
            + hiding_nonce_commitment.encode()
            + binding_nonce_commitment.encode()
        )
        encoded_group_commitment += encoded_commitment
    return encoded_group_commitment


def participants_from_commitment_list(commitment_list: Sequence[Commitment]) -> list[PartyId]:
    """Return the identifiers in the list.

    Spec: RFC9591 | Section 4.3 | participants_from_commitment_list
    """
    return [identifier for identifier, _, _ in commitment_list]


def compute_binding_factors(
    group_public_key: Point, commitment_list: Sequence[Commitment], msg: bytes
) -> dict[PartyId, Scalar]:
    """rho_i of every signer: binds key, message and the whole commitment list (no ROS attack).

    Spec: RFC9591 | Section 4.4 | compute_binding_factors
    Differs: a mapping instead of a list of pairs, so a look-up in it takes the place of
        binding_factor_for_participant (section 4.3).
    """
    group_public_key_enc = group_public_key.encode()
    msg_hash = H4(msg)
    encoded_commitment_hash = H5(encode_group_commitment_list(commitment_list))
    rho_input_prefix = group_public_key_enc + msg_hash + encoded_commitment_hash

    binding_factor_list = {}
    for identifier, _, _ in commitment_list:
        rho_input = rho_input_prefix + G.scalar(identifier).encode()
        binding_factor_list[identifier] = H1(rho_input)
    return binding_factor_list


def compute_group_commitment(
    commitment_list: Sequence[Commitment],
    binding_factor_list: Mapping[PartyId, Scalar],
    known: Mapping[PartyId, SigningNonces] | None = None,
) -> Point:
    """R = sum_i D_i + rho_i * E_i.

    Spec: RFC9591 | Section 4.5 | compute_group_commitment
    Differs: the term of a signer whose nonces are ``known`` (our own) is computed from them, which
    needs no variable-base multiplication.
    """
    group_commitment: Point = G.identity
    for identifier, hiding_nonce_commitment, binding_nonce_commitment in commitment_list:
        binding_factor = binding_factor_list[identifier]
        if known and identifier in known:
            term = known[identifier].bound_commitment(binding_factor)
        else:
            term = hiding_nonce_commitment + binding_factor * binding_nonce_commitment
        group_commitment = group_commitment + term
    return group_commitment


def compute_challenge(group_commitment: Point, group_public_key: Point, msg: bytes) -> Scalar:
    """c = H2(R || PK || msg), the challenge of RFC 8032.

    Spec: RFC9591 | Section 4.6 | compute_challenge
    """
    group_comm_enc = group_commitment.encode()
    group_public_key_enc = group_public_key.encode()
    challenge_input = group_comm_enc + group_public_key_enc + msg
    return H2(challenge_input)


# ------------------------------------------------------------------ section 5.1: round one


class SigningNonces:
    """The nonces (d_i, e_i) of one signature. Taking them consumes them.

    Two shares made from one pair of nonces give the signing key away, so there is one pair, one
    reference to it and one use: no copy, no comparison, no serialisation.
    """

    __slots__ = ("_nonces",)

    def __init__(self, hiding_nonce: Scalar, binding_nonce: Scalar) -> None:
        self._nonces: tuple[Scalar, Scalar] | None = (hiding_nonce, binding_nonce)

    def bound_commitment(self, binding_factor: Scalar) -> Point:
        """D_i + rho_i * E_i = (d_i + rho_i * e_i) * G. Public; consumes nothing.

        Raises:
            UsageError: the nonces were taken before.
        """
        if self._nonces is None:
            raise UsageError("these nonces are used up; every signature needs fresh ones")
        hiding_nonce, binding_nonce = self._nonces
        return G.base(hiding_nonce + binding_factor * binding_nonce)

    def take(self) -> tuple[Scalar, Scalar]:
        """(d_i, e_i), once.

        Raises:
            UsageError: they were taken before.
        """
        nonces, self._nonces = self._nonces, None
        if nonces is None:
            raise UsageError("these nonces are used up; every signature needs fresh ones")
        return nonces

    def _refuse(self, *_: object) -> NoReturn:
        raise UsageError("signing nonces cannot be copied, compared or serialised")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = __eq__ = _refuse
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SigningNonces(<{'redacted' if self._nonces else 'used up'}>)"


def commit(hedge: Scalar, rng: Rng) -> tuple[SigningNonces, tuple[Point, Point]]:
    """Fresh nonces, and their commitments (D_i, E_i).

    Args:
        hedge: sk_i; or, for a signer that does not have it yet, ``prestart_hedge``.

    Spec: RFC9591 | Section 5.1 | commit
    Differs: the nonces come in an object that hands them out once.
    """
    hiding_nonce = nonce_generate(hedge, rng)
    binding_nonce = nonce_generate(hedge, rng)
    hiding_nonce_commitment = G.base(hiding_nonce)
    binding_nonce_commitment = G.base(binding_nonce)
    nonces = SigningNonces(hiding_nonce, binding_nonce)
    comms = (hiding_nonce_commitment, binding_nonce_commitment)
    return nonces, comms


# ------------------------------------------------------------------ section 5.2: round two


@dataclass(frozen=True)
class Bound:
    """Key, message and commitment list, with the values computed from them. Public."""

    group_public_key: Point
    msg: bytes
    commitment_list: Sequence[Commitment]
    binding_factor_list: Mapping[PartyId, Scalar]
    """rho_i of every signer."""
    group_commitment: Point
    """R."""
    challenge: Scalar
    """c."""


def bind(
    group_public_key: Point,
    commitment_list: Sequence[Commitment],
    msg: bytes,
    known: Mapping[PartyId, SigningNonces] | None = None,
) -> Bound:
    """Compute what sign, aggregate and verify_signature_share share, once for all three.

    Spec: RFC9591 | Section 5.2 | sign: binding factors, group commitment, challenge
    """
    binding_factor_list = compute_binding_factors(group_public_key, commitment_list, msg)
    group_commitment = compute_group_commitment(commitment_list, binding_factor_list, known)
    challenge = compute_challenge(group_commitment, group_public_key, msg)
    return Bound(
        group_public_key, msg, commitment_list, binding_factor_list, group_commitment, challenge
    )


def sign(identifier: PartyId, sk_i: Scalar, nonce_i: SigningNonces, bound: Bound) -> Scalar:
    """z_i = d_i + e_i * rho_i + lambda_i * sk_i * c. Consumes the nonces.

    Raises:
        UsageError: the nonces were used before.

    Spec: RFC9591 | Section 5.2 | sign
    Differs: binding factors, group commitment and challenge come from ``bind``.
    """
    binding_factor = bound.binding_factor_list[identifier]
    participant_list = participants_from_commitment_list(bound.commitment_list)
    lambda_i = derive_interpolating_value(participant_list, identifier)
    hiding_nonce, binding_nonce = nonce_i.take()
    return hiding_nonce + binding_nonce * binding_factor + lambda_i * sk_i * bound.challenge


# ------------------------------------------------------------------ section 5.3: aggregation


@dataclass(frozen=True)
class Ed25519Signature:
    """A signature of RFC 8032."""

    R: bytes
    """The group commitment, 32 bytes."""
    z: bytes
    """The response (RFC 8032 calls it S), 32 bytes."""

    def encode(self) -> bytes:
        """R || z, 64 bytes."""
        return self.R + self.z


def aggregate(bound: Bound, sig_shares: Iterable[Scalar]) -> Ed25519Signature:
    """(R, z = sum_i z_i).

    Spec: RFC9591 | Section 5.3 | aggregate
    Differs: binding factors and group commitment come from ``bind``.
    """
    z = G.scalar(0)
    for z_i in sig_shares:
        z = z + z_i
    return Ed25519Signature(bound.group_commitment.encode(), z.encode())


def verify_signature(signature: Ed25519Signature, group_public_key: Point, msg: bytes) -> bool:
    """Return whether it is a valid Ed25519 signature, by libsodium (RFC 8032, section 5.1.7).

    Spec: RFC9591 | Section 5.3 | verify the signature before releasing it
    Differs: libsodium tests the equation without the cofactor, which is stricter.
    """
    try:
        sodium.crypto_sign_open(signature.encode() + msg, group_public_key.encode())
    except BadSignatureError:
        return False
    return True


def verify_signature_share(
    identifier: PartyId, PK_i: Point, sig_share_i: Scalar, bound: Bound
) -> bool:
    """z_i * G = D_i + rho_i * E_i + (c * lambda_i) * PK_i.

    Spec: RFC9591 | Section 5.3 | verify_signature_share (used for section 5.4, identifiable abort)
    Differs: binding factors, group commitment and challenge come from ``bind``; comm_i is looked
        up in the commitment list.
    """
    binding_factor = bound.binding_factor_list[identifier]
    participant_list = participants_from_commitment_list(bound.commitment_list)
    _, hiding_nonce_commitment, binding_nonce_commitment = bound.commitment_list[
        participant_list.index(identifier)
    ]
    comm_share = hiding_nonce_commitment + binding_factor * binding_nonce_commitment
    lambda_i = derive_interpolating_value(participant_list, identifier)
    l = G.base(sig_share_i)  # noqa: E741 (the name in the RFC)
    r = comm_share + bound.challenge * lambda_i * PK_i
    return l == r
