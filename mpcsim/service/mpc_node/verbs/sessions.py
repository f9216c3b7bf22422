"""Verbs of open sessions at an MPC node: ``exchange``, ``close``, ``reset``."""

from __future__ import annotations

from dataclasses import dataclass

from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.mpc_node.sessions.expiry import SessionExpiry
from mpcsim.service.mpc_node.sessions.runner import SessionRunner
from mpcsim.service.mpc_node.sessions.table import SessionTable
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Grant, Scope


@dataclass(eq=False, repr=False)
class OpenSessions:
    """Continues and ends one MPC node's sessions. Any thread may call."""

    context: NodeContext
    sessions: SessionTable
    expiry: SessionExpiry
    runner: SessionRunner

    def exchange(self, grant: Grant, data: bytes) -> wire.Body:
        """Pass messages to a session, and answer with those that follow."""
        body = wire.Exchange.from_bytes(data)
        session = self.sessions.find(body.session_id)
        grant.check(session.scope("exchange"))
        return self.runner.run(session, body.messages)

    def close(self, grant: Grant, data: bytes) -> None:
        """End a session, if it is open; its prepared share is deleted."""
        body = wire.Close.from_bytes(data)
        with self.context.share_changes:
            session = self.sessions.get(body.session_id)
            if session is not None:
                grant.check(session.scope("close"))
                self.expiry.end(session)

    def reset(self, grant: Grant, data: bytes) -> None:
        """End all sessions: the gateway has just started and will continue none of them."""
        grant.check(Scope("reset"))
        wire.Reset.from_bytes(data)
        with self.context.lock:
            for session in self.sessions:
                self.sessions.forget(session)
        self.expiry.sweep()
