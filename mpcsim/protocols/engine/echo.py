"""Echo broadcast: every party repeats, to every other, a digest of each broadcast it received.

Without it a party can tell different things to different peers. With it the run aborts; the digests
are per sender, so the abort can say between whom the lie must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpcsim.crypto.encoding import Fixed, Message, PerParty
from mpcsim.crypto.hashing import Tag, tagged_hash, u32
from mpcsim.errors import Reason, check
from mpcsim.ids import PartyId
from mpcsim.protocols.engine.contract import Inbox, View

ECHO = PerParty(Fixed(32))
"""Codec of an echo field: sender to digest."""


def echo(view: View[Any], inbox: Inbox, kind: type[Message]) -> dict[PartyId, bytes]:
    """Return the digest of each sender's broadcast of that kind, this party's own included."""
    name = kind.__name__.encode()
    return {
        j: tagged_hash(Tag.ECHO, view.session_id, name, u32(j), message)
        for j, message in inbox.encoded(kind, view.wire).items()
    }


def check_echo(
    mine: Mapping[PartyId, bytes], theirs: Mapping[PartyId, bytes], peer: PartyId, me: PartyId
) -> None:
    """Compare a peer's echo with our own.

    A difference over the broadcast of party j means that j told us different things or that the
    peer reports falsely (or, before messages are sealed, that they were altered on the way): both
    are suspects, neither is convicted.

    Raises:
        CheckFailed: ECHO_MISMATCH.
    """
    check(
        mine.keys() == theirs.keys(),
        Reason.ECHO_MISMATCH,
        suspects={peer},
        detail=f"party {peer} echoes other senders",
    )
    for j, digest in mine.items():
        check(
            digest == theirs[j],
            Reason.ECHO_MISMATCH,
            suspects={j, peer} - {me},
            about={peer},
            detail=f"broadcast of party {j} as seen by party {peer}",
        )
