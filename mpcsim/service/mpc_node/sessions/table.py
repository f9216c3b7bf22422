"""Table of an MPC node's open sessions, in memory: one that is lost to a crash is never resumed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mpcsim.ids import PartyId
from mpcsim.protocols.engine import Party
from mpcsim.service.error_codes import Code
from mpcsim.service.errors import CONFLICT, SIGNING, Refused, key_busy, no_such_session
from mpcsim.service.mpc_node.store import StoredShare
from mpcsim.service.rpc.grants import Scope

MAX_SESSIONS: Final = 4096
"""Largest number of open sessions; each keeps at most a few hundred kB, of presigning 2.5 MB."""


@dataclass(frozen=True)
class Purpose:
    """Subject of a session: whose key it acts on, and how."""

    user_id: str
    key_id: str | None
    """Epoch that it signs with or replaces; None while it generates a key."""
    peers: Mapping[PartyId, bytes] = field(default_factory=dict)
    """Keys that unsealed messages must be signed with, in a session that makes a key: the other MPC
    node's identity, and for the client the session id (``session_keys``)."""
    curve: str = ""
    """Curve of the key that is made; empty where it signs."""
    exclusive_work: str | None = None
    """Kind of work that only one session at a time may do with the key; None: any number."""


@dataclass
class Session:
    """Open session at this node."""

    session_id: bytes
    party: Party[Any, Any]
    expires_at: float
    purpose: Purpose
    epoch: str | None = None
    """Epoch of the share that it makes, once that is known."""
    made: StoredShare | None = None
    """Share that it has made, prepared in the store."""
    done: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def user_id(self) -> str:
        return self.purpose.user_id

    @property
    def key_id(self) -> str | None:
        return self.purpose.key_id

    @property
    def peers(self) -> Mapping[PartyId, bytes]:
        return self.purpose.peers

    def scope(self, verb: str) -> Scope:
        """Return what a grant for a request about this session is good for."""
        key_id = None if self.key_id is None else bytes.fromhex(self.key_id)
        return Scope(verb, self.user_id, key_id, self.session_id)


class SessionTable:
    """Sessions by id, with the exclusive use of keys. Any thread may call."""

    def __init__(self, clock: Callable[[], float], lock: threading.RLock) -> None:
        """
        Args:
            clock: monotonic seconds, for the expiry of sessions.
            lock: the node's lock.
        """
        self._clock = clock
        self._lock = lock
        self._sessions: dict[bytes, Session] = {}
        self._exclusive: dict[tuple[str, str], bytes] = {}
        """Session that has the exclusive use of a key, by kind of work and key_id (L1)."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Iterate over a copy: sessions may be begun and forgotten meanwhile."""
        with self._lock:
            return iter(list(self._sessions.values()))

    def begin(self, party: Party[Any, Any], purpose: Purpose, lifetime_s: float) -> Session:
        """Open a session.

        Raises:
            Refused: another one has the exclusive use of the key, or too many sessions are open, or
                the session id is in use.
        """
        with self._lock:
            self.expire()
            if party.session_id in self._sessions:
                raise Refused(CONFLICT, "a session of this id is open")
            if len(self._sessions) >= MAX_SESSIONS:
                raise Refused(CONFLICT, "too many sessions are open", code=Code.BUSY)
            exclusive_work, key_id = purpose.exclusive_work, purpose.key_id
            if exclusive_work and key_id:
                if (exclusive_work, key_id) in self._exclusive:
                    raise key_busy(exclusive_work)
                self._exclusive[exclusive_work, key_id] = party.session_id
            expires_at = self._clock() + lifetime_s
            session = Session(party.session_id, party, expires_at, purpose)
            self._sessions[party.session_id] = session
            return session

    def get(self, session_id: bytes) -> Session | None:
        """Return a session, even one past its lifetime; None if it is not open."""
        return self._sessions.get(session_id)

    def find(self, session_id: bytes) -> Session:
        """Return an open session.

        Raises:
            Refused: there is none of that id.
        """
        with self._lock:
            self.expire()
            session = self._sessions.get(session_id)
        if session is None:
            raise no_such_session()
        return session

    def is_open(self, session: Session) -> bool:
        """Return whether a session has not been forgotten."""
        return self._sessions.get(session.session_id) is session

    def check_open(self, session: Session) -> None:
        """Check that a session has not been forgotten.

        Raises:
            Refused: it has.
        """
        if not self.is_open(session):
            raise no_such_session()

    def is_signing(self, session_id: bytes) -> bool:
        """Return whether a session is open and signs."""
        session = self._sessions.get(session_id)
        return session is not None and (
            self._exclusive.get((SIGNING, session.key_id or "")) == session.session_id
        )

    def end_signing(self, key_id: str) -> None:
        """Forget the session that signs with a key, if there is one."""
        with self._lock:
            signing = self._sessions.get(self._exclusive.get((SIGNING, key_id), b""))
            if signing is not None:
                self.forget(signing)

    def find_by_made_share(self, key_id: str) -> Session | None:
        """Return the session that has made a share, if it is still open."""
        return next((s for s in self if s.made and s.made.key_id == key_id), None)

    def forget(self, session: Session) -> None:
        """End a session; its exclusive use of a key ends, too."""
        with self._lock:
            if not self.is_open(session):
                return
            del self._sessions[session.session_id]
            for what, holder in list(self._exclusive.items()):
                if holder == session.session_id:
                    del self._exclusive[what]

    def expire(self) -> None:
        """End sessions past their lifetime."""
        now = self._clock()
        for session in [s for s in self._sessions.values() if s.expires_at <= now]:
            self.forget(session)

    def clear(self) -> None:
        """End all sessions, as a crash does."""
        self._sessions.clear()
        self._exclusive.clear()
