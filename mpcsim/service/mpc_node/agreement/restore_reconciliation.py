"""Reconciliation of an MPC node's restored store with the other node, before it serves a key.

A backup is an older state: since then shares in it may have been replaced or suspended, and the
node may have signed votes and aborts of which the backup knows nothing.

Participants
    R      the node whose store was restored
    P      its peer, the other MPC node
    G      the gateway: carries statements; may drop, replay or lie, and is never believed

Messages in order; [...] is durable at the sender before the message leaves
    0   R            [every share unmerged, prepared ones deleted: ``ShareStore.mark_restored``]
    1   G -> R       a request that needs an unmerged share: refused (``Unmerged``)
    2   R -> G       hello, with the random boot of R's last start
    3   G -> P       testify(user, curve, boot)
    4   P -> G       signature over (boot, user, curve, P's active and voted share with their
                     votes, the epochs that it holds suspended, whether its own store was restored
                     and has not merged the key)
    5   G -> R       merge(signed statement)
    6   R            [in one transaction: an epoch that is suspended at P is suspended, without its
                     multiplication state; the key is merged, unless something is left open]
  G does 2 to 5 at 1, and at its start for keys that are not in order (``store_consistency``).
  ``mpcsim doctor`` does 3 and 4 with a nonce of its own, only to read the statement.

A key stays unmerged at 6 for one of these reasons (``store.UnmergedReason``):

    =============== ================================================= ==========================
    REPLACED        both nodes have put newer shares in force, as R's restore a newer backup
                    own signature beside P's proves
    BOTH_RESTORED   P's key is unmerged, too: neither knows what both restore one of them with
                    have forgotten                                    ``--other-restored-too``
    UNKNOWN         P does not hold R's share                         restore the right backup
    DOUBTFUL        P has voted for an epoch that R may have voted    recover the key
                    for and forgotten
    =============== ================================================= ==========================

``--other-restored-too`` is the operator's decision that the two backups count: what was retired or
suspended after the newer of them may come back.

Invariants
    R1  An unmerged share is used for nothing: no signing, opening, recovery or generation.
    R2  By a statement no share is deleted, and none comes into force. A P that lies may show both
        votes for an epoch whose abort it has signed, and would have R drop the share in force.
    R3  R always does what makes it stricter (suspend, hear), and what rests on signatures alone
        (activate, drop), so that interrupted activations end. It cannot vote for an epoch whose
        abort it has forgotten: a vote takes a session, and none outlives a start.
    R4  R signs the abort of an epoch that it does not know, against P's vote, only if the abort
        contradicts no vote that R has forgotten, or does no harm:
        - nothing was forgotten: the session began after the restore, or the backup knows that it
          was over. R stores each epoch before it reveals anything in the session, without which P
          cannot vote (``ShareStore.enter_epoch``), and stores that a session ended without a vote;
          of the ended ones it keeps ``store.ENTERED`` a user and curve
        - or what the epoch would replace is in force at R: then P drops the epoch, or has it in
          force and goes on. As long as P has its vote, the key is DOUBTFUL: whoever kept R's
          forgotten vote could put the epoch in force at P, and the replaced share must not sign
        Otherwise it refuses (``HistoryLost``): the epoch may be the only one of the key.

Crashes
    R before 6        the key stays unmerged, and 1 repeats. A restart changes the boot, so that a
                      statement made before it is refused
    G at any point    it keeps nothing; the next request begins at 1

Limits
    A user whose first key was cut off between the votes cannot make one on that curve until a newer
    backup is restored, or this one with ``--other-restored-too`` (R4).
    A corrupt gateway can undo, after a restore, a recovery of which it told the client and not P
    (R4, second case). An honest one has stored both votes before anybody acts on them.
    A session that was making shares when R's store was lost ends at P after some minutes; until
    then P may still vote for them, and a gateway that kept R's forgotten vote can activate them
    there, while R goes on with the shares that they replace.
    A suspension of which P had not heard is lost with R's store; the gateway carries each at once
    (``gateway.activation.attestations``).
    A key that was made after the backup is no key at R: it makes no second one, since P holds the
    first and votes for no other, and R signs no abort of it.

Checked by: ``tests/service/mpc_node/test_restored``; ``tests/service/operations/test_restore``, and
random histories beside a model in ``test_restore_histories``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mpcsim.ids import ROLES, PartyId
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.errors import stale_boot, store_not_merged
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
from mpcsim.service.rpc.activation_messages import ACTIVE, PREPARED, VOTED
from mpcsim.service.rpc.statements import (
    GetReconciliationStatement,
    ReconciliationStatement,
    RecordError,
    SignedReconciliationStatement,
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
"""Error text for each reason, after "has been restored and"."""


class RestoreReconciliation:
    """Makes one MPC node's statements, and merges those of the other. Any thread may call."""

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
            decoded: decodes a stored share; raises ``NodeFailed`` if it is damaged.
        """
        self._me = me
        self._store = store
        self._identity = identity
        self._peer = peer
        self._voting = voting
        self._decoded = decoded

    def make_statement(self, ask: GetReconciliationStatement) -> SignedReconciliationStatement:
        """Return this node's signed statement about a key, consistent in itself (4).

        Raises:
            NodeFailed: what is stored of the key is damaged.
        """
        at = ask.user_id, ask.curve_name
        held = [share for share in self._store.of_key(*at) if share.state != PREPARED]
        suspended = [s.key_id for s in held if s.suspended is not None or s.suspended_there]
        statement = ReconciliationStatement(
            self._me,
            ask.nonce,
            *at,
            self._voting.describe_share(_in_state(ACTIVE, held)),
            self._voting.describe_share(_in_state(VOTED, held)),
            tuple(map(bytes.fromhex, suspended)),
            (2 if self._store.both_restored else 1) if any(share.unmerged for share in held) else 0,
        )
        return SignedReconciliationStatement(statement, self._identity.sign(statement))

    def accept_statement(self, signed: SignedReconciliationStatement, boot: bytes) -> None:
        """Merge the other node's statement about a key (6).

        Args:
            boot: this node's present boot.

        Raises:
            Refused: it is not the other node's, or was made for another boot.
            Unmerged: something is left open, and the key is not served.
        """
        said = signed.statement
        self._peer.check_statement(said, signed.signature)
        if said.nonce != boot:
            raise stale_boot(self._me)
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
            raise store_not_merged(self._me, REASONS[left].format(ROLES[self._peer.party]))

    def _peers_active_share(self, said: ReconciliationStatement) -> ActiveShare | None:
        """Return the other node's active share, if this node's vote for it is shown, too."""
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
        """Return a share without multiplication state; None: it has none."""
        share = self._decoded(stored)
        for peer, state in share.peers.items():
            if state.multiplication is not None:
                share = share.without_multiplication(peer)
        found = share.to_bytes()
        return None if found == stored.share else found


def _in_state(state: str, shares: list[StoredShare]) -> StoredShare | None:
    return next((share for share in shares if share.state == state), None)
