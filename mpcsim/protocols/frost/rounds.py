"""Rounds of FROST signing: commit, sign, aggregate. Every signer aggregates for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from mpcsim.crypto.encoding import BYTES32, U16, Bytes, Message, Optional, Seq, wire
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.group import Scalar
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.errors import CheckFailed, Reason, check
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.contract import Delivery, Inbox, Round, RoundOutput, Sends, View
from mpcsim.protocols.frost import steps
from mpcsim.protocols.frost.messages import Commitments, SignatureShare
from mpcsim.protocols.key_share import SHARE, KeyShare

MAX_MESSAGE_BYTES = 1 << 16
"""Longest message to sign. It is part of the set-up, never sent."""


@wire
class FrostSetup(Message):
    """Set-up that the signers agree on, with this signer's key share."""

    share: Annotated[KeyShare, SHARE]
    signers: Annotated[tuple[PartyId, ...], Seq(U16)]
    """Identifiers of the signers, in ascending order."""
    message: Annotated[bytes, Bytes(MAX_MESSAGE_BYTES)]
    hedge: Annotated[bytes | None, Optional(BYTES32)] = field(default=None, repr=False)
    """Encoded scalar that nonces are hedged with; None: the key share."""

    def context(self) -> bytes:
        """Digest of everything the signers must agree on beforehand (``context``)."""
        return context(self.share.record.epoch, self.signers, self.message)

    def roles(self) -> dict[str, tuple[PartyId, ...]]:
        return {"all": self.signers}

    def pair_secrets(self) -> Mapping[PartyId, bytes]:
        """Return the pair secrets that key generation made."""
        peers = self.share.peers
        return {j: peers[j].pair_secret for j in self.signers if j in peers}


def context(epoch: bytes, signers: Sequence[PartyId], message: bytes) -> bytes:
    """Return the digest of what a session is about; it takes no share to compute it.

    The epoch stands for the key, its threshold and all public shares: it is a hash of what all
    holders committed to when the shares were made.
    """
    everyone = b"".join(u32(i) for i in signers)
    return tagged_hash(Tag.CONTEXT, b"frost", epoch, everyone, message)


@dataclass(frozen=True)
class AfterCommit:
    """State kept from round 1."""

    context: bytes
    nonces: steps.SigningNonces = field(repr=False, compare=False)


@dataclass(frozen=True)
class AfterSign:
    """State kept from round 2."""

    seen: bytes
    bound: steps.Bound


def round_1_commit(view: View[FrostSetup], keep: None, inbox: Inbox) -> RoundOutput:
    """Draw nonces and commit to them."""
    setup = view.setup
    # COMPUTE
    secret = setup.share.secret_share
    if setup.hedge is not None:
        secret = ED25519.decode_scalar(setup.hedge)
    kept, message = commit(setup.context(), secret, view.rng)
    # KEEP, SEND
    return RoundOutput(keep=kept, broadcast=message)


def commit(context: bytes, hedge: Scalar, rng: Rng) -> tuple[AfterCommit, Commitments]:
    """Return the state and the message of round 1; it takes no share if ``hedge`` is another
    secret."""
    nonces, (D, E) = steps.commit(hedge, rng)
    return AfterCommit(context, nonces), Commitments(context, D, E)


def round_2_sign(view: View[FrostSetup], keep: AfterCommit, inbox: Inbox) -> RoundOutput:
    """Bind key, message and everyone's commitments; use up the nonces for a signature share."""
    share, message = view.setup.share, view.setup.message
    commitments = inbox.everyone(Commitments)
    # CHECK
    for j, received in commitments.items():
        check(
            received.context == keep.context,
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} signs something else, or with other shares or signers",
        )
    # COMPUTE
    commitment_list = [steps.Commitment(j, c.hiding, c.binding) for j, c in commitments.items()]
    with view.step("binding factors, group commitment, challenge"):
        known = {view.me: keep.nonces}
        bound = steps.bind(share.public_key, commitment_list, message, known)
    check(not bound.group_commitment.is_identity, Reason.DEGENERATE_NONCE)
    with view.step("signature share"):
        z_i = steps.sign(view.me, share.secret_share, keep.nonces, bound)
    encoded = steps.encode_group_commitment_list(commitment_list)
    # From records of one epoch follows one key. If not, one of them is damaged: then the parties
    # differ in what they have seen, and nobody's share is held against it.
    key = share.public_key.encode()
    seen = tagged_hash(Tag.FROST_VIEW, view.session_id, keep.context, key, encoded)
    # KEEP, SEND
    return RoundOutput(keep=AfterSign(seen, bound), broadcast=SignatureShare(seen, z_i))


def round_3_aggregate(view: View[FrostSetup], keep: AfterSign, inbox: Inbox) -> RoundOutput:
    """Add the shares up; release the signature only if it verifies, or else name the culprits."""
    record, message = view.setup.share.record, view.setup.message
    shares = inbox.everyone(SignatureShare)
    others = view.others()
    # CHECK
    for j in others:
        # The contexts agreed, so commitments or keys differ: party j reports falsely, or somebody
        # told the two of us different things, or one of us has a damaged record.
        check(
            shares[j].seen == keep.seen,
            Reason.ECHO_MISMATCH,
            suspects=others,
            about={j},
            detail=f"commitments, or the public key, as seen by party {j}",
        )
    # COMPUTE
    with view.step("aggregate and verify"):
        signature = steps.aggregate(keep.bound, (m.share for m in shares.values()))
        valid = steps.verify_signature(signature, record.public_key, message)
    # CHECK
    if not valid:
        with view.step("find the culprits"):
            raise _culprits(view, keep.bound, shares)
    return RoundOutput(result=signature)


def _culprits(
    view: View[FrostSetup], bound: steps.Bound, shares: Mapping[PartyId, SignatureShare]
) -> CheckFailed:
    """Return the failure that names every peer whose share does not fit its commitments.

    It names nobody only if our own key record or share is damaged: valid shares add up to a valid
    signature.
    """
    Y = view.setup.share.record.public_shares
    culprits = [
        j
        for j in view.others()
        if not steps.verify_signature_share(j, Y[j], shares[j].share, bound)
    ]
    if not culprits:
        return CheckFailed(Reason.SIGNATURE_INVALID, detail="every peer's share is valid")
    return CheckFailed(Reason.SIGNATURE_SHARE_INVALID, culprits)


COMMIT = Round(
    1,
    "commit",
    round_1_commit,
    sends=(Sends(Commitments, Delivery.BROADCAST),),
)
SIGN = Round(
    2,
    "sign",
    round_2_sign,
    needs=(Commitments,),
    sends=(Sends(SignatureShare, Delivery.BROADCAST),),
)
AGGREGATE = Round(3, "aggregate", round_3_aggregate, needs=(SignatureShare,))
