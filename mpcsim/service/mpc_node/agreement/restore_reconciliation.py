"""What an MPC node says, and has signed, of a user's key; and how a store that was put back from a
backup is brought to know again what it has forgotten.

A backup is an older state: since then its shares may have been replaced or suspended, and this node
may have signed votes and aborts of which the backup knows nothing. So every share in a store that
is put back is *unmerged*: nothing is signed, opened, recovered or made with it until the other node
has told, under its signature and about this node's present boot, what it knows of the key (a
``Testimony``). Then, in one transaction:

* What is suspended there is suspended here, without its multiplication state.
* The key is served again, if nothing is left open (``store.UnmergedReason``): shares that both
  nodes have replaced since, as this node's own signature beside the other's proves, are not served
  any more.

No share goes by this, and none comes into force. A node that lies may show both votes for an epoch
of which it has signed the abort (``mpcsim.service.gateway.activation.decision``), and would have
this one drop the share that is in force. What is not served is safe, and waits for a newer backup.

Until then the node still says what it holds (``standing``, ``holdings``, ``testify``), takes what
makes it stricter (``suspend``, ``hear``), and signs for, or acts on, what needs no memory, so that
what was interrupted comes to its end: ``activate`` and ``drop`` go by the signatures that are
brought. A vote takes a session, and none outlives a start: so no epoch is voted for whose abort has
been forgotten.

The other way round there is a choice. Asked for an abort of an epoch that it does not know, with
the other node's vote for it, it may be one that it has itself voted for and forgotten:

* It signs if what that epoch would replace is in force here. Nothing is lost then, whatever it had
  signed: the other node drops the epoch only if it has not put it in force, and goes on with the
  same shares as this one. As long as the other one still has that vote, the key stays unmerged
  (``DOUBTFUL``), so that whoever has kept this node's forgotten vote cannot put the epoch in force
  there and have the replaced share served here. What is left to a corrupt gateway: to undo, after a
  restore, a recovery that it had told the client of and not the other node. An honest one asks for
  no such abort, as its registry remembers both votes before anybody acts on them.
* It does not sign otherwise (``HistoryLost``): the epoch may be the only one of this key, and the
  abort would have the other node drop it. So a user whose first key was cut off between the votes
  cannot make one on that curve until a newer backup is put back, or this store is put back with
  ``--other-restored-too``.

The doubt is about sessions of which the backup does not know how they ended. Each epoch is written
down (``ShareStore.enter``) before this node reveals anything in its session, without which nobody
else can vote for it; and so is that the session is over without a vote. So nothing is in doubt that
was begun after the store was put back, or was over when the backup was taken; but for sessions of
one user and curve that were followed by many more (``store.ENTERED``), of which the oldest are
remembered no longer.

Of a key that was made after the backup nothing is here: it is no key here, nobody makes a second
one, since the other node holds the first and votes for no other, and no abort of it is signed.

A session that was making shares when this node's store was lost ends at the other node after some
minutes (``mpcsim.service.rpc.wire``). Until then that one may vote for them still; only a
gateway that has kept this node's forgotten vote can have it put them in force, while this one goes
on with those that they replace.

If both stores were put back, neither node can tell what both have forgotten. Then a key stays
refused, unless one of them was put back with ``--other-restored-too``: whoever runs it has decided
that what is in the two backups counts, and that what was retired or suspended after the newer of
them may come back.

What nobody knows comes back all the same: a suspension of which the other node had not heard. The
gateway carries each at once (``mpcsim.service.gateway.activation.attestations``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mpcsim.ids import ROLES, PartyId
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.errors import BAD_REQUEST, Refused, another_boot, not_merged
from mpcsim.service.mpc_node.agreement.voting import Voting
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.mpc_node.peer import Peer
from mpcsim.service.mpc_node.store import (
    ActiveShare,
    NodeStatement,
    ShareStore,
    StoredShare,
    UnmergedReason,
)
from mpcsim.service.rpc.standing import ACTIVE, PREPARED, VOTED
from mpcsim.service.rpc.statements import (
    MAX_EPOCHS,
    RecordError,
    SignedTestimony,
    Testify,
    Testimony,
    signed_by,
)

REASONS: Final = {
    UnmergedReason.REPLACED: "its share of this key has been replaced since, as both MPC nodes "
    "have signed: restore a newer backup",
    UnmergedReason.BOTH_RESTORED: "so has the {}'s: neither knows what has been retired or "
    "suspended since; restore one of the two once more, with --other-restored-too, to go on from "
    "what is here",
    UnmergedReason.UNKNOWN: "the {} does not know its share of this key: restore the backup that "
    "belongs to it, or, with --other-restored-too, go on from what is here",
    UnmergedReason.DOUBTFUL: "the {} has voted for newer shares of this key, as this one may have, "
    "too: recover the key",
}
"""What is said of a key that is still not served: after "has been restored and"."""


class RestoreReconciliation:
    """One MPC node's. Any thread may call."""

    def __init__(
        self,
        me: PartyId,
        store: ShareStore,
        identity: Identity,
        peer: Peer,
        voting: Voting,
        decoded: Callable[[StoredShare], KeyShare],
    ) -> None:
        """
        Args:
            decoded: a share; raises ``NodeFailed`` if it is damaged.
        """
        self._me = me
        self._store = store
        self._identity = identity
        self._peer = peer
        self._voting = voting
        self._decoded = decoded

    def make_statement(self, ask: Testify) -> SignedTestimony:
        """This node's, as of one moment.

        Raises:
            NodeFailed: what is stored of the key is damaged.
        """
        at = ask.user_id, ask.curve_name
        aborted = self._store.aborted(*at, MAX_EPOCHS)  # an abort is never taken back
        held = [share for share in self._store.of_key(*at) if share.state != PREPARED]
        suspended = [s.key_id for s in held if s.suspended is not None or s.suspended_there]
        statement = Testimony(
            self._me,
            ask.nonce,
            *at,
            self._voting.describe_share(_in_state(ACTIVE, held)),
            self._voting.describe_share(_in_state(VOTED, held)),
            tuple(map(bytes.fromhex, suspended)),
            tuple(map(bytes.fromhex, aborted)),
            (2 if self._store.both_restored else 1) if any(share.unmerged for share in held) else 0,
        )
        return SignedTestimony(statement, self._identity.sign(statement))

    def accept_statement(self, signed: SignedTestimony, boot: bytes) -> None:
        """Merge what the other node says of a key.

        Args:
            boot: this node's present one.

        Raises:
            Refused: it is not the other's, or said to somebody else, or before this start.
            Unmerged: something is left open, and the key is not served.
        """
        said, other = signed.statement, self._peer.party
        if said.party != other or not signed_by(self._peer.identity(), said, signed.signature):
            raise Refused(BAD_REQUEST, f"this is no statement of the {ROLES[other]}")
        if said.nonce != boot:
            raise another_boot(self._me)
        statement = NodeStatement(
            said.user_id,
            said.curve_name,
            self._peers_active_share(said),
            said.active.epoch.hex() if said.active else None,
            said.voted.epoch.hex() if said.voted else None,
            frozenset(epoch.hex() for epoch in said.suspended),
            bool(said.restored),
        )
        left = self._store.merge(statement, self._without_multiplication)
        if left is not None:
            raise not_merged(self._me, REASONS[left].format(ROLES[other]))

    def _peers_active_share(self, said: Testimony) -> ActiveShare | None:
        """What the other holds in force, if this node has voted for it, too."""
        if said.active is None:
            return None
        try:
            record = said.active.record.check(self._voting.identities())
        except RecordError:
            return None
        at = record.user_id, record.curve_name
        if at != (said.user_id, said.curve_name):
            return None
        return ActiveShare(bytes(record.public_key), record.number)

    def _without_multiplication(self, stored: StoredShare) -> bytes | None:
        share = self._decoded(stored)
        for peer, state in share.peers.items():
            if state.multiplication is not None:
                share = share.without_multiplication(peer)
        found = share.to_bytes()
        return None if found == stored.share else found


def _in_state(state: str, shares: list[StoredShare]) -> StoredShare | None:
    return next((share for share in shares if share.state == state), None)
