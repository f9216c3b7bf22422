"""Driver of the parties in an MPC node's sessions: stores what must be durable, then answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpcsim.errors import Aborted
from mpcsim.protocols import dkg, presign, reshare
from mpcsim.protocols.engine import Done, Output, Prepared, Send
from mpcsim.protocols.key_share import KeyShare
from mpcsim.service.mpc_node.context import NodeContext
from mpcsim.service.mpc_node.events import Kind
from mpcsim.service.mpc_node.presignatures import Presignatures
from mpcsim.service.mpc_node.sessions.expiry import SessionExpiry
from mpcsim.service.mpc_node.sessions.table import Session, SessionTable
from mpcsim.service.mpc_node.store import StoredShare
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.activation_messages import PREPARED
from mpcsim.service.rpc.signed_messages import authenticate


@dataclass(eq=False, repr=False)
class SessionRunner:
    """Drives the parties of one MPC node's sessions. Any thread may call."""

    context: NodeContext
    sessions: SessionTable
    expiry: SessionExpiry
    presignatures: Presignatures
    """Keeps the presignatures that a session has made."""
    on_abort: Callable[[Session, Aborted], None]
    """Stores what an abort demands, before anyone hears of it."""

    def log_begin(self, session: Session) -> None:
        """Log that a key is being made, before anything is done."""
        purpose = session.purpose
        try:
            self.context.store.log_event(
                Kind.BEGUN,
                purpose.user_id,
                purpose.curve,
                purpose.key_id or "",
                session.session_id.hex(),
            )
        except BaseException:
            self.sessions.forget(session)
            raise

    def run(
        self, session: Session, messages: tuple[bytes, ...], record: bytes | None = None
    ) -> wire.Answer:
        """Start the session's party if it is new, and pass it messages (steps 4 of a session).

        Args:
            record: public record to put into the answer.
        """
        with session.lock:
            party = session.party
            outputs: list[Output[Any]] = []
            try:
                mail = [authenticate(message, session.peers) for message in messages]
                if party.outcome is None and party.waiting_state() is None:
                    outputs += party.start()
                for sender, message in filter(None, mail):
                    outputs += party.receive(sender, message)
                # What must be durable is stored before any message leaves.
                self._record_epoch(session)
                for output in outputs:
                    self._store_output(session, output)
            except BaseException:
                self.expiry.end(session)
                raise
            if _is_over(session):
                self.expiry.end(session)
            sends = tuple(output.data for output in outputs if isinstance(output, Send))
            if session.peers:
                sends = tuple(map(self.context.identity.sign_mail, sends))
            return wire.Answer(int(self.sessions.is_open(session)), record, sends)

    def _record_epoch(self, session: Session) -> None:
        """Store which epoch a session makes, before anybody can vote for it (R4)."""
        if not session.peers or session.epoch or (epoch := dkg.epoch(session.party)) is None:
            return
        with self.context.share_changes:  # excludes a sweep
            self.sessions.check_open(session)
            self.context.store.enter_epoch(epoch.hex(), session.user_id, session.purpose.curve)
            session.epoch = epoch.hex()

    def _store_output(self, session: Session, output: Output[Any]) -> None:
        """Store what an output demands."""
        match output:
            case Done() if session.party.definition is presign.PRESIGN:
                with self.context.lock:
                    if self.sessions.is_open(session):
                        self.presignatures.shares.keep(session.key_id or "", output.result)
            case Prepared(result=KeyShare() as share):
                self._prepare(session, share)
            case Done(result=KeyShare() as share):
                if session.made is None:
                    self._prepare(session, share)
                session.done = True
            case Aborted():
                self.on_abort(session, output)
            case _:
                pass

    def _prepare(self, session: Session, share: KeyShare) -> None:
        record, store = share.record, self.context.store
        old = store.find(session.key_id) if session.key_id else None
        made = StoredShare(
            record.epoch.hex(),
            session.user_id,
            record.curve_name,
            record.public_key.encode(),
            share.to_bytes(),
            PREPARED,
            recoveries=old.recoveries + 1 if old else 0,
            predecessor=session.key_id,
        )
        with self.context.share_changes:
            self.sessions.check_open(session)
            store.prepare(made)
            session.made = made


def _is_over(session: Session) -> bool:
    """Return whether this node has no further part in the session.

    A signer is done when it has sent its last message; the result is for the client. Whoever has
    made a share stays for the vote.
    """
    party = session.party
    if isinstance(party.outcome, Aborted):
        return True
    if session.key_id is None or party.definition is reshare.RESHARE:
        return False
    last = party.definition.rounds[-1]
    waiting = party.waiting_state()
    if party.definition is presign.PRESIGN:
        return waiting is None
    return waiting is None or (waiting.round == last.number and not last.sends)
