"""Resharing: any t holders give n parties fresh shares of the same key.

Used to refresh all shares proactively, to replace a lost one, and to change threshold or holders.
The public key stays; every share, pairwise seed and multiplication state is new; shares of
different epochs do not combine. The chain code stays, too.

Protocol: every dealer i shares lambda_i * x_i as in key generation. Its constant term is checked
against the public record, C_{i,0} = lambda_i * X_i, so the key cannot shift and a dealer that
tries is named. The record is part of the session's context: all parties start from the same one.

Two phases, so that no crash leaves fewer than t matching shares:

* ``Prepared``: this party holds its new share. Store it durably *beside* the old one before the
  messages of the same batch go out.
* ``Done``: every receiver has confirmed that it is prepared. Only now may the old share go.

A party that is done has proof that all are prepared; so no party drops the old epoch unless all
hold the new one. Duties of the caller:

* A run that ends before ``Prepared`` here (abort, crash, timeout) can be rolled back: nobody is
  done. A dealer that receives nothing is past that point once it has dealt.
* After ``Prepared`` keep both shares until ``Done``, whatever happens, an abort included
  (``Aborted.prepared``): another party may be done. Resume from the snapshot and deliver its
  outputs again; a peer's report of an abort no longer ends the run (``Waiting.gave_up``).
* A party that is done keeps its snapshot until the others are done, too: they may need its
  confirmation once more.
* One open resharing per key and party. Two that run at once from the same epoch could each finish
  at other parties last, and leave nobody with matching shares.
* Holders that neither deal nor receive keep working shares of the old epoch; take them in or
  count them as lost.

Assumptions: as in key generation; fewer than t parties corrupt within one epoch. Dealers seal what
they tell each other under their old pairwise secrets, and their proofs of knowledge authenticate
them to new receivers. A receiver without an old share is vouched for by the transport in the first
two rounds.
"""

from __future__ import annotations

from typing import Annotated, Any

from mpcsim.crypto.encoding import U16, Optional, Seq, Text, WireContext, wire
from mpcsim.crypto.groups.group import Group, Point, Scalar
from mpcsim.crypto.groups.polynomial import lagrange_coefficient
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.crypto.mta.base import Mta
from mpcsim.crypto.rng import Rng
from mpcsim.errors import InternalError, Reason, UsageError, check, check_type
from mpcsim.ids import PartyId, party_ids
from mpcsim.protocols.dkg import check_scheme, check_threshold, multiplication_scheme
from mpcsim.protocols.dkg.rounds import DealingSetup
from mpcsim.protocols.engine import Definition, Party, View
from mpcsim.protocols.engine.events import Listener, silent
from mpcsim.protocols.key_share import (
    RECORD,
    SHARE,
    KeyShare,
    PublicKeyRecord,
    check_record,
    quorum_problem,
)
from mpcsim.protocols.reshare.rounds import ROUNDS


@wire
class ReshareSetup(DealingSetup):
    """Set-up of one party of a resharing."""

    record: Annotated[PublicKeyRecord, RECORD]
    """Present record of the key."""
    dealer_ids: Annotated[tuple[PartyId, ...], Seq(U16)]
    receiver_ids: Annotated[tuple[PartyId, ...], Seq(U16)]
    threshold: Annotated[int, U16]
    """The new threshold."""
    scheme: Annotated[str, Text(32)]
    share: Annotated[KeyShare | None, Optional(SHARE)] = None
    """This party's old share, if it is a dealer."""

    @property
    def group(self) -> Group:
        return self.record.group

    @property
    def dealers(self) -> tuple[PartyId, ...]:
        return self.dealer_ids

    @property
    def receivers(self) -> tuple[PartyId, ...]:
        return self.receiver_ids

    def context(self) -> bytes:
        return tagged_hash(
            Tag.CONTEXT,
            b"reshare",
            self.record.to_bytes(),
            b"".join(u32(i) for i in self.dealers),
            b"".join(u32(i) for i in self.receivers),
            u32(self.threshold),
            self.scheme.encode(),
        )

    def constant_term(self, view: View[Any]) -> Scalar:
        """lambda_i * x_i."""
        if self.share is None:
            raise InternalError("a dealer without its old share")
        lambda_i = lagrange_coefficient(self.group, view.me, self.dealers)
        return lambda_i * self.share.secret_share

    def check_constant_term(self, dealer: PartyId, C_0: Point) -> None:
        """Check C_{l,0} = lambda_l * X_l; with all dealers honest in this, the key stays the
        same."""
        lambda_l = lagrange_coefficient(self.group, dealer, self.dealers)
        check(
            lambda_l * self.record.public_shares[dealer] == C_0,
            Reason.WRONG_CONSTANT_TERM,
            dealer,
        )

    def check_public_key(self, Y: Point) -> None:
        """Check that the key is still the same (which follows if the old record is sound)."""
        check(self.record.public_key == Y, Reason.PUBLIC_KEY_MISMATCH)

    @property
    def old_chain_code(self) -> bytes | None:
        """Chain code of the key, which keeps its children."""
        return self.record.chain_code

    def old_pair_secret(self, peer: PartyId) -> bytes:
        """Return the pair secret of two dealers; with it the transport cannot impersonate
        either."""
        if self.share is None or peer not in self.dealers or peer not in self.share.peers:
            return b""
        return self.share.peers[peer].pair_secret


