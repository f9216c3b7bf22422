"""Suspension of keys at an MPC node: such a share is used for nothing but recovering its key.

A key is suspended after an abort that demands it (1'), on a notice sealed with the client's share
(4), or because it is suspended at the other MPC node; the steps are those on the page of
``gateway.activation.suspensions``. A suspension that cannot be stored now counts in memory, and is
stored later (``ShareStore.write_pending``).
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from mpcsim.errors import Aborted, AbortReason, Consequence
from mpcsim.ids import CLIENT, ROLES, PartyId
from mpcsim.protocols import reshare
from mpcsim.service.errors import NodeFailed
from mpcsim.service.mpc_node.context import LOG, NodeContext
from mpcsim.service.mpc_node.presignatures import Presignatures
from mpcsim.service.mpc_node.sessions.table import Session, SessionTable
from mpcsim.service.mpc_node.shares import KeyShares
from mpcsim.service.mpc_node.store import StoredShare
from mpcsim.service.rpc import suspension_notices, wire
from mpcsim.service.rpc.grants import Grant, Scope
from mpcsim.service.rpc.statements import SuspensionReceipt


class Suspensions:
    """Suspends one MPC node's shares. Any thread may call."""

    def __init__(
        self,
        context: NodeContext,
        shares: KeyShares,
        presignatures: Presignatures,
        sessions: SessionTable,
    ) -> None:
        self._context = context
        self._shares = shares
        self._presignatures = presignatures
        self._sessions = sessions
        self.aborts: Counter[AbortReason] = Counter()
        """Sessions that this node has aborted, by reason, since it was made."""

    def suspend(self, grant: Grant, data: bytes) -> wire.Body:
        """Suspend a key if the notice was sealed with the client's share (4). The gateway, which
        carries it, is not believed."""
        body, context = wire.SuspendKey.from_bytes(data), self._context
        at = body.occasion
        grant.check(Scope("suspend", at.user_id, at.key_id, at.session_id))
        stored = self._shares.active_share(at.user_id, at.key_id.hex())
        secret = self._shares.decoded(stored).peers[CLIENT].pair_secret
        culprit = suspension_notices.open_notice(secret, at, context.me, body.notice)
        if culprit is not None:
            self.suspend_share(stored, f"the client caught party {culprit} cheating")
        said = SuspensionReceipt(
            at.key_id, suspension_notices.notice_digest(body.notice), int(culprit is not None)
        )
        return wire.SuspendReply(said.opened, context.identity.sign(said))

    def suspend_share(self, stored: StoredShare, why: str) -> None:
        """Suspend a share, unless it is, and end the session that signs with it."""
        store, key_id = self._context.store, stored.key_id
        try:
            if stored.suspended is None or store.has_pending_suspension(key_id):
                store.suspend(key_id, stored.suspended or why)
        finally:
            with self._context.lock:
                self._sessions.end_signing(key_id)
                self._presignatures.forget(key_id)  # after the session that could make more

    def on_abort(self, session: Session, aborted: Aborted) -> None:
        """Suspend a key, and discard its state, as an abort demands (1'); log the abort."""
        context, key_id = self._context, session.key_id
        signing = session.party.definition is not reshare.RESHARE
        LOG.warning("%s %s: %s", ROLES[context.me], session.party.definition.name, aborted)
        with context.lock:
            self.aborts[aborted.reason] += 1
        if key_id is None or not signing or aborted.consequence is Consequence.RETRY:
            return
        # The culprit holds the other share that this key signs with.
        why = f"{aborted.reason.text} (by the {_names(aborted.culprits)})"
        kept: bytes | None = None
        stored = context.store.find(key_id)
        if stored is not None and aborted.consequence is Consequence.BAN_AND_DISCARD_OT:
            with suppress(NodeFailed):  # a share damaged since cannot sign anyway
                kept = self._shares.decoded(stored).after_abort(aborted).to_bytes()
        try:
            context.store.suspend(key_id, why, kept)
        finally:
            self._presignatures.forget(key_id)


def _names(parties: frozenset[int]) -> str:
    return ", ".join(ROLES.get(PartyId(i), str(i)) for i in sorted(parties))
