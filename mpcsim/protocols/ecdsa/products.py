"""Part of a signature that does not depend on the message: nonce, and its products with the mask.

One function a round, for one nonce. ``ecdsa`` signs with the products, ``presign`` keeps them, for
many nonces of one session. Both see to what a session has once: its context, transcript and echo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from mpcsim.crypto.encoding import U16, Message, Seq, wire
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.secp256k1 import SECP256K1, Secp256k1Point
from mpcsim.crypto.mta.base import Mta, direction_sid
from mpcsim.crypto.rng import Rng
from mpcsim.errors import InternalError, Reason, blaming
from mpcsim.ids import PartyId
from mpcsim.protocols.ecdsa import steps
from mpcsim.protocols.ecdsa.messages import Respond
from mpcsim.protocols.engine.contract import View
from mpcsim.protocols.key_share import SHARE, KeyShare


@wire
class SignerSetup(Message):
    """Set-up of one signer, without the message."""

    share: Annotated[KeyShare, SHARE]
    signers: Annotated[tuple[PartyId, ...], Seq(U16)]

    @property
    def mta(self) -> Mta:
        if self.share.mta is None:
            raise InternalError("a secp256k1 share without a multiplication scheme")
        return self.share.mta

    def multiplication(self, peer: PartyId) -> Message:
        """Long-lived multiplication state with a peer."""
        state = self.share.peers[peer].multiplication
        if state is None:
            raise InternalError(f"no multiplication state with party {peer}")
        return state


@dataclass(frozen=True)
class AfterCommit:
    """State kept from round 1."""

    r_i: Scalar
    R_i: Point
    phi_i: Scalar
    blinding: bytes = field(repr=False)


@dataclass(frozen=True)
class AfterOffer:
    """State kept from round 2."""

    committed: AfterCommit
    transcript: bytes
    offered: Mapping[PartyId, Any] = field(repr=False)
    """State of the multiplications in which we are receiver."""
    chi: Mapping[PartyId, Scalar]
    """chi_{i,j}."""


@dataclass(frozen=True)
class AfterRespond:
    """State kept from round 3."""

    offered: AfterOffer
    sk_i: Scalar
    pk_i: Point
    c: Mapping[PartyId, tuple[Scalar, ...]]
    """(c^u_{i,j}, c^v_{i,j})."""


@dataclass(frozen=True)
class Committed:
    """Commitment to a signer's nonce share, with the nonce in its first message."""

    commitment: bytes
    nonce: bytes


@dataclass(frozen=True)
class Products:
    """Nonce and products: all that a signature share needs beside the message."""

    R: Secp256k1Point
    r_x: Scalar
    phi_i: Scalar
    u_i: Scalar
    v_i: Scalar


def draw_nonce(rng: Rng) -> tuple[Scalar, Point, Scalar]:
    """Step 5: draw r_i and phi_i; return r_i, R_i, phi_i."""
    r_i = SECP256K1.random_scalar(rng)
    phi_i = SECP256K1.random_scalar(rng)
    return r_i, SECP256K1.base(r_i), phi_i


def offer(
    view: View[Any], first: AfterCommit, transcript: bytes
) -> tuple[AfterOffer, dict[PartyId, Message]]:
    """Step 6: as multiplication receiver, offer chi_{i,j} to every peer.

    Args:
        transcript: transcript of this nonce alone, to which the multiplications are bound.
    """
    setup: SignerSetup = view.setup
    offered, chi, offers = {}, {}, {}
    with view.step("step 6: multiplication, receiver offers chi_ij"):
        for j in view.others():
            offered[j], chi[j], offers[j] = setup.mta.receiver_start(
                setup.multiplication(j),
                direction_sid(transcript, sender=j, receiver=view.me),
                view.rng,
            )
    return AfterOffer(first, transcript, offered, chi), offers


