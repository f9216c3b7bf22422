"""Sessions between a client and the MPC nodes: the gateway's books of them.

Who may have one when, whose it is, when it ends, and who must hear of that. What travels in them is
carried by ``routing``; what comes of those that make a key is decided by ``activation``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from mpcsim.ids import MPC_NODES, PartyId
from mpcsim.service.errors import (
    CONFLICT,
    SIGNING,
    LinkFailed,
    NodeFailed,
    Refused,
    busy,
    named_otherwise,
    no_such_session,
    too_many_makings,
)
from mpcsim.service.gateway.links.links import LINK_TIMEOUT_S, Link, Times
from mpcsim.service.gateway.registry import NamedCall
from mpcsim.service.gateway.sessions.key_queue import KeyQueue
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.session_keys import is_call_proven
from mpcsim.service.rpc.tokens import Claims
from mpcsim.service.rpc.wire import MAKING_S, SIGNING_S
from mpcsim.service.web.entries import note
from mpcsim.service.web.idempotency import Name
from mpcsim.service.web.threads import all_of

LEASE_S: Final = 5.0
"""How long a session's caller may be silent before the key's next caller takes its place."""
MAKING_QUEUE: Final = 100
"""How many may wait to have a key made, where there is a limit: each holds a connection."""
MAKING_WAIT_S: Final = 10.0
"""How long they wait at most: a node gives up after 30 s, and making a key takes some of them."""
SIGNING_REQUESTS: Final = {"secp256k1": 2, "ed25519": 1}
"""Of the client in a signing session. It has looked at what can be guessed from when it makes the
last one; until then the key's turn is not over, whatever the MPC node says."""
CANCEL_WAIT_S: Final = 1.0
"""How long a request waits for the MPC nodes to hear that a session is off."""


@dataclass(frozen=True)
class CallerContext:
    """Who asks, and where the time goes."""

    claims: Claims
    times: Times = field(default_factory=Times)
    wait_for_disconnect: Callable[[], Awaitable[None]] | None = None
    """Returns once nobody waits for the answer, where that can be told."""
    name: Name | None = None
    """Of a call that makes a key, if it has one."""
    is_password_guess: bool = True
    """Whether a vault is opened to try a password."""
    proof: str | None = field(default=None, repr=False)
    """That the caller has opened the session which the call is of (``session_keys``)."""

    def check_session(self, session_id: bytes, verb: str, body: bytes) -> None:
        """See that a call of a session comes from whoever has opened it.

        Raises:
            Refused: it does not; the session, if there is one, is not the caller's.
        """
        if not is_call_proven(session_id, verb, body, self.proof):
            raise no_such_session()

    def named_call(self, curve: str) -> NamedCall | None:
        """The call that the name is of."""
        if self.name is None:
            return None
        return NamedCall(self.name.text, self.claims.user_id, self.name.verb, curve)


@dataclass
class Session:
    """A session as the gateway sees it."""

    session_id: bytes
    user_id: str
    curve: str
    nodes: tuple[PartyId, ...]
    """MPC nodes that take part."""
    expires_at: float
    key_id: str | None
    """The key it acts on or replaces; None while it generates one."""
    makes_key: bool
    """It makes a key, in steps that take tens of milliseconds."""
    place: Hashable
    """What the session has to itself while it is open."""
    release_place: Callable[[], None]
    """Gives up the place."""
    last_served_at: float
    """When the caller's last request was answered."""
    requests_to_come: int
    """Requests that the caller has yet to make before the MPC nodes may end it."""
    named_call: NamedCall | None = None
    """The call that it is part of, if that has a name."""
    requests_in_progress: int = 0
    """Requests of the caller that are not answered yet."""
    open_nodes: set[PartyId] = field(default_factory=set)
    """MPC nodes that may have it in their books."""
    expiry: asyncio.TimerHandle | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def scope(self, verb: str) -> Scope:
        """Of a request about it."""
        key_id = None if self.key_id is None else bytes.fromhex(self.key_id)
        return Scope(verb, self.user_id, key_id, self.session_id)


