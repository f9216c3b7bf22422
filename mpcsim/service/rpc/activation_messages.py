"""Messages of key activation between the gateway and an MPC node.

``standing`` asks what there is, ``vote`` for a signature under a key record, ``abort`` for one that
there never will be such a signature; ``activate`` and ``drop`` bring what follows from the other
node's signature. All of them may be asked twice.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from mpcsim.crypto.encoding import U32, Bytes, Fixed, Nested, Optional, Seq, Text, wire
from mpcsim.service.rpc.statements import Abort, HeldShare, SignedRecord
from mpcsim.service.rpc.wire import SIGNATURE_BYTES, Body

PREPARED: Final = "prepared"
VOTED: Final = "voted"
ACTIVE: Final = "active"
"""States of a share."""

PAGE: Final = 500
"""Most shares in a reply to ``holdings``."""


class ShareInfo(NamedTuple):
    """Metadata of a share in an MPC node's store, without the share."""

    key_id: str
    user_id: str
    curve: str
    public_key: bytes
    state: str
    recoveries: int


@wire
class GetActivationState(Body):
    """``standing``: of a user's key on a curve."""

    user_id: Annotated[str, Text(64)]
    curve_name: Annotated[str, Text(16)]


@wire
class ActivationState(Body):
    """Reply to ``standing``."""

    active: Annotated[HeldShare | None, Optional(Nested(HeldShare))]
    voted: Annotated[HeldShare | None, Optional(Nested(HeldShare))]


@wire
class AbortEpoch(Body):
    """``abort``: never vote for an epoch."""

    abort: Annotated[Abort, Nested(Abort)]
    """Statement to be signed."""
    vote: Annotated[SignedRecord | None, Optional(Nested(SignedRecord))]
    """The other MPC node's vote for it; a node that holds no such share signs for nothing less."""


@wire
class AbortEpochReply(Body):
    """Reply to ``abort``: either of these."""

    signature: Annotated[bytes | None, Optional(Fixed(SIGNATURE_BYTES))]
    """Under the abort."""
    held: Annotated[HeldShare | None, Optional(Nested(HeldShare))]
    """The share that this node has voted for."""


@wire
class DropShare(Body):
    """``drop``: the other MPC node never votes for these shares."""

    abort: Annotated[Abort, Nested(Abort)]
    signature: Annotated[bytes, Fixed(SIGNATURE_BYTES)]


@wire
class ListShares(Body):
    """``holdings``: what shares there are, a page at a time."""

    after: Annotated[str, Text(64)]
    """The last key_id seen; empty to begin with."""


@wire
class _Row(Body):
    key_id: Annotated[str, Text(64)]
    user_id: Annotated[str, Text(64)]
    curve: Annotated[str, Text(16)]
    public_key: Annotated[bytes, Bytes(64)]
    state: Annotated[str, Text(16)]
    recoveries: Annotated[int, U32]


@wire
class ShareInfoPage(Body):
    """Reply to ``holdings``, in the order of key_ids; the last page is not full."""

    rows: Annotated[tuple[_Row, ...], Seq(Nested(_Row), PAGE)]

    @classmethod
    def of(cls, page: list[ShareInfo]) -> ShareInfoPage:
        """A page."""
        return cls(tuple(_Row(*holding) for holding in page))

    def shares(self) -> list[ShareInfo]:
        """Return the entries of the page."""
        return [
            ShareInfo(row.key_id, row.user_id, row.curve, row.public_key, row.state, row.recoveries)
            for row in self.rows
        ]