def check_setup(agreed: ReshareSetup, me: PartyId) -> None:
    """Check a set-up for everything that can be wrong before a session begins.

    Raises:
        UsageError: an inconsistent record, too few or unknown dealers, unsorted or duplicate
            parties, a bad threshold or scheme, a share of another key or epoch, a dealer without
            its old share.
    """
    check_record(agreed.record)
    for ids in (agreed.dealers, agreed.receivers):
        if party_ids(ids) != ids:
            raise UsageError(f"parties {list(ids)} are not in ascending order")
    if problem := quorum_problem(agreed.record, agreed.dealers):
        raise UsageError(problem)
    check_threshold(agreed.threshold, agreed.receivers)
    check_scheme(agreed.record.curve_name, agreed.scheme)
    if agreed.share is not None and agreed.share.record != agreed.record:
        raise UsageError("the share is of another key or epoch than the record")
    if me in agreed.dealers and (agreed.share is None or agreed.share.identifier != me):
        raise UsageError(f"party {me} is a dealer and needs its old share")
    if me not in agreed.dealers and agreed.share is not None:
        raise UsageError(f"party {me} does not deal: it must not bring an old share")


RESHARE: Definition[ReshareSetup, KeyShare | None] = Definition(
    name="reshare",
    number=4,
    rounds=ROUNDS,
    setup=ReshareSetup,
    roles=lambda setup: setup.roles(),
    wire=lambda setup: WireContext(setup.group, setup.mta),
    pair_secrets=lambda setup: {
        j: secret for j in setup.dealers if (secret := setup.old_pair_secret(j))
    },
    check=check_setup,
    identified="dealers",
)


def setup(
    record: PublicKeyRecord,
    dealers: tuple[int, ...],
    *,
    share: KeyShare | None = None,
    receivers: tuple[int, ...] | None = None,
    threshold: int | None = None,
    scheme: str | Mta | None = None,
) -> ReshareSetup:
    """Return a checked set-up; everything but ``share`` must be the same at all parties.

    Args:
        record: the public record of the key.
        dealers: t or more holders who deal from their old shares.
        share: this party's old share; needed if it deals.
        receivers: parties that get a new share; the present holders by default.
        threshold: the new threshold; the present one by default.
        scheme: multiplication scheme to set up, as for key generation.

    Raises:
        UsageError: too few or unknown dealers, duplicates, a bad threshold, a share of another
            key or epoch.
    """
    check_type("record", record, PublicKeyRecord)
    dealer_ids = party_ids(dealers, "dealers")
    receiver_ids = party_ids(record.holders if receivers is None else receivers, "receivers")
    if problem := quorum_problem(record, dealer_ids):
        raise UsageError(problem)
    t = record.threshold if threshold is None else threshold
    check_threshold(t, receiver_ids)
    if share is not None:
        check_type("share", share, KeyShare)
        if share.record != record:
            raise UsageError("the share is of another key or epoch than the record")
        if share.identifier not in dealer_ids:
            share = None  # it will not be used: do not carry it along
    return ReshareSetup(
        record,
        dealer_ids,
        receiver_ids,
        t,
        multiplication_scheme(record.curve_name, scheme),
        share,
    )


def party(
    agreed: ReshareSetup,
    me: int,
    *,
    session_id: bytes,
    rng: Rng | None = None,
    listener: Listener = silent,
) -> Party[ReshareSetup, KeyShare | None]:
    """Return one party of a resharing; its result is its new ``KeyShare``, None for a pure dealer.

    Raises:
        UsageError: ``me`` takes no part, or deals without its old share (or with another's).
    """
    return Party(RESHARE, agreed, me, session_id=session_id, rng=rng, listener=listener)
