"""Ends of an MPC node's sessions: shares that one has made and nobody voted for go with it."""

from __future__ import annotations

from mpcsim.ids import ROLES
from mpcsim.service.mpc_node.context import LOG, NodeContext
from mpcsim.service.mpc_node.sessions.table import Session, SessionTable
from mpcsim.service.storage.database import StoreFailed


class SessionExpiry:
    """Drops what sessions leave in one MPC node's store."""

    def __init__(self, context: NodeContext, sessions: SessionTable) -> None:
        self._context = context
        self._sessions = sessions

    def drop_made(self, session: Session) -> None:
        """Drop what a session that is over has made and nobody has voted for."""
        if session.made is not None:
            self._context.store.drop_prepared(session.made.key_id)

    def end(self, session: Session) -> None:
        """Forget a session and drop what it has made and nobody has voted for."""
        self._sessions.forget(session)
        self.drop_made(session)

    def sweep(self) -> None:
        """Drop what sessions that are no more have made, however they ended. It is done before
        anything is made, and from time to time (``sweeping``).

        What could not be written before, and has to be, is tried once more.

        Raises:
            StoreFailed: not everything could be dropped.
        """
        context = self._context
        try:
            context.store.write_pending()
        except StoreFailed as error:  # said by whether it is ready, too
            LOG.error("%s: a suspension is not stored yet: %s", ROLES[context.me], error)
        with context.share_changes:
            with context.lock:
                self._sessions.expire()
                live = [session.epoch for session in self._sessions if session.epoch]
            context.store.drop_orphans(live)

    def drop_orphans(self) -> None:
        """Drop what all sessions have made, at a start. Who reads the files just then keeps the
        node from overwriting what was in them, not from starting: the next sweep does it."""
        me, store = ROLES[self._context.me], self._context.store
        try:
            store.drop_orphans()
        except StoreFailed as error:
            if not store.database.needs_emptying:
                raise
            LOG.error("%s: what was deleted stays in the store for now: %s", me, error)
