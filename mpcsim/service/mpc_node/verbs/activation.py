"""Verbs of key activation at an MPC node: vote, activate, standing, abort, drop, holdings.

The protocol is on the page of ``gateway.activation.decision``.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from mpcsim.service.rpc.activation_messages import (
    ACTIVE,
    PAGE,
    AbortEpoch,
    DropShare,
    GetActivationState,
    ListShares,
    ShareInfoPage,
)
from mpcsim.service.rpc.grants import Grant, Scope
from mpcsim.service.rpc.statements import SignedRecord


@dataclass(eq=False, repr=False)
class Activation:
    """Handles these verbs, and ends the sessions that made the shares. Any thread may call."""

    context: NodeContext
    voting: Voting
    shares: KeyShares
    presignatures: Presignatures
    sessions: SessionTable
    expiry: SessionExpiry

    def vote(self, grant: Grant, data: bytes) -> wire.Body:
        """Vote for the share of a finished session, which this node then holds durably (2)."""
        context, body = self.context, wire.Activate.from_bytes(data)
        session = self.sessions.find(body.session_id)
        grant.check(Scope("vote", session.user_id, body.key_id, body.session_id))
        with session.lock, context.share_changes:
            made = session.made
            self.sessions.check_open(session)
            if made is None or made.key_id != body.key_id.hex():
                raise Refused(CONFLICT, "this session has not made that key")
            if not session.done:
                raise Refused(CONFLICT, f"the {ROLES[context.me]} is not done")
            at = made.user_id, made.curve
            with recording_refusals(context.store.log_event, *at, session.session_id, made.key_id):
                return self.voting.vote(made.key_id)

    def activate(self, grant: Grant, data: bytes) -> None:
        """Activate a share for which both MPC nodes have voted (4)."""
        context, body = self.context, SignedRecord.from_bytes(data)
        record = body.record
        grant.check(Scope("activate", record.user_id, record.epoch))
        at = record.user_id, record.curve_name
        with context.share_changes:
            made_in = self.sessions.find_by_made_share(record.key_id)
            session_id = made_in.session_id if made_in else b""
            try:
                with recording_refusals(context.store.log_event, *at, session_id, record.key_id):
                    self.voting.activate(body, session_id.hex())
            finally:  # also if the replaced share could not be erased from the disk
                self._forget_replaced(*at)
                made = context.store.find(record.key_id)
                if made is not None and made.predecessor is not None:
                    self.presignatures.forget(made.predecessor)

    def _forget_replaced(self, user_id: str, curve: str) -> None:
        """Forget the decoded form of a replaced share, and end the sessions that use it, or whose
        own share is active or gone."""
        with self.context.lock:
            self.shares.forget_decoded(user_id, curve)
            for session in [s for s in self.sessions if s.user_id == user_id]:
                replaced = session.key_id and self.shares.state_of(session.key_id) != ACTIVE
                made = session.made
                if replaced or (made and self.shares.state_of(made.key_id) in (None, ACTIVE)):
                    self.sessions.forget(session)

    def activation_state(self, grant: Grant, data: bytes) -> wire.Body:
        """Return the active and the voted share of a user's key (2')."""
        ask = GetActivationState.from_bytes(data)
        grant.check(Scope("standing", ask.user_id))
        self.expiry.sweep()
        return self.voting.activation_state(ask)

    def abort(self, grant: Grant, data: bytes) -> wire.Body:
        """Sign that this node never votes for an epoch, or show its vote (4')."""
        body = AbortEpoch.from_bytes(data)
        abort = body.abort
        grant.check(Scope("abort", abort.user_id, abort.epoch))
        with self.context.share_changes:
            ended = self.voting.abort(body)
            if ended.signature is not None:
                with self.context.lock:  # no vote may follow, even if no share is prepared yet
                    for session in self.sessions:
                        if session.epoch == abort.epoch.hex():
                            self.sessions.forget(session)
            return ended

    def drop(self, grant: Grant, data: bytes) -> None:
        """Delete a share for which the other MPC node never votes (6')."""
        body = DropShare.from_bytes(data)
        abort = body.abort
        grant.check(Scope("drop", abort.user_id, abort.epoch))
        at, key_id = (abort.user_id, abort.curve_name), abort.epoch.hex()
        note = self.context.store.log_event
        with self.context.share_changes, recording_refusals(note, *at, b"", key_id):
            self.voting.drop(body)
            if (session := self.sessions.find_by_made_share(key_id)) is not None:
                self.sessions.forget(session)

    def share_inventory(self, grant: Grant, data: bytes) -> wire.Body:
        """List the shares in the store, a page at a time."""
        body = ListShares.from_bytes(data)
        grant.check(Scope("holdings"))
        return ShareInfoPage.of(self.context.store.share_inventory(body.after, PAGE))
