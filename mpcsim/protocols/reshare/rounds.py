"""Rounds of resharing: those of key generation, then a second phase.

Rounds 1 to 3 are ``dkg``'s, run by other dealers. Round 4 ends phase one: the new share is
*prepared*. Round 5 ends phase two, once every receiver has confirmed: the new share is *active*.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mpcsim.crypto.hashing import Tag, tagged_hash
from mpcsim.errors import Reason, check
from mpcsim.protocols.dkg.messages import Confirm, Deal
from mpcsim.protocols.dkg.rounds import (
    COMMIT,
    DEAL,
    REVEAL,
    AfterDeal,
    DealingSetup,
    new_record,
    new_share,
)
from mpcsim.protocols.engine.contract import Delivery, Inbox, Round, RoundOutput, Sends, View
from mpcsim.protocols.key_share import KeyShare, PublicKeyRecord


@dataclass(frozen=True)
class AfterPrepare:
    """State kept from round 4."""

    transcript: bytes
    record: PublicKeyRecord
    share: KeyShare | None = field(repr=False)


def _confirmation(transcript: bytes, record: PublicKeyRecord) -> bytes:
    return tagged_hash(Tag.CONFIRM, transcript, record.to_bytes())


def round_4_prepare(view: View[DealingSetup], keep: AfterDeal, inbox: Inbox) -> RoundOutput:
    """Check the dealt shares, keep the new share, and confirm that to everyone."""
    # CHECK, COMPUTE
    record = new_record(view, keep)
    view.setup.check_public_key(record.public_key)
    share = None
    if view.me in view.setup.receivers:
        share = new_share(view, keep, inbox, record)
    # KEEP, SEND
    return RoundOutput(
        keep=AfterPrepare(keep.transcript, record, share),
        prepared=share,
        phase_one_over=True,
        broadcast=Confirm(_confirmation(keep.transcript, record)) if share else None,
    )


def round_5_activate(view: View[DealingSetup], keep: AfterPrepare, inbox: Inbox) -> RoundOutput:
    """Check that every receiver holds its new share: the old ones may go."""
    # CHECK
    expected = _confirmation(keep.transcript, keep.record)
    for j, message in inbox.received(Confirm).items():
        # The transcript binds every commitment and each opening was checked against it, so an
        # honest party that could seal this message computed the same record.
        check(message.digest == expected, Reason.CONFIRMATION_MISMATCH, j)
    return RoundOutput(result=keep.share)


ROUNDS = (
    COMMIT,
    REVEAL,
    DEAL,
    Round(
        4,
        "prepare",
        round_4_prepare,
        needs=(Deal,),
        sends=(Sends(Confirm, Delivery.BROADCAST, "receivers", "all"),),
    ),
    Round(5, "activate", round_5_activate, needs=(Confirm,)),
)
