"""Rounds of threshold ECDSA: commit, offer, respond, share.

Round 3 depends on the peer's round 2 alone, and round 2 on round 1; so two signers, one of whom
starts, need two round trips: (commit; commit, offer), (offer, respond; respond, share).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from mpcsim.algebra.group import Point, Scalar
from mpcsim.algebra.secp256k1 import SECP256K1, Secp256k1Point
from mpcsim.encoding import BYTES32, U16, Message, Seq, wire
from mpcsim.errors import InternalError, Reason, blaming, check
from mpcsim.hashing import Tag, tagged_hash, u32
from mpcsim.ids import PartyId
from mpcsim.keyshare import SHARE, KeyShare
from mpcsim.mta.base import Mta, direction_sid
from mpcsim.primitives.bip32 import PATH, Path, path_bytes
from mpcsim.protocol.contract import Delivery, Inbox, Round, Sends, Turn, View
from mpcsim.protocol.echo import check_echo, echo
from mpcsim.protocol.transcript import transcript_hash
from mpcsim.protocols.ecdsa import steps
from mpcsim.protocols.ecdsa.messages import Commit, Offer, Respond, SignatureShare
from mpcsim.rng import Rng


@wire
class EcdsaSetup(Message):
    """What one signer brings to a session."""

    share: Annotated[KeyShare, SHARE]
    signers: Annotated[tuple[PartyId, ...], Seq(U16)]
    message_hash: Annotated[bytes, BYTES32]
    path: Annotated[Path, PATH] = ()
    """Of the child key to sign with; empty: the key itself."""

    @property
    def public_key(self) -> Point:
        """Whose signature it is to be: pk + tau * G."""
        return self.share.record.at(self.path)[0]

    @property
    def tweak(self) -> Scalar:
        """tau."""
        return self.share.record.at(self.path)[1]

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

    def message_scalar(self) -> Scalar:
        """SHA2(m) as a scalar (SEC 1, section 4.1.3, step 5)."""
        return SECP256K1.scalar(int.from_bytes(self.message_hash, "big"))

    def context(self) -> bytes:
        """Digest of everything the signers must agree on beforehand (``context``)."""
        return context(self.share.record.epoch, self.signers, self.message_hash, self.path)


def context(
    epoch: bytes, signers: Sequence[PartyId], message_hash: bytes, path: Path = ()
) -> bytes:
    """Digest of what a session is about; it takes no share to compute it.

    The epoch stands for the key, its chain code and threshold, all public shares and the
    multiplication scheme: it is a hash of what all holders committed to when the shares were made.
    """
    everyone = b"".join(u32(i) for i in signers)
    return tagged_hash(Tag.CONTEXT, b"ecdsa", message_hash, epoch, everyone, path_bytes(path))


@dataclass(frozen=True)
class AfterCommit:
    """Kept from round 1."""

    r_i: Scalar
    R_i: Point
    phi_i: Scalar
    blinding: bytes = field(repr=False)


@dataclass(frozen=True)
class AfterOffer:
    """Kept from round 2."""

    committed: AfterCommit
    transcript: bytes
    offered: Mapping[PartyId, Any] = field(repr=False)
    """State of the multiplications in which we are receiver."""
    chi: Mapping[PartyId, Scalar]
    """chi_{i,j}."""


@dataclass(frozen=True)
class AfterRespond:
    """Kept from round 3."""

    offered: AfterOffer
    sk_i: Scalar
    pk_i: Point
    c: Mapping[PartyId, tuple[Scalar, ...]]
    """(c^u_{i,j}, c^v_{i,j})."""


@dataclass(frozen=True)
class AfterShare:
    """Kept from round 4."""

    R: Secp256k1Point
    r_x: Scalar


def round_1_commit(view: View[EcdsaSetup], keep: None, inbox: Inbox) -> Turn:
    """Step 5: sample nonce share and mask, commit to the nonce share."""
    # COMPUTE
    with view.step("step 5: sample r_i, phi_i; commit to R_i"):
        kept, message = commit(view.setup.context(), view.session_id, view.me, view.rng)
    # KEEP, SEND
    return Turn(keep=kept, broadcast=message)


def commit(context: bytes, session_id: bytes, me: PartyId, rng: Rng) -> tuple[AfterCommit, Commit]:
    """What round 1 keeps and sends; it takes no share."""
    r_i = SECP256K1.random_scalar(rng)
    phi_i = SECP256K1.random_scalar(rng)
    R_i = SECP256K1.base(r_i)
    nonce, blinding = rng.bytes(32), rng.bytes(32)
    commitment = steps.commit_nonce(session_id, me, blinding, nonce, R_i)
    return AfterCommit(r_i, R_i, phi_i, blinding), Commit(context, nonce, commitment)


def round_2_offer(view: View[EcdsaSetup], keep: AfterCommit, inbox: Inbox) -> Turn:
    """Step 6: as multiplication receiver, offer chi_{i,j} to every peer.

    Spec: DKLs23 | Protocol 3.6 | step 6
    Differs: a message later than the commitments, because the multiplications bind the transcript.
    """
    setup = view.setup
    commits = inbox.everyone(Commit)
    # CHECK
    for j, message in commits.items():
        check(
            message.context == setup.context(),
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} signs something else, or with other shares",
        )
    # COMPUTE
    transcript = transcript_hash(view, inbox, Commit)
    my_echo = echo(view, inbox, Commit)
    offered, chi, offers = {}, {}, {}
    with view.step("step 6: multiplication, receiver offers chi_ij"):
        for j in view.others():
            offered[j], chi[j], offer = setup.mta.receiver_start(
                setup.multiplication(j),
                direction_sid(transcript, sender=j, receiver=view.me),
                view.rng,
            )
            offers[j] = Offer(my_echo, setup.public_key, offer)
    # KEEP, SEND
    return Turn(keep=AfterOffer(keep, transcript, offered, chi), direct=offers)


def round_3_respond(view: View[EcdsaSetup], keep: AfterOffer, inbox: Inbox) -> Turn:
    """Step 7: as multiplication sender, put in r_i and sk_i; open the nonce share."""
    setup, first = view.setup, keep.committed
    offers = inbox.received(Offer)
    # CHECK
    my_echo = echo(view, inbox, Commit)
    for j, message in offers.items():
        check_echo(my_echo, message.echo, j, view.me)
        # From records of one epoch follows one key. If not, one of them is damaged.
        check(
            message.public_key == setup.public_key,
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} signs with another key",
        )
    # COMPUTE
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
    for j, message in offers.items():
        step = view.step("step 7: multiplication, sender puts in r_i, sk_i")
        with step, setup.share.guarded(j, view.recall), blaming(j):
            c[j], reply = setup.mta.sender(
                setup.multiplication(j),
                direction_sid(keep.transcript, sender=view.me, receiver=j),
                message.offer,
                (first.r_i, sk_i),
                view.rng,
            )
        with view.step("step 7: Gamma, psi"):
            Gamma_u, Gamma_v, psi = steps.consistency_values(c[j], first.phi_i, keep.chi[j])
        responses[j] = Respond(reply, first.R_i, first.blinding, pk_i, Gamma_u, Gamma_v, psi)
    # KEEP, SEND
    return Turn(keep=AfterRespond(keep, sk_i, pk_i, c), direct=responses)


def round_4_share(view: View[EcdsaSetup], keep: AfterRespond, inbox: Inbox) -> Turn:
    """Steps 8 and 9: check everything, compute the share of the signature."""
    setup, second, first = view.setup, keep.offered, keep.offered.committed
    commits, responses = inbox.received(Commit), inbox.received(Respond)
    # CHECK
    d: dict[PartyId, tuple[Scalar, ...]] = {}
    for j, message in responses.items():
        with view.step("step 8: open R_j"):
            committed = commits[j]
            steps.check_opening(
                view.session_id,
                j,
                committed.commitment,
                message.blinding,
                committed.nonce,
                message.R_i,
            )
        with view.step("step 8: multiplication, receiver output"), blaming(j):
            d[j] = setup.mta.receiver_finish(second.offered[j], message.reply)
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
    # COMPUTE
    with view.step("step 9: R, u_i, v_i, w_i"):
        R, r_x = steps.combine_nonce((first.R_i, *(m.R_i for m in responses.values())))
        w_i, u_i = steps.signature_share(
            setup.message_scalar(),
            r_x,
            first.r_i,
            keep.sk_i,
            first.phi_i,
            tau=setup.tweak,
            psi=(message.psi for message in responses.values()),
            cd_u=(keep.c[j][0] + d[j][0] for j in d),
            cd_v=(keep.c[j][1] + d[j][1] for j in d),
        )
    # KEEP, SEND
    return Turn(keep=AfterShare(R, r_x), broadcast=SignatureShare(w_i, u_i))


def round_5_assemble(view: View[EcdsaSetup], keep: AfterShare, inbox: Inbox) -> Turn:
    """Step 10: assemble the signature and verify it before anyone sees it."""
    shares = [(m.w_i, m.u_i) for m in inbox.everyone(SignatureShare).values()]
    # CHECK, COMPUTE
    with view.step("step 10: assemble and verify"):
        signature = steps.assemble(
            view.setup.message_hash,
            view.setup.public_key,
            keep.R,
            keep.r_x,
            shares,
            view.others(),
        )
    return Turn(result=signature)


ROUNDS = (
    Round(1, "commit", round_1_commit, sends=(Sends(Commit, Delivery.BROADCAST),)),
    Round(2, "offer", round_2_offer, needs=(Commit,), sends=(Sends(Offer, Delivery.DIRECT),)),
    Round(3, "respond", round_3_respond, needs=(Offer,), sends=(Sends(Respond, Delivery.DIRECT),)),
    Round(
        4,
        "share",
        round_4_share,
        needs=(Respond,),
        sends=(Sends(SignatureShare, Delivery.BROADCAST),),
    ),
    Round(5, "assemble", round_5_assemble, needs=(SignatureShare,)),
)
