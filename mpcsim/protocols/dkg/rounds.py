"""Rounds of key generation; resharing runs the same ones with other dealers and one more round."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.groups.group import Group, Point, Scalar
from mpcsim.crypto.groups.polynomial import Polynomial
from mpcsim.crypto.groups.polynomial import commit as feldman_commit
from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.crypto.mta.base import Mta
from mpcsim.crypto.mta.schemes import mta_scheme
from mpcsim.errors import Reason, blaming, check
from mpcsim.ids import PartyId
from mpcsim.protocols.dkg import steps
from mpcsim.protocols.dkg.messages import Commit, Deal, MultiplicationOffer, Reveal
from mpcsim.protocols.engine.channel import pair_secret
from mpcsim.protocols.engine.contract import Delivery, Inbox, Round, RoundOutput, Sends, View
from mpcsim.protocols.engine.echo import check_echo, echo
from mpcsim.protocols.engine.transcript import transcript_hash
from mpcsim.protocols.key_share import Guard, KeyShare, PeerState, PublicKeyRecord


class DealingSetup(Message):
    """Set-up of a key generation or resharing, as the rounds see it: who deals what to whom."""

    threshold: int
    """Threshold t of the new shares."""
    scheme: str
    """Multiplication scheme to set up; empty on curves that need none."""

    @property
    def mta(self) -> Mta | None:
        return mta_scheme(self.scheme) if self.scheme else None

    @property
    @abstractmethod
    def group(self) -> Group: ...
    @property
    @abstractmethod
    def dealers(self) -> tuple[PartyId, ...]: ...
    @property
    @abstractmethod
    def receivers(self) -> tuple[PartyId, ...]: ...
    @abstractmethod
    def context(self) -> bytes:
        """Digest of everything the parties must agree on beforehand."""

    @abstractmethod
    def constant_term(self, view: View[Any]) -> Scalar:
        """a_{i,0} of this dealer."""

    @abstractmethod
    def check_constant_term(self, dealer: PartyId, C_0: Point) -> None:
        """Check a dealer's C_{l,0}.

        Raises:
            CheckFailed: it is not what it must be, naming the dealer.
        """

    def check_public_key(self, Y: Point) -> None:
        """Check the resulting public key; a new key may be any.

        Raises:
            CheckFailed: it is not what it must be.
        """

    @property
    def makes_chain_code(self) -> bool:
        """Return whether the parties agree on a chain code: for a new key on a curve with BIP
        32."""
        return False

    @property
    def old_chain_code(self) -> bytes | None:
        """Chain code of the key, if there is one already."""
        return None

    def old_pair_secret(self, peer: PartyId) -> bytes:
        """Return the secret already shared with the peer, to be carried over; empty if none."""
        return b""

    def roles(self) -> dict[str, tuple[PartyId, ...]]:
        everyone = tuple(sorted({*self.dealers, *self.receivers}))
        return {
            "all": everyone,
            "dealers": self.dealers,
            "receivers": self.receivers,
            "multipliers": self.receivers if self.mta else (),
        }


@dataclass(frozen=True)
class AfterCommit:
    """State kept from round 1."""

    polynomial: Polynomial = field(repr=False)
    coefficients: tuple[Point, ...]
    chain_code: bytes | None
    """c_i, the party's part in it."""
    channel_secret: bytes = field(repr=False)
    channel_key: bytes
    blinding: bytes = field(repr=False)


@dataclass(frozen=True)
class AfterReveal:
    """State kept from round 2."""

    committed: AfterCommit
    transcript: bytes
    offered: Mapping[PartyId, Any] = field(repr=False)
    """State of the multiplication set-up we offered."""
    offer_digests: Mapping[PartyId, bytes]
    """Digests of our offers; each peer must have received just ours."""


@dataclass(frozen=True)
class AfterDeal:
    """State kept from round 3."""

    committed: AfterCommit
    transcript: bytes
    offered: Mapping[PartyId, Any] = field(repr=False)
    offer_digests: Mapping[PartyId, bytes]
    answered: Mapping[PartyId, Any] = field(repr=False)
    """State of the multiplication set-up we answered."""
    pair_secrets: Mapping[PartyId, bytes] = field(repr=False)
    zero_seeds: Mapping[PartyId, bytes] = field(repr=False)
    coefficients: Mapping[PartyId, tuple[Point, ...]]
    """Committed coefficients C_l of every dealer."""
    chain_code: bytes | None
    """c: the hash of all parts in it, or the present chain code of the key."""


