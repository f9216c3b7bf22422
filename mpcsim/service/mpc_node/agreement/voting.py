"""MPC node's side of key activation: votes, aborts, and what follows from the other's signatures.

The protocol is on the page of ``gateway.activation.decision`` (steps 2, 4, 4', 6'). The node makes
what it signs itself, from its own store and the identities that it knows; what it does on the other
node's word it does on that node's signature, whoever carries it.

It votes when the session that made the share is finished at this node. It signs an abort of a share
that it holds itself, or for which the other node's vote is shown: so nobody can have it sign, and
store for good, anything about an epoch of which neither node holds a share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import MPC_NODES, ROLES, PartyId
from mpcsim.protocols.key_share import PublicKeyRecord
from mpcsim.service.errors import (
    BAD_REQUEST,
    NodeFailed,
    Refused,
    disagreement,
    store_failed,
    store_not_merged,
)
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.mpc_node.store import HistoryLost, ShareStore, StaleUpdate, StoredShare
from mpcsim.service.rpc.activation_messages import (
    AbortEpoch,
    AbortEpochReply,
    ActivationState,
    DropShare,
    GetActivationState,
)
from mpcsim.service.rpc.statements import (
    Abort,
    HeldShare,
    KeyRecord,
    LogHead,
    RecordError,
    SignedRecord,
    Vote,
    is_signed_by,
    shares_hash,
)


class Voting:
    """Signs one MPC node's votes and aborts, and acts on the other's. Any thread may call."""

    def __init__(
        self,
        me: PartyId,
        store: ShareStore,
        identity: Identity,
        peer: Callable[[], bytes],
        public_record: Callable[[StoredShare], PublicKeyRecord],
    ) -> None:
        """
        Args:
            peer: returns the other MPC node's identity; raises ``Refused`` if it is not known.
            public_record: returns the public record of a share.
        """
        self._me = me
        (self._other,) = set(MPC_NODES) - {me}
        self._store = store
        self._identity = identity
        self._peer = peer
        self._public_record = public_record

    def vote(self, key_id: str) -> SignedRecord:
        """Return this node's vote for a share whose session has finished (2).

        Raises:
            Refused: it has signed an abort, has another vote outstanding, or holds another share in
                force than the one to be replaced.
        """
        with self._refusing_stale_updates():
            sign = self._vote_signer(self._store.find(key_id))
            return self._decode_record(self._store.vote(key_id, sign))

    def _vote_signer(self, found: StoredShare | None) -> Callable[[StoredShare, LogHead], bytes]:
        """Return the function that signs a vote within the store's transaction.

        Its other inputs are read before: the transaction must not wait for anything.
        """
        if found is None:
            raise StaleUpdate("there is no such share to vote for")
        public, identities = self._public_record(found), self.identities()
        public_shares, seal_number = shares_hash(public.to_bytes()), self._store.keys.seal_number()

        def sign(share: StoredShare, head: LogHead) -> bytes:
            replaced = share.predecessor
            record = KeyRecord(
                share.user_id,
                share.curve,
                share.public_key,
                bytes.fromhex(share.key_id),
                None if replaced is None else bytes.fromhex(replaced),
                share.recoveries,
                public_shares,
                identities,
                chain_code=public.chain_code,
            )
            signature = self._identity.sign(Vote(record, head, seal_number))
            mine = {self._me: head}, {self._me: signature}, {self._me: seal_number}
            return SignedRecord(record, *mine).to_bytes()

        return sign

    def activate(self, record: SignedRecord, session: str = "") -> None:
        """Activate a share for which both nodes have voted (4).

        Raises:
            Refused: this node has not voted for this record, or the other one has not.
        """
        try:
            agreed = record.check(self.identities())
        except RecordError as error:
            raise Refused(BAD_REQUEST, str(error)) from None
        with self._refusing_stale_updates():
            found = self._store.find(agreed.key_id)
            voted = None if found is None else self._record(found)
            if voted is None or voted.record != agreed:
                raise StaleUpdate("it has not voted for this record")
            head = record.heads[self._other]
            self._store.activate(agreed.key_id, record.to_bytes(), head, session)

    def activation_state(self, ask: GetActivationState) -> ActivationState:
        """Return the active and the voted share of a key, without the shares (2')."""
        at = ask.user_id, ask.curve_name
        return ActivationState(
            self.describe_share(self._store.active_share(*at)),
            self.describe_share(self._store.voted_share(*at)),
        )

    def abort(self, body: AbortEpoch) -> AbortEpochReply:
        """Sign that this node never votes for an epoch, or show its vote (4').

        Raises:
            Refused: it has, and the shares have been replaced or dropped since; or neither node
                has anything to do with that epoch, as far as this one can tell.
        """
        abort, voted_for = body.abort, self._voted_for(body)
        with self._refusing_stale_updates():
            found = self._store.abort(
                abort.user_id,
                abort.curve_name,
                abort.epoch.hex(),
                voted_for=voted_for,
                replaces=_predecessor_of(body.vote),
            )
        return AbortEpochReply(
            None if found else self._identity.sign(abort), self.describe_share(found)
        )

    def _voted_for(self, body: AbortEpoch) -> bool:
        """Return whether the other node's vote for the epoch to be aborted is shown."""
        if body.vote is None:
            return False
        record = body.vote.record
        shown = Abort(record.user_id, record.curve_name, record.epoch)
        return shown == body.abort and body.vote.has_vote_of(self._other, self._peer())

    def drop(self, body: DropShare) -> None:
        """Delete a share for which the other node has signed that it never votes (6').

        Raises:
            Refused: it has not signed that, or they are in force.
        """
        abort = body.abort
        if not is_signed_by(self._peer(), abort, body.signature):
            raise Refused(BAD_REQUEST, f"the {ROLES[self._other]} has not signed this abort")
        with self._refusing_stale_updates():
            self._store.drop(abort.user_id, abort.curve_name, abort.epoch.hex())

    def identities(self) -> dict[PartyId, bytes]:
        """Return the identities of both MPC nodes.

        Raises:
            NodeFailed: the other one has not been met.
        """
        return {self._me: self._identity.public, self._other: self._peer()}

    def describe_share(self, share: StoredShare | None) -> HeldShare | None:
        """Describe a share: its epoch and record, without the share itself.

        Raises:
            NodeFailed: what is stored of it is damaged.
        """
        if share is None:
            return None
        record = self._record(share)
        try:
            epoch = bytes.fromhex(share.key_id)
        except ValueError:
            record = None
        if record is None:
            raise self._damaged_record_error()
        return HeldShare(epoch, share.public_key, share.recoveries, record)

    def _record(self, share: StoredShare) -> SignedRecord | None:
        """Return a share's stored record; None: it has none.

        Raises:
            NodeFailed: it is damaged.
        """
        return None if share.record is None else self._decode_record(share.record)

    def _decode_record(self, record: bytes) -> SignedRecord:
        """Decode a stored record.

        Raises:
            NodeFailed: it is damaged.
        """
        try:
            return SignedRecord.from_bytes(record)
        except InvalidEncoding:
            raise self._damaged_record_error() from None

    def _damaged_record_error(self) -> NodeFailed:
        me = ROLES[self._me]
        return store_failed(f"the {me}'s stored record of this key is damaged", self._me)

    @contextmanager
    def _refusing_stale_updates(self) -> Iterator[None]:
        """Turn the store's errors into refusals."""
        try:
            yield
        except HistoryLost:
            why = (
                "may have signed the contrary about these shares before: restore a newer backup, "
                "or, with --other-restored-too, go on from what is here"
            )
            raise store_not_merged(self._me, why) from None
        except StaleUpdate as error:
            raise disagreement(f"the {ROLES[self._me]} refuses: {error}") from None


def _predecessor_of(vote: SignedRecord | None) -> str | None:
    """Return the key_id that a vote's epoch replaces."""
    predecessor = None if vote is None else vote.record.predecessor
    return None if predecessor is None else predecessor.hex()