def respond(
    view: View[Any], keep: AfterOffer, offers: Mapping[PartyId, Message]
) -> tuple[AfterRespond, dict[PartyId, Respond]]:
    """Step 7: as multiplication sender, put in r_i and sk_i; open the nonce share.

    Raises:
        CheckFailed: OT_EXTENSION_CHECK or SETUP_DISCARDED, naming the peer whose offer it is.
    """
    setup: SignerSetup = view.setup
    first = keep.committed
    with view.step("step 7: sk_i = lambda_i x_i + zeta_i"):
        sk_i = steps.session_key_share(
            setup.share.secret_share,
            view.me,
            setup.signers,
            {j: setup.share.peers[j].zero_seed for j in view.others()},
            keep.transcript,
        )
        pk_i = SECP256K1.base(sk_i)
    c, responses = {}, {}
    for j, offered in offers.items():
        step = view.step("step 7: multiplication, sender puts in r_i, sk_i")
        with step, setup.share.guard_multiplication(j, view.recall), blaming(j):
            c[j], reply = setup.mta.sender(
                setup.multiplication(j),
                direction_sid(keep.transcript, sender=view.me, receiver=j),
                offered,
                (first.r_i, sk_i),
                view.rng,
            )
        with view.step("step 7: Gamma, psi"):
            Gamma_u, Gamma_v, psi = steps.consistency_values(c[j], first.phi_i, keep.chi[j])
        responses[j] = Respond(reply, first.R_i, first.blinding, pk_i, Gamma_u, Gamma_v, psi)
    return AfterRespond(keep, sk_i, pk_i, c), responses


def finish(
    view: View[Any],
    name: bytes,
    keep: AfterRespond,
    committed: Mapping[PartyId, Committed],
    responses: Mapping[PartyId, Respond],
) -> Products:
    """Steps 8 and 9: check everything, compute the products.

    Args:
        name: session name that the nonce shares were committed to under.
        committed: commitment of every peer.

    Raises:
        CheckFailed: COMMITMENT_OPENING, MULTIPLICATION_CHECK, GAMMA_U_MISMATCH or GAMMA_V_MISMATCH,
            naming the peer; PUBLIC_KEY_MISMATCH, naming a single peer, or with suspects;
            DEGENERATE_NONCE.
    """
    setup: SignerSetup = view.setup
    second, first = keep.offered, keep.offered.committed
    d: dict[PartyId, tuple[Scalar, ...]] = {}
    for j, message in responses.items():
        with view.step("step 8: open R_j"):
            steps.check_opening(
                name,
                j,
                committed[j].commitment,
                message.blinding,
                committed[j].nonce,
                message.R_i,
            )
        step, reply = view.step("step 8: multiplication, receiver output"), message.reply
        with step, setup.share.guard_multiplication(j, view.recall), blaming(j):
            d[j] = setup.mta.receiver_finish(second.offered[j], reply)
        with view.step("step 8: Gamma checks"):
            d_u, d_v = d[j]
            chi = second.chi[j]
            steps.check_multiplied(
                chi, message.R_i, message.Gamma_u, d_u, Reason.GAMMA_U_MISMATCH, j
            )
            steps.check_multiplied(
                chi, message.pk_i, message.Gamma_v, d_v, Reason.GAMMA_V_MISMATCH, j
            )
    with view.step("step 8: sum of pk_j"):
        shares = (keep.pk_i, *(message.pk_i for message in responses.values()))
        steps.check_public_key(setup.share.public_key, shares, view.others())
    with view.step("step 9: R, u_i, v_i"):
        R, r_x = steps.combine_nonce((first.R_i, *(m.R_i for m in responses.values())))
        u_i, v_i = steps.products(
            first.r_i,
            keep.sk_i,
            first.phi_i,
            psi=[message.psi for message in responses.values()],
            cd_u=[keep.c[j][0] + d[j][0] for j in d],
            cd_v=[keep.c[j][1] + d[j][1] for j in d],
        )
    return Products(R, r_x, first.phi_i, u_i, v_i)
