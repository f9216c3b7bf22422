"""Ends of an MPC node's sessions: prepared shares, which nobody has voted for, are deleted."""

from __future__ import annotations

from mpcsim.ids import ROLES
from mpcsim.service.mpc_node.context import LOG, NodeContext
from mpcsim.service.mpc_node.sessions.table import Session, SessionTable
from mpcsim.service.storage.database import StoreFailed


class SessionExpiry:
    """Deletes what ended sessions leave in one MPC node's store."""

    def __init__(self, context: NodeContext, sessions: SessionTable) -> None:
        self._context = context
        self._sessions = sessions

    def drop_made(self, session: Session) -> None:
        """Delete the prepared share of a session that has ended."""
        if session.made is not None:
            self._context.store.drop_prepared(session.made.key_id)

    def end(self, session: Session) -> None:
        """Forget a session, and delete its prepared share."""
        self._sessions.forget(session)
        self.drop_made(session)

    def sweep(self) -> None:
        """Delete prepared shares of sessions that have ended in any way, and write what is pending.

        Called before a key is made, and from time to time (``sweeping``).

        Raises:
            StoreFailed: not all could be deleted.
        """
        context = self._context
        try:
            context.store.write_pending()
        except StoreFailed as error:  # reported by the readiness probe, too
            LOG.error("%s: a suspension is not stored yet: %s", ROLES[context.me], error)
        with context.share_changes:
            with context.lock:
                self._sessions.expire()
                live = [session.epoch for session in self._sessions if session.epoch]
            context.store.drop_orphans(live)

    def drop_orphans(self) -> None:
        """Delete all prepared shares, at a start. A process that reads the files then delays their
        erasure to the next sweep, and not the start."""
        me, store = ROLES[self._context.me], self._context.store
        try:
            store.drop_orphans()
        except StoreFailed as error:
            if not store.database.needs_emptying:
                raise
            LOG.error("%s: deleted data stays in the store's files for now: %s", me, error)
