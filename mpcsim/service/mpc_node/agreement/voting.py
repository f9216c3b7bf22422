"""How an MPC node votes: which shares are in force is decided by both nodes' signatures alone.

What it signs it makes itself, from its own store and the identities that it knows. What it does on
the other node's word it does on the other node's signature, whoever carries that.

It signs a vote for whoever has finished, with both MPC nodes, the session in which the share was
made; and an abort of what it holds itself, or of what the other MPC node has voted for and it is
shown that vote. So nobody has it sign, and remember for good, anything about an epoch of which none
of the two holds a share. Either is of one user's key on one curve: nothing is signed, or refused,
for that of another.
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
    not_merged,
    store_failed,
)
from mpcsim.service.mpc_node.identity import Identity
from mpcsim.service.mpc_node.store import HistoryLost, ShareStore, StaleUpdate, StoredShare
from mpcsim.service.rpc.standing import Ask, Drop, End, Ended, Standing
from mpcsim.service.rpc.statements import (
    Abort,
    Held,
    KeyRecord,
    LogHead,
    RecordError,
    SignedRecord,
    Vote,
    shares_hash,
    signed_by,
)


class Voting:
    """One MPC node's part in it. Any thread may call."""

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
            peer: the other MPC node's identity; raises ``Refused`` if that is not known.
            public_record: of a share.
        """
        self._me = me
        (self._other,) = set(MPC_NODES) - {me}
        self._store = store
        self._identity = identity
        self._peer = peer
        self._public_record = public_record

    def vote(self, key_id: str) -> SignedRecord:
        """This node's vote for a share that its session has finished.

        Raises:
            Refused: it has signed an abort, has another vote outstanding, or holds another share in
                force than the one to be replaced.
        """
        with self._refusing_stale_updates():
            sign = self._vote_signer(self._store.find(key_id))
            return self._decode_record(self._store.vote(key_id, sign))

    def _vote_signer(self, found: StoredShare | None) -> Callable[[StoredShare, LogHead], bytes]:
        """What signs a vote in the store's transaction, where nothing else may be waited for: what
        it takes besides is known before."""
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
        """Put a share in force for which both nodes have voted.

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

    def activation_state(self, ask: Ask) -> Standing:
        """What is in force, and what has been voted for."""
        at = ask.user_id, ask.curve_name
        return Standing(
            self.describe_share(self._store.active(*at)),
            self.describe_share(self._store.voted(*at)),
        )

    def abort(self, body: End) -> Ended:
        """Never vote for an epoch; or say that this node has.

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
        return Ended(None if found else self._identity.sign(abort), self.describe_share(found))

    def _voted_for(self, body: End) -> bool:
        """Whether the other node's vote for what is to be aborted is shown."""
        if body.vote is None:
            return False
        record = body.vote.record
        shown = Abort(record.user_id, record.curve_name, record.epoch)
        return shown == body.abort and body.vote.voted(self._other, self._peer())

    def drop(self, body: Drop) -> None:
        """Forget shares for which the other node has signed that it never votes.

        Raises:
            Refused: it has not signed that, or they are in force.
        """
        abort = body.abort
        if not signed_by(self._peer(), abort, body.signature):
            raise Refused(BAD_REQUEST, f"the {ROLES[self._other]} has not signed this abort")
        with self._refusing_stale_updates():
            self._store.drop(abort.user_id, abort.curve_name, abort.epoch.hex())

    def identities(self) -> dict[PartyId, bytes]:
        """Of both MPC nodes, as far as this one knows them.

        Raises:
            NodeFailed: the other one has not been met.
        """
        return {self._me: self._identity.public, self._other: self._peer()}

    def describe_share(self, share: StoredShare | None) -> Held | None:
        """A share, without the share.

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
            raise self._damaged()
        return Held(epoch, share.public_key, share.recoveries, record)

    def _record(self, share: StoredShare) -> SignedRecord | None:
        """
        Raises:
            NodeFailed: it is damaged.
        """
        return None if share.record is None else self._decode_record(share.record)

    def _decode_record(self, record: bytes) -> SignedRecord:
        """
        Raises:
            NodeFailed: it is damaged.
        """
        try:
            return SignedRecord.from_bytes(record)
        except InvalidEncoding:
            raise self._damaged() from None

    def _damaged(self) -> NodeFailed:
        me = ROLES[self._me]
        return store_failed(f"the {me}'s stored record of this key is damaged", self._me)

    @contextmanager
    def _refusing_stale_updates(self) -> Iterator[None]:
        try:
            yield
        except HistoryLost:
            why = (
                "may have signed the contrary about these shares before: restore a newer backup, "
                "or, with --other-restored-too, go on from what is here"
            )
            raise not_merged(self._me, why) from None
        except StaleUpdate as error:
            raise disagreement(f"the {ROLES[self._me]} refuses: {error}") from None


def _predecessor_of(vote: SignedRecord | None) -> str | None:
    """The key_id of the shares that those voted for replace."""
    predecessor = None if vote is None else vote.record.predecessor
    return None if predecessor is None else predecessor.hex()