def round_1_commit(view: View[DealingSetup], keep: None, inbox: Inbox) -> RoundOutput:
    """Sample everything, commit to it, contribute a nonce to the transcript."""
    setup = view.setup
    # COMPUTE
    f: Polynomial = ()
    C: tuple[Point, ...] = ()
    if view.me in setup.dealers:
        with view.step("sample polynomial"):
            f = steps.sample_polynomial(setup.constant_term(view), setup.threshold, view.rng)
            C = feldman_commit(f)
    e, E = steps.channel_key_pair(view.rng)
    nonce, blinding = view.rng.bytes(32), view.rng.bytes(32)
    c = view.rng.bytes(32) if setup.makes_chain_code else None
    V = steps.commit_to_reveal(view.session_id, view.me, blinding, nonce, C, E, c=c)
    # KEEP, SEND
    return RoundOutput(
        keep=AfterCommit(f, C, c, e, E, blinding),
        broadcast=Commit(setup.context(), nonce, V),
    )


def round_2_reveal(view: View[DealingSetup], keep: AfterCommit, inbox: Inbox) -> RoundOutput:
    """Open the commitment, now that everyone is committed; begin the multiplication set-up."""
    setup = view.setup
    commits = inbox.everyone(Commit)
    # CHECK
    for j, message in commits.items():
        check(
            message.context == setup.context(),
            Reason.SESSION_MISMATCH,
            about={j},
            detail=f"party {j} runs another session",
        )
    # COMPUTE
    transcript = transcript_hash(view, inbox, Commit)
    proof = None
    if keep.polynomial:
        with view.step("prove constant term"):
            proof = steps.prove_constant_term(
                transcript, view.me, keep.polynomial[0], keep.coefficients[0], view.rng
            )
    offered: dict[PartyId, Any] = {}
    offers: dict[PartyId, Message] = {}
    if setup.mta and view.me in setup.receivers:
        with view.step("base OT, receiver"):
            for j in view.others("multipliers"):
                offered[j], offer = setup.mta.setup_start(transcript, view.me, j, view.rng)
                offers[j] = MultiplicationOffer(offer)
    # KEEP, SEND
    return RoundOutput(
        keep=AfterReveal(keep, transcript, offered, _digests(view, offers)),
        broadcast=Reveal(
            echo(view, inbox, Commit),
            keep.coefficients,
            proof,
            keep.chain_code,
            keep.channel_key,
            keep.blinding,
        ),
        direct=offers,
    )


def round_3_deal(view: View[DealingSetup], keep: AfterReveal, inbox: Inbox) -> RoundOutput:
    """Check what was revealed, agree on pairwise secrets, deal the shares."""
    setup, transcript = view.setup, keep.transcript
    commits, reveals = inbox.everyone(Commit), inbox.everyone(Reveal)
    # CHECK
    my_echo = echo(view, inbox, Commit)
    with view.step("check openings and proofs"):
        for j in view.others():
            check_echo(my_echo, reveals[j].echo, j, view.me)
            count = setup.threshold if j in setup.dealers else 0
            steps.check_reveal(
                view.session_id,
                transcript,
                j,
                commits[j],
                reveals[j],
                count=count,
                chain_code=setup.makes_chain_code,
            )
            if count:
                setup.check_constant_term(j, reveals[j].coefficients[0])
    # COMPUTE
    chain_code = setup.old_chain_code
    if parts := {j: reveal.chain_code for j, reveal in reveals.items() if reveal.chain_code}:
        chain_code = steps.chain_code(parts)
    pair_secrets: dict[PartyId, bytes] = {}
    zero_seeds: dict[PartyId, bytes] = {}
    with view.step("agree on pairwise secrets"):
        for j in view.others():
            dh = steps.channel_agreement(keep.committed.channel_secret, reveals[j].channel_key, j)
            pair = pair_secret(transcript, view.me, j, dh, setup.old_pair_secret(j))
            pair_secrets[j] = pair
            zero_seeds[j] = tagged_hash(Tag.ZERO_SEED, pair)
    answered: dict[PartyId, Any] = {}
    replies: dict[PartyId, Message] = {}
    if setup.mta:
        with view.step("base OT, sender"):
            for j, message in inbox.received(MultiplicationOffer).items():
                with blaming(j):
                    answered[j], replies[j] = setup.mta.setup_answer(
                        transcript, view.me, j, message.offer, view.rng
                    )
    f = keep.committed.polynomial
    seen = _digests(view, inbox.received(MultiplicationOffer))
    deals = {
        j: Deal(steps.deal(f, j) if f else None, seen.get(j), replies.get(j))
        for j in view.others("receivers")
    }
    # KEEP, SEND
    return RoundOutput(
        keep=AfterDeal(
            keep.committed,
            transcript,
            keep.offered,
            keep.offer_digests,
            answered,
            pair_secrets,
            zero_seeds,
            {j: reveals[j].coefficients for j in setup.dealers},
            chain_code,
        ),
        direct=deals,
        pair_secrets=pair_secrets,
    )


