"""Shares of an MPC node come into force, or never do: its part in what ``voting`` decides."""

from __future__ import annotations

from mpcsim.ids import ROLES
from mpcsim.service.errors import CONFLICT, Refused
from mpcsim.service.mpc_node.agreement.voting import Voting
from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.mpc_node.events import recording_refusals
from mpcsim.service.mpc_node.presignatures import Presignatures
from mpcsim.service.mpc_node.sessions.expiry import SessionExpiry
from mpcsim.service.mpc_node.sessions.table import SessionTable
from mpcsim.service.mpc_node.shares import KeyShares
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant, Scope
from mpcsim.service.rpc.standing import ACTIVE, PAGE, Ask, Drop, End, Holdings, ListHoldings
from mpcsim.service.rpc.statements import SignedRecord


class Activation:
    """Ends sessions that make shares, by votes and aborts. Any thread may call."""

    def __init__(
        self,
        context: NodeContext,
        voting: Voting,
        shares: KeyShares,
        presignatures: Presignatures,
        sessions: SessionTable,
        expiry: SessionExpiry,
    ) -> None:
        self._context = context
        self._voting = voting
        self._shares = shares
        self._presignatures = presignatures
        self._sessions = sessions
        self._expiry = expiry

    def vote(self, grant: Grant, data: bytes) -> wire.Body:
        """Promise: all three holders are done, this one holds its new share durably."""
        context, body = self._context, wire.Activate.from_bytes(data)
        session = self._sessions.find(body.session_id)
        grant.check(Scope("vote", session.user_id, body.key_id, body.session_id))
        with session.lock, context.share_changes:
            made = session.made
            self._sessions.check_open(session)
            if made is None or made.key_id != body.key_id.hex():
                raise Refused(CONFLICT, "this session has not made that key")
            if not session.done:
                raise Refused(CONFLICT, f"the {ROLES[context.me]} is not done")
            at = made.user_id, made.curve
            with recording_refusals(context.store.note, *at, session.session_id, made.key_id):
                return self._voting.vote(made.key_id)

    def activate(self, grant: Grant, data: bytes) -> None:
        """Put shares in force for which both MPC nodes have voted."""
        context, body = self._context, SignedRecord.from_bytes(data)
        record = body.record
        grant.check(Scope("activate", record.user_id, record.epoch))
        at = record.user_id, record.curve_name
        with context.share_changes:
            made_in = self._sessions.find_by_made_share(record.key_id)
            session_id = made_in.session_id if made_in else b""
            try:
                with recording_refusals(context.store.note, *at, session_id, record.key_id):
                    self._voting.activate(body, session_id.hex())
            finally:  # it may have been replaced, but not forgotten by the disk
                self._forget_replaced(*at)
                made = context.store.find(record.key_id)
                if made is not None and made.predecessor is not None:
                    self._presignatures.forget(made.predecessor)

    def _forget_replaced(self, user_id: str, curve: str) -> None:
        """Forget shares that are no longer in force, and what signs with them or reshares them; and
        what has made shares that are in force, or are no more."""
        with self._context.lock:
            self._shares.forget_decoded(user_id, curve)
            for session in [s for s in self._sessions if s.user_id == user_id]:
                replaced = session.key_id and self._shares.state_of(session.key_id) != ACTIVE
                made = session.made
                if replaced or (made and self._shares.state_of(made.key_id) in (None, ACTIVE)):
                    self._sessions.forget(session)

    def activation_state(self, grant: Grant, data: bytes) -> wire.Body:
        """Say which shares of a user's key are in force, and which have been voted for."""
        ask = Ask.from_bytes(data)
        grant.check(Scope("standing", ask.user_id))
        self._expiry.sweep()
        return self._voting.activation_state(ask)

    def abort(self, grant: Grant, data: bytes) -> wire.Body:
        """Sign that this node never votes for an epoch, or say that it has."""
        body = End.from_bytes(data)
        abort = body.abort
        grant.check(Scope("abort", abort.user_id, abort.epoch))
        with self._context.share_changes:
            ended = self._voting.abort(body)
            if ended.signature is not None:
                with self._context.lock:  # though it has made nothing yet: no vote may follow
                    for session in self._sessions:
                        if session.epoch == abort.epoch.hex():
                            self._sessions.forget(session)
            return ended

    def drop(self, grant: Grant, data: bytes) -> None:
        """Forget shares for which the other MPC node never votes."""
        body = Drop.from_bytes(data)
        abort = body.abort
        grant.check(Scope("drop", abort.user_id, abort.epoch))
        at, key_id = (abort.user_id, abort.curve_name), abort.epoch.hex()
        note = self._context.store.note
        with self._context.share_changes, recording_refusals(note, *at, b"", key_id):
            self._voting.drop(body)
            if (session := self._sessions.find_by_made_share(key_id)) is not None:
                self._sessions.forget(session)

    def share_inventory(self, grant: Grant, data: bytes) -> wire.Body:
        """List the shares that are here, a page at a time."""
        body = ListHoldings.from_bytes(data)
        grant.check(Scope("holdings"))
        return Holdings.of(self._context.store.share_inventory(body.after, PAGE))
