"""Rounds of threshold ECDSA: commit, offer, respond, share.

Round 3 depends on the peer's round 2 alone, and round 2 on round 1; so two signers, one of whom
starts, need two round trips: (commit; commit, offer), (offer, respond; respond, share).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from mpcsim.crypto.bip32 import PATH, Path, path_bytes
from mpcsim.crypto.encoding import BYTES32, wire
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.groups.secp256k1 import Secp256k1Point
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.errors import Reason, check
from mpcsim.ids import PartyId
from mpcsim.protocols.ecdsa import products, steps
from mpcsim.protocols.ecdsa.messages import Commit, Offer, Respond, SignatureShare
from mpcsim.protocols.ecdsa.products import (
    AfterCommit,
    AfterOffer,
    AfterRespond,
    Committed,
    SignerSetup,
)
from mpcsim.protocols.engine.contract import Delivery, Inbox, Round, RoundOutput, Sends, View
from mpcsim.protocols.engine.echo import check_echo, echo
from mpcsim.protocols.engine.transcript import transcript_hash


@wire
class EcdsaSetup(SignerSetup):
    """Set-up of one signer."""

    message_hash: Annotated[bytes, BYTES32]
    path: Annotated[Path, PATH] = ()
    """Path of the child key to sign with; empty: the key itself."""

    @property
    def public_key(self) -> Point:
        """Public key that the signature is to be valid under: pk + tau * G."""
        return self.share.record.derive(self.path)[0]

    @property
    def tweak(self) -> Scalar:
        """tau: difference between the key to sign with and pk."""
        return self.share.record.derive(self.path)[1]

    def message_scalar(self) -> Scalar:
        """SHA2(m) as a scalar."""
        return steps.message_scalar(self.message_hash)

    def context(self) -> bytes:
        """Digest of everything the signers must agree on beforehand (``context``)."""
        return context(self.share.record.epoch, self.signers, self.message_hash, self.path)


def context(
    epoch: bytes, signers: Sequence[PartyId], message_hash: bytes, path: Path = ()
) -> bytes:
    """Return the digest of what a session is about; it takes no share to compute it.

    The epoch stands for the key, its chain code and threshold, all public shares and the
    multiplication scheme: it is a hash of what all holders committed to when the shares were made.
    """
    everyone = b"".join(u32(i) for i in signers)
    return tagged_hash(Tag.CONTEXT, b"ecdsa", message_hash, epoch, everyone, path_bytes(path))


@dataclass(frozen=True)
class AfterShare:
    """State kept from round 4."""

    R: Secp256k1Point
    r_x: Scalar


def round_1_commit(view: View[EcdsaSetup], keep: None, inbox: Inbox) -> RoundOutput:
    """Step 5: sample nonce share and mask, commit to the nonce share."""
    # COMPUTE
    with view.step("step 5: sample r_i, phi_i; commit to R_i"):
        kept, message = commit(view.setup.context(), view.session_id, view.me, view.rng)
    # KEEP, SEND
    return RoundOutput(keep=kept, broadcast=message)


def commit(context: bytes, session_id: bytes, me: PartyId, rng: Rng) -> tuple[AfterCommit, Commit]:
    """Return the state and the message of round 1; it takes no share."""
    r_i, R_i, phi_i = products.draw_nonce(rng)
    nonce, blinding = rng.bytes(32), rng.bytes(32)
    commitment = steps.commit_nonce(session_id, me, blinding, nonce, R_i)
    return AfterCommit(r_i, R_i, phi_i, blinding), Commit(context, nonce, commitment)


def round_2_offer(view: View[EcdsaSetup], keep: AfterCommit, inbox: Inbox) -> RoundOutput:
    """Step 6: as multiplication receiver, offer chi_{i,j} to every peer.

    Spec: DKLs23 | Protocol 3.6 | step 6
    Differs: a message later than the commitments, because the multiplications bind the transcript.
    """
    setup = view.setup
    commits, context = inbox.everyone(Commit), setup.context()
    # CHECK
    for j, message in commits.items():
        check(
            message.context == context,
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} signs something else, or with other shares",
        )
    # COMPUTE
    transcript = transcript_hash(view, inbox, Commit)
    my_echo = echo(view, inbox, Commit)
    kept, offers = products.offer(view, keep, transcript)
    # KEEP, SEND
    return RoundOutput(
        keep=kept,
        direct={j: Offer(my_echo, setup.public_key, offer) for j, offer in offers.items()},
    )


def round_3_respond(view: View[EcdsaSetup], keep: AfterOffer, inbox: Inbox) -> RoundOutput:
    """Step 7: as multiplication sender, put in r_i and sk_i; open the nonce share."""
    offers = inbox.received(Offer)
    # CHECK
    my_echo = echo(view, inbox, Commit)
    public_key = view.setup.public_key
    for j, message in offers.items():
        check_echo(my_echo, message.echo, j, view.me)
        # From records of one epoch follows one key. If not, one of them is damaged.
        check(
            message.public_key == public_key,
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} signs with another key",
        )
    # COMPUTE
    kept, responses = products.respond(view, keep, {j: m.offer for j, m in offers.items()})
    # KEEP, SEND
    return RoundOutput(keep=kept, direct=responses)


def round_4_share(view: View[EcdsaSetup], keep: AfterRespond, inbox: Inbox) -> RoundOutput:
    """Steps 8 and 9: check everything, compute the share of the signature."""
    # CHECK, COMPUTE
    setup = view.setup
    committed = {j: Committed(m.commitment, m.nonce) for j, m in inbox.received(Commit).items()}
    made = products.finish(view, view.session_id, keep, committed, inbox.received(Respond))
    with view.step("step 9: w_i"):
        m, tau = setup.message_scalar(), setup.tweak
        w_i = steps.numerator(m, made.r_x, made.phi_i, made.v_i, tau)
    # KEEP, SEND
    return RoundOutput(keep=AfterShare(made.R, made.r_x), broadcast=SignatureShare(w_i, made.u_i))


def round_5_assemble(view: View[EcdsaSetup], keep: AfterShare, inbox: Inbox) -> RoundOutput:
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
    return RoundOutput(result=signature)


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
