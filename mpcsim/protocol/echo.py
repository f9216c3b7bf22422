"""Echo broadcast: every party repeats, to every other, a digest of each broadcast it received.

Without it a party can tell different things to different peers. With it the run aborts; the digests
are per sender, so the abort can say between whom the lie must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpcsim.encoding import Fixed, Message, PerParty
from mpcsim.errors import Reason, check
from mpcsim.hashing import Tag, tagged_hash, u32
from mpcsim.ids import PartyId
from mpcsim.protocol.contract import Inbox, View

ECHO = PerParty(Fixed(32))
"""Codec of an echo field: sender to digest."""


def echo(view: View[Any], inbox: Inbox, kind: type[Message]) -> dict[PartyId, bytes]:
    """The digest of each sender's broadcast of that kind, this party's own included."""
    return {
        j: tagged_hash(
            Tag.ECHO, view.session_id, kind.__name__.encode(), u32(j), message.encode(view.wire)
        )
        for j, message in inbox.everyone(kind).items()
    }


def check_echo(
    mine: Mapping[PartyId, bytes], theirs: Mapping[PartyId, bytes], peer: PartyId, me: PartyId
) -> None:
    """Compare a peer's echo with our own.

    A digest of the peer's own broadcast, or of ours, that differs convicts the peer (channels are
    authentic). Where the broadcast of a third party differs, either of the two may lie.
    """
    check(theirs.keys() == mine.keys(), Reason.ECHO_MISMATCH, peer, detail="echo of other senders")
    for j, digest in mine.items():
        if theirs[j] != digest:
            detail = f"broadcast of party {j} as seen by party {peer}"
            if j in (me, peer):
                check(False, Reason.ECHO_MISMATCH, peer, detail=detail)
            check(False, Reason.ECHO_MISMATCH, suspects={j, peer}, detail=detail)