def _digests(view: View[DealingSetup], offers: Mapping[PartyId, Message]) -> dict[PartyId, bytes]:
    """Return digests of offers, which travel unsealed, for the two ends of a pair to compare."""
    return {j: tagged_hash(Tag.OFFER, offer.encode(view.wire)) for j, offer in offers.items()}


def new_record(view: View[DealingSetup], keep: AfterDeal) -> PublicKeyRecord:
    """Return the public record that follows from the revealed polynomials; all parties' is the
    same."""
    setup, group = view.setup, view.setup.group
    C = list(keep.coefficients.values())
    with view.step("public key and public shares"):
        Y = steps.public_key(group, C)
        Y_i = steps.public_shares(group, C, setup.receivers)
    epoch = epoch_of(keep.transcript)
    return PublicKeyRecord(group.name, setup.threshold, epoch, Y, Y_i, chain_code=keep.chain_code)


def epoch_of(transcript: bytes) -> bytes:
    """Return the name of the shares that come of a transcript, known before any is dealt."""
    return tagged_hash(Tag.EPOCH, transcript)


def new_share(
    view: View[DealingSetup], keep: AfterDeal, inbox: Inbox, record: PublicKeyRecord
) -> KeyShare:
    """Check the dealt shares and put this receiver's key share together."""
    setup, transcript = view.setup, keep.transcript
    deals = inbox.received(Deal)
    # CHECK
    shares: list[Scalar] = []
    with view.step("check dealt shares"):
        for j, message in deals.items():
            check(
                message.offer_seen == keep.offer_digests.get(j),
                Reason.ECHO_MISMATCH,
                suspects={j},
                detail=f"our multiplication offer as seen by party {j}",
            )
            check(
                (message.share is not None) == (j in setup.dealers)
                and (message.reply is not None) == (j in keep.offered),
                Reason.MALFORMED_MESSAGE,
                j,
                detail="Deal with a part missing or too many",
            )
            if message.share is not None:
                steps.check_share(keep.coefficients[j], view.me, message.share, j)
                shares.append(message.share)
    # COMPUTE
    if keep.committed.polynomial:
        shares.append(steps.deal(keep.committed.polynomial, view.me))
    peers: dict[PartyId, PeerState] = {}
    with view.step("base OT, receiver output"):
        for j in view.others("receivers"):
            multiplication = None
            reply = deals[j].reply
            if setup.mta and reply is not None:
                with blaming(j):
                    multiplication = setup.mta.setup_finish(
                        transcript, view.me, j, keep.offered[j], keep.answered[j], reply
                    )
            peers[j] = PeerState(keep.pair_secrets[j], keep.zero_seeds[j], multiplication)
    secret_share = steps.combine_shares(setup.group, shares)
    guard = Guard.of(record.epoch, view.me)
    return KeyShare(record, view.me, secret_share, peers, setup.mta, guard)


def round_4_finish(view: View[DealingSetup], keep: AfterDeal, inbox: Inbox) -> RoundOutput:
    """Check the dealt shares; the key share is done."""
    return RoundOutput(result=new_share(view, keep, inbox, new_record(view, keep)))


COMMIT = Round(
    1,
    "commit",
    round_1_commit,
    sends=(Sends(Commit, Delivery.BROADCAST, sealed=False),),
)
REVEAL = Round(
    2,
    "reveal",
    round_2_reveal,
    needs=(Commit,),
    sends=(
        Sends(Reveal, Delivery.BROADCAST, sealed=False),
        Sends(MultiplicationOffer, Delivery.DIRECT, "multipliers", "multipliers", sealed=False),
    ),
)
DEAL = Round(
    3,
    "deal",
    round_3_deal,
    needs=(Reveal, MultiplicationOffer),
    sends=(Sends(Deal, Delivery.DIRECT, "all", "receivers"),),
)
FINISH = Round(4, "finish", round_4_finish, needs=(Deal,))