class Sessions:
    """The open sessions."""

    def __init__(
        self,
        links: Mapping[PartyId, Link],
        *,
        clock: Callable[[], float],
        queue: int = 0,
        signing_s: float = SIGNING_S,
        making_s: float = MAKING_S,
        lease_s: float = LEASE_S,
        making_limit: int = 0,
        making_queue: int = MAKING_QUEUE,
        making_wait_s: float = MAKING_WAIT_S,
    ) -> None:
        """No session.

        Args:
            links: to the operator and the institution.
            clock: monotonic seconds, for the expiry of sessions.
            queue: signing requests that may wait for one key at one MPC node; with 0 a second
                request is refused at once.
            signing_s: how long a signing session may take; ``making_s``: the others.
            lease_s: how long a session's caller may be silent before another takes its place.
            making_limit: sessions of all users that may make keys at a time; 0: no limit.
            making_queue: how many more may wait for that, in order; ``making_wait_s``: how long.
        """
        self._links = links
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}
        self._signing_s = signing_s
        self._making_s = making_s
        self._lease_s = lease_s
        # Whoever waits for a client that is lost is to see its session end.
        self._signing = KeyQueue(queue, signing_s + CANCEL_WAIT_S)
        self._making = KeyQueue(0, 0.0)
        self._key_creation_slots = KeyQueue(making_queue, making_wait_s, making_limit or math.inf)
        self._close_later: dict[tuple[PartyId, str], list[Session]] = {}
        """By MPC node and key: sessions that are off though the node could not be told."""
        self._background: set[asyncio.Task[None]] = set()

    @property
    def queues(self) -> Mapping[str, KeyQueue]:
        """Who has which key to themselves, by what they do with it."""
        return {"signing": self._signing, "making": self._making}

    @property
    def key_creation_slots(self) -> KeyQueue:
        """Whose turn it is to make a key, any key."""
        return self._key_creation_slots

    @property
    def open(self) -> Collection[Session]:
        """All of them, as they are now."""
        return list(self._sessions.values())

    def of_key(self, key_id: str) -> list[Session]:
        """Those that act on a key, or replace it."""
        return [session for session in self._sessions.values() if session.key_id == key_id]

    def is_open(self, session: Session) -> bool:
        """Whether it is still in the books."""
        return self._sessions.get(session.session_id) is session

    # ------------------------------------------------------------------ they begin

    async def begin(
        self,
        caller: CallerContext,
        session_id: bytes,
        curve: str,
        what: str,
        key_id: str | None = None,
        nodes: tuple[PartyId, ...] = MPC_NODES,
    ) -> Session:
        """Enter a session in the books, once it has its key.

        Of makings, generations and recoveries, there is one for a user and curve, and of all of
        them as many as the limit says; of signing sessions, one for a key at an MPC node.

        Raises:
            Refused: another session has the place, and its caller is not silent; or so many keys
                are being made that this one would have to wait for too long.
        """
        await self._expire()
        user_id, makes_key = caller.claims.user_id, what != SIGNING
        place: Hashable = (user_id, curve) if makes_key else (nodes, key_id)
        release_place = await self._take(self._making if makes_key else self._signing, place, what)
        if makes_key:
            release_place = await self._wait_for_slot(caller, release_place)
        if session_id in self._sessions:
            release_place()
            raise Refused(CONFLICT, "a session of this id is open")
        lifetime_s = self._making_s if makes_key else self._signing_s
        now = self._clock()
        session = Session(
            session_id,
            user_id,
            curve,
            nodes,
            now + lifetime_s,
            key_id,
            makes_key,
            place,
            release_place,
            last_served_at=now,
            requests_to_come=0 if makes_key else SIGNING_REQUESTS[curve],
            named_call=caller.named_call(curve),
        )
        self._sessions[session_id] = session
        note(key_id=key_id, session_id=session_id)
        # Those who wait for the key must not depend on the next request coming by.
        session.expiry = asyncio.get_running_loop().call_later(
            lifetime_s, self.start_cancelling, session
        )
        return session

    # ------------------------------------------------------------------ who holds a key

    async def _take(self, queue: KeyQueue, place: Hashable, what: str) -> Callable[[], None]:
        """Take the key, from a caller who is silent if need be; returns what gives it up."""
        holder = self._holder(queue, place)
        if holder is not None and self._lease_left(holder) <= 0:
            await self.cancel([holder])
            holder = self._holder(queue, place)
        relief = None
        if queue.capacity and queue.is_taken(place):
            relief = self._start(self._end_silent_holder(queue, place))
        try:
            return await queue.acquire(place)
        except TimeoutError:
            raise self._busy(queue, place, what) from None
        finally:
            if relief is not None:
                relief.cancel()

    def _busy(self, queue: KeyQueue, place: Hashable, what: str) -> Refused:
        """A place is taken, and will be for as long as its caller is not silent."""
        holder = self._holder(queue, place)
        left = self._lease_left(holder) if holder is not None else 0.0
        return busy(what, max(1, math.ceil(left)))

    def check_key_is_free(self, user_id: str, curve: str, what: str) -> None:
        """See that no key of a user and curve is being made, but for one whose caller is silent.

        Args:
            what: is to be made.

        Raises:
            Refused: one is.
        """
        place = user_id, curve
        if self._making.is_taken(place):
            holder = self._holder(self._making, place)
            if holder is None or self._lease_left(holder) > 0:
                raise self._busy(self._making, place, what)

    def check_no_other_call(self, named_call: NamedCall) -> None:
        """See that no session is part of another call of the same user and name.

        Raises:
            Refused: one is.
        """
        for session in self._sessions.values():
            other = session.named_call
            if other is None or (other.user_id, other.name) != (
                named_call.user_id,
                named_call.name,
            ):
                continue
            if other != named_call:
                raise named_otherwise()

    async def _wait_for_slot(
        self, caller: CallerContext, release_place: Callable[[], None]
    ) -> Callable[[], None]:
        """Wait until so few keys are being made that another may.

        The key itself is taken already: whoever waits keeps others of the same user from waiting
        for the same, and nothing changes about the key meanwhile. Signing waits for none of this.

        Args:
            leave: gives up the key.

        Returns:
            What gives up both.
        """
        key_creation_slots = self._key_creation_slots
        try:
            release_slot = await key_creation_slots.acquire(None, caller.wait_for_disconnect)
        except BaseException as error:
            release_place()
            if isinstance(error, TimeoutError):
                raise too_many_makings(max(1, math.ceil(key_creation_slots.max_wait_s))) from None
            raise

        def release_both() -> None:
            release_place()
            release_slot()

        return release_both

    async def _end_silent_holder(self, queue: KeyQueue, place: Hashable) -> None:
        """For somebody who waits for a place: end the session that has it once its caller is
        silent for too long."""
        soon = min(CANCEL_WAIT_S, self._lease_s)
        while queue.is_taken(place):
            holder = self._holder(queue, place)  # none while one is being called off
            left = soon if holder is None else self._lease_left(holder)
            if holder is not None and left <= 0:
                self.start_cancelling(holder)
                left = soon
            await asyncio.sleep(left)

    def _holder(self, queue: KeyQueue, place: Hashable) -> Session | None:
        """The session that has a place."""
        if not queue.is_taken(place):
            return None
        return next((s for s in self._sessions.values() if s.place == place), None)

    def _lease_left(self, session: Session) -> float:
        """Seconds after which others may take the session's place."""
        if session.requests_in_progress:
            return self._lease_s
        return session.last_served_at + self._lease_s - self._clock()

    # ------------------------------------------------------------------ they go on

    async def find(self, claims: Claims, session_id: bytes) -> Session:
        """One of the caller's; with a token for one key, one that signs with it.

        Raises:
            Refused: there is none of this id.
        """
        await self._expire()
        session = self._sessions.get(session_id)
        if session is None or session.user_id != claims.user_id:
            raise no_such_session()
        if claims.key_id is not None and (session.makes_key or session.key_id != claims.key_id):
            raise no_such_session()
        note(key_id=session.key_id, session_id=session_id)
        return session

    @asynccontextmanager
    async def serve_in_turn(self, session: Session) -> AsyncIterator[None]:
        """Serve requests of a session's caller one at a time; in the meantime the caller is not
        silent.

        Raises:
            Refused: the session has ended while this one waited.
        """
        session.requests_in_progress += 1
        try:
            async with session.lock:
                if not self.is_open(session):
                    raise no_such_session()
                session.requests_to_come -= 1
                yield
        finally:
            session.requests_in_progress -= 1
            session.last_served_at = self._clock()

    # ------------------------------------------------------------------ they end

    def end(self, session: Session) -> None:
        """Strike a session out of the books; its key is free."""
        if self.is_open(session):
            del self._sessions[session.session_id]
        if session.expiry is not None:
            session.expiry.cancel()
        session.release_place()

    def start_cancelling(self, session: Session) -> asyncio.Task[None]:
        """End a session before its time; nobody has to wait for it."""
        return self._start(self._cancel(session))

    async def _cancel(self, session: Session) -> None:
        """Tell the MPC nodes first, if they can be reached, so that whoever has the key next does
        not find them busy."""
        if self.is_open(session):
            del self._sessions[session.session_id]
        try:
            await all_of([self._close(party, session) for party in session.open_nodes])
        finally:
            self.end(session)

    async def _close(self, party: PartyId, session: Session) -> None:
        """Tell an MPC node that a session is off; remember if it cannot be told."""
        try:
            await self._close_at(party, session)
        except LinkFailed:
            if session.key_id is not None:
                self._close_later.setdefault((party, session.key_id), []).append(session)
        except NodeFailed:
            pass  # It cannot drop a prepared share now, and has said so; settling will.

    async def _close_at(self, party: PartyId, session: Session) -> None:
        body = wire.Close(session.session_id)
        await self._links[party].call(session.scope("close"), body, Times())

    async def close_pending(self, party: PartyId, key_id: str | None) -> None:
        """Tell an MPC node what it could not be told before, as far as it matters for a key."""
        if key_id is not None and (old := self._close_later.pop((party, key_id), None)):
            try:
                await all_of([self._close_at(party, session) for session in old])
            except LinkFailed:
                self._close_later[party, key_id] = old
                raise

    async def cancel(self, sessions: Sequence[Session]) -> None:
        """Call sessions off; do not wait for it for long."""
        if tasks := [self.start_cancelling(session) for session in sessions]:
            await asyncio.wait(tasks, timeout=CANCEL_WAIT_S)

    async def cancel_if_owned(self, user_id: str, session_id: bytes) -> None:
        """Call off a session, if it is the user's."""
        session = self._sessions.get(session_id)
        if session is not None and session.user_id == user_id:
            await self.cancel([session])

    async def _expire(self) -> None:
        now = self._clock()
        for at, old in list(self._close_later.items()):
            # A node may have entered them in its books a little later than we did.
            if max(session.expires_at for session in old) + LINK_TIMEOUT_S <= now:
                del self._close_later[at]
        await self.cancel([s for s in self._sessions.values() if s.expires_at <= now])

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that goes on whoever waits for it; the event loop itself would not hold on to it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task
