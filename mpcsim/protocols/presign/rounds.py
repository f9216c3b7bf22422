"""Rounds of presigning: commit, offer, respond, finish, as in signing but for many at once.

All checks of a round come before anything of the next one is sent, and an abort does not say which
presignature it is about. (How long it takes may: offers are checked one after the other.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from mpcsim.crypto.encoding import U16, wire
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.rng import Rng
from mpcsim.errors import Reason, check
from mpcsim.ids import PartyId
from mpcsim.protocols.ecdsa import products
from mpcsim.protocols.ecdsa.products import Committed, SignerSetup
from mpcsim.protocols.ecdsa.steps import commit_nonce
from mpcsim.protocols.engine.contract import Delivery, Inbox, Round, RoundOutput, Sends, View
from mpcsim.protocols.engine.echo import check_echo, echo
from mpcsim.protocols.engine.transcript import transcript_hash
from mpcsim.protocols.presign.messages import Commit, Offer, Respond
from mpcsim.protocols.presign.presignature import Presignature, Use
from mpcsim.protocols.presign.steps import commit_later, derive_name


@wire
class PresignSetup(SignerSetup):
    """Set-up of one signer."""

    count: Annotated[int, U16]
    """Number of presignatures to make."""

    def context(self) -> bytes:
        """Digest of everything the signers must agree on beforehand (``context``)."""
        return context(self.share.record.epoch, self.signers, self.count)


def context(epoch: bytes, signers: Sequence[PartyId], count: int) -> bytes:
    """Return the digest of what a session is about; it takes no share to compute it."""
    everyone = b"".join(u32(i) for i in signers)
    return tagged_hash(Tag.CONTEXT, b"presign", u32(count), epoch, everyone)


@dataclass(frozen=True)
class Later:
    """Randomiser that one signer adds to a nonce once the message is known, with its blinding."""

    rho_i: bytes = field(repr=False)
    blinding: bytes = field(repr=False)


@dataclass(frozen=True)
class AfterCommit:
    """State kept from round 1, for each presignature."""

    nonces: tuple[products.AfterCommit, ...]
    later: tuple[Later, ...]


@dataclass(frozen=True)
class AfterOffer:
    """State kept from round 2, for each presignature."""

    nonces: tuple[products.AfterOffer, ...]
    later: tuple[Later, ...]


@dataclass(frozen=True)
class AfterRespond:
    """State kept from round 3, for each presignature."""

    nonces: tuple[products.AfterRespond, ...]
    later: tuple[Later, ...]


def round_1_commit(view: View[PresignSetup], keep: None, inbox: Inbox) -> RoundOutput:
    """Step 5: sample nonce shares, masks and rho_i; commit to the nonce shares and to rho_i."""
    # COMPUTE
    setup = view.setup
    with view.step("step 5: sample r_i, phi_i, rho_i; commit to R_i, rho_i"):
        kept, message = commit(setup.context(), setup.count, view.session_id, view.me, view.rng)
    # KEEP, SEND
    return RoundOutput(keep=kept, broadcast=message)


def commit(
    context: bytes, count: int, session_id: bytes, me: PartyId, rng: Rng
) -> tuple[AfterCommit, Commit]:
    """Return the state and the message of round 1; it takes no share."""
    drawn = [products.draw_nonce(rng) for _ in range(count)]
    nonce = rng.bytes(32)
    nonces, later, commitments, for_later = [], [], [], []
    for k, (r_i, R_i, phi_i) in enumerate(drawn):
        name = derive_name(session_id, k)
        first = products.AfterCommit(r_i, R_i, phi_i, blinding=rng.bytes(32))
        more = Later(rng.bytes(32), rng.bytes(32))
        nonces.append(first)
        later.append(more)
        commitments.append(commit_nonce(name, me, first.blinding, nonce, R_i))
        for_later.append(commit_later(name, me, more.blinding, more.rho_i))
    message = Commit(context, nonce, tuple(commitments), tuple(for_later))
    return AfterCommit(tuple(nonces), tuple(later)), message


def round_2_offer(view: View[PresignSetup], keep: AfterCommit, inbox: Inbox) -> RoundOutput:
    """Step 6: as multiplication receiver, offer a chi_{i,j} to every peer for each."""
    setup = view.setup
    # CHECK
    for j, message in inbox.everyone(Commit).items():
        check(
            message.context == setup.context(),
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} makes other presignatures, or with other shares",
        )
        check_count(len(message.commitments), setup.count, j)
        check_count(len(message.later), setup.count, j)
    # COMPUTE
    transcript = transcript_hash(view, inbox, Commit)
    my_echo = echo(view, inbox, Commit)
    made = [
        products.offer(view, first, derive_name(transcript, k))
        for k, first in enumerate(keep.nonces)
    ]
    # KEEP, SEND
    kept = AfterOffer(tuple(nonce for nonce, _ in made), keep.later)
    key = setup.share.public_key
    direct = {j: Offer(my_echo, key, tuple(offers[j] for _, offers in made)) for j in view.others()}
    return RoundOutput(keep=kept, direct=direct)


def round_3_respond(view: View[PresignSetup], keep: AfterOffer, inbox: Inbox) -> RoundOutput:
    """Step 7: as multiplication sender, put in each r_i and sk_i; open the nonce shares."""
    offers = inbox.received(Offer)
    # CHECK
    my_echo = echo(view, inbox, Commit)
    for j, message in offers.items():
        check_echo(my_echo, message.echo, j, view.me)
        # From records of one epoch follows one key. If not, one of them is damaged.
        check(
            message.public_key == view.setup.share.public_key,
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} makes presignatures for another key",
        )
    for j, message in offers.items():
        check_count(len(message.offers), view.setup.count, j)
    # COMPUTE
    made = [
        products.respond(view, nonce, {j: m.offers[k] for j, m in offers.items()})
        for k, nonce in enumerate(keep.nonces)
    ]
    # KEEP, SEND
    kept = AfterRespond(tuple(nonce for nonce, _ in made), keep.later)
    direct = {j: Respond(tuple(answers[j] for _, answers in made)) for j in view.others()}
    return RoundOutput(keep=kept, direct=direct)


def round_4_finish(view: View[PresignSetup], keep: AfterRespond, inbox: Inbox) -> RoundOutput:
    """Steps 8 and 9: check everything, keep the products."""
    setup = view.setup
    commits, responses = inbox.received(Commit), inbox.received(Respond)
    # CHECK
    for j, message in responses.items():
        check_count(len(message.responses), setup.count, j)
    # CHECK, COMPUTE
    presignatures = []
    for k, (nonce, later) in enumerate(zip(keep.nonces, keep.later, strict=True)):
        name, identifier = derive_name(view.session_id, k), nonce.offered.transcript
        made = products.finish(
            view,
            name,
            nonce,
            {j: Committed(m.commitments[k], m.nonce) for j, m in commits.items()},
            {j: m.responses[k] for j, m in responses.items()},
        )
        presignatures.append(
            Presignature(
                id=identifier,
                holder=view.me,
                epoch=setup.share.record.epoch,
                signers=setup.signers,
                name=name,
                R=made.R,
                phi_i=made.phi_i,
                u_i=made.u_i,
                v_i=made.v_i,
                rho_i=later.rho_i,
                blinding=later.blinding,
                commitments={j: m.later[k] for j, m in commits.items()},
                use=Use.of(identifier, view.me),
            )
        )
    return RoundOutput(result=tuple(presignatures))


def check_count(found: int, count: int, j: PartyId) -> None:
    """Check that a message has one item for each presignature.

    Raises:
        CheckFailed: MALFORMED_MESSAGE, naming ``j``.
    """
    check(found == count, Reason.MALFORMED_MESSAGE, j, detail=f"{found} items, {count} expected")


ROUNDS = (
    Round(1, "commit", round_1_commit, sends=(Sends(Commit, Delivery.BROADCAST),)),
    Round(2, "offer", round_2_offer, needs=(Commit,), sends=(Sends(Offer, Delivery.DIRECT),)),
    Round(3, "respond", round_3_respond, needs=(Offer,), sends=(Sends(Respond, Delivery.DIRECT),)),
    Round(4, "finish", round_4_finish, needs=(Respond,)),
)
