"""Life cycle of a session between a client and one or both MPC nodes.

A session is one run of a protocol: a signature, a batch of presignatures (one MPC node), a key
generation or a recovery (both). It lives in memory at every participant.

Participants
    C      a client: the REST node's party, while it serves a call
    X, Y   the MPC nodes that take part, each with a table of sessions and a durable store
    G      the gateway: gives out places, routes envelopes, ends what nobody continues

Messages in order; [...] is durable at the sender before the message leaves
    1   C -> G       generate, recover or sign. The session id is the public key of a fresh pair;
                     with the other half C signs every later call of the session
    2   G            waits for the session's place: (user, curve) to make a key, then a slot of all
                     users; (MPC node, key) to sign. Then the session is open
    3   G -> X, Y    close of sessions that the node could not be told of; then the opening
    4   X, Y -> G    [for a key: begun, in the log of events; the epoch, before anything is revealed
                     in it; the prepared share; what an abort demands] envelopes; open or done
    5   G            routes envelopes between the nodes until none is under way (``routing``)
    6   G -> C       the envelopes for C
    7   C -> G       exchange(envelopes); 3 to 6 again, without the opening
  the end, whichever comes first
    a   signing: X is done and C has made its last request
    b   key creation: activate (``activation.decision``); its votes outlive the session
    c   otherwise G cancels, and sends close to X, Y: [the prepared share deleted]. Causes: an abort
        or error; the lifetime is over (also at X, Y, by their own clocks); C is silent for
        ``LEASE_S`` and another session waits for the place; the key is suspended; C's access token
        has expired

Invariants
    L1  At most one session signs with a key at an MPC node, and at most one makes a key for a
        (user, curve). G queues or refuses the next. Whatever G does, X refuses a second signing
        session and a second recovery of a key; of two generations at most one comes into force.
    L2  Nothing is resumed: a participant that restarts has no sessions. X begins at most one
        signing session of an id; of the others, one at a time.
    L3  A session continues only for the holder of its key pair: a token alone does not enter it.
    L4  A signing session keeps its place until C has made its last request, whatever X says: by
        then C has checked what a cheating X could otherwise guess at in a parallel session.

Crashes
    C        silent: its session ends by lease or lifetime
    G        its next start sends reset: X and Y end all sessions (``introduction``)
    X or Y   prepared shares are deleted at its start; G is answered "no such session", and cancels
    close is lost   G repeats it before the next session of the key at that node (3)

Where: places and ends here, queues in ``key_queue``; the nodes' side in ``mpc_node.sessions``.
Checked by: ``tests/service/gateway``: ``test_session_table``, ``test_sessions``, ``test_verbs``,
``test_key_creation_limit``; ``tests/service/mpc_node/test_node``; killed processes in
``tests/campaign``.
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
    idempotency_key_reused,
    key_busy,
    no_such_session,
    too_many_key_creations,
)
from mpcsim.service.gateway.defaults import LINK_TIMEOUT_S
from mpcsim.service.gateway.links.links import Link, Times
from mpcsim.service.gateway.registry import NamedCall
from mpcsim.service.gateway.sessions.key_queue import KeyQueue
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import Scope
from mpcsim.service.rpc.session_keys import is_body_proven
from mpcsim.service.rpc.tokens import Claims
from mpcsim.service.web.idempotency import CallName
from mpcsim.service.web.request_records import annotate_request
from mpcsim.service.web.threads import gather_all

SIGNING_REQUESTS: Final = {"secp256k1": 2, "ed25519": 1}
"""Client's requests in a signing session, by curve (L4)."""
CANCEL_WAIT_S: Final = 1.0
"""Longest time that a request waits until the MPC nodes have closed a cancelled session."""


@dataclass(frozen=True)
class CallerContext:
    """Context of one request: the caller's claims and proof, and its measured times."""

    claims: Claims
    times: Times = field(default_factory=Times)
    wait_for_disconnect: Callable[[], Awaitable[None]] | None = None
    """Awaitable that ends when the caller disconnects; None: that cannot be told."""
    name: CallName | None = None
    """Idempotency key of a call that makes a key, if it has one."""
    is_password_guess: bool = True
    """Whether a vault is opened to try a password."""
    proof: str | None = field(default=None, repr=False)
    """Signature with the session's key pair (``session_keys``, L3)."""

    def check_session(self, session_id: bytes, verb: str, body: bytes) -> None:
        """Check that a call of a session comes from the client that opened it (L3).

        Raises:
            Refused: it does not; or there is no such session.
        """
        if not is_body_proven(session_id, verb, body, self.proof):
            raise no_such_session()

    def named_call(self, curve: str) -> NamedCall | None:
        """Return the named call that this request is part of, if it has a name."""
        if self.name is None:
            return None
        return NamedCall(self.name.text, self.claims.user_id, self.name.verb, curve)


@dataclass
class Session:
    """Open session in the gateway's table."""

    session_id: bytes
    user_id: str
    curve: str
    nodes: tuple[PartyId, ...]
    """MPC nodes that take part."""
    expires_at: float
    key_id: str | None
    """Epoch that it signs with or replaces; None while it generates a key."""
    makes_key: bool
    """Whether it generates or recovers a key."""
    place: Hashable
    """Place that the session holds alone while it is open (2)."""
    release_place: Callable[[], None]
    """Callback that gives up the place."""
    last_served_at: float
    """Time at which the caller's last request was answered, in monotonic seconds."""
    requests_to_come: int
    """Requests that the caller has yet to make before an MPC node may end it (L4)."""
    named_call: NamedCall | None = None
    """Named call that it is part of, if any."""
    requests_in_progress: int = 0
    """Requests of the caller that are not answered yet."""
    open_nodes: set[PartyId] = field(default_factory=set)
    """MPC nodes that may have the session open."""
    expiry: asyncio.TimerHandle | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def scope(self, verb: str) -> Scope:
        """Return the scope of a request to an MPC node about this session."""
        key_id = None if self.key_id is None else bytes.fromhex(self.key_id)
        return Scope(verb, self.user_id, key_id, self.session_id)


class Sessions:
    """Table of open sessions, with the queues for their places."""

    def __init__(
        self,
        links: Mapping[PartyId, Link],
        *,
        clock: Callable[[], float],
        queue: int,
        signing_s: float,
        making_s: float,
        lease_s: float,
        making_limit: int,
        making_queue: int,
        making_wait_s: float,
    ) -> None:
        """
        Args:
            links: to the operator and the institution.
            clock: monotonic seconds, for the expiry of sessions.
            queue: signing requests that may wait for one key at one MPC node; with 0 a second
                request is refused at once.
            signing_s: lifetime of a signing session; ``making_s``: of the others.
            lease_s: time for which a session's caller may be silent before another session takes
                its place.
            making_limit: sessions of all users that may make keys at a time; 0: no limit.
            making_queue: requests that may wait for that, in order; ``making_wait_s``: how long.
        """
        self._links = links
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}
        self._signing_s = signing_s
        self._making_s = making_s
        self._lease_s = lease_s
        # A waiting request outlasts the session of a client that is lost.
        self._signing = KeyQueue(queue, signing_s + CANCEL_WAIT_S)
        self._making = KeyQueue(0, 0.0)
        self._key_creation_slots = KeyQueue(making_queue, making_wait_s, making_limit or math.inf)
        self._close_later: dict[tuple[PartyId, str], list[Session]] = {}
        """Cancelled sessions that a node could not be told of, by MPC node and key (3)."""
        self._background: set[asyncio.Task[None]] = set()

    @property
    def queues(self) -> Mapping[str, KeyQueue]:
        """Queues for places, by what is done with the key."""
        return {"signing": self._signing, "making": self._making}

    @property
    def key_creation_slots(self) -> KeyQueue:
        """Queue for slots to make a key, of all users together."""
        return self._key_creation_slots

    @property
    def open_sessions(self) -> Collection[Session]:
        """Sessions that are open now."""
        return list(self._sessions.values())

    def of_key(self, key_id: str) -> list[Session]:
        """Return the sessions that sign with a key, or replace it."""
        return [session for session in self._sessions.values() if session.key_id == key_id]

    def is_open(self, session: Session) -> bool:
        """Return whether a session has not ended."""
        return self._sessions.get(session.session_id) is session

    # ------------------------------------------------------------------ begin

    async def begin(
        self,
        caller: CallerContext,
        session_id: bytes,
        curve: str,
        what: str,
        key_id: str | None = None,
        nodes: tuple[PartyId, ...] = MPC_NODES,
    ) -> Session:
        """Open a session, once it has its place (2).

        Args:
            what: kind of session: GENERATION, RECOVERY or SIGNING.
            key_id: the key to sign with or recover.

        Raises:
            Refused: another session has the place, and its caller is not silent; or too many keys
                are being made.
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
        annotate_request(key_id=key_id, session_id=session_id)
        # Requests that wait for the place must not depend on a later request to expire this one.
        session.expiry = asyncio.get_running_loop().call_later(
            lifetime_s, self.start_cancelling, session
        )
        return session

    # ------------------------------------------------------------------ places

    async def _take(self, queue: KeyQueue, place: Hashable, what: str) -> Callable[[], None]:
        """Take a place, from a silent caller if need be; return the callback that gives it up."""
        holder = self._holder(place)
        if holder is not None and self._lease_left(holder) <= 0:
            await self.cancel([holder])
            holder = self._holder(place)
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
        """Return the refusal for a place that is taken, with the time until its lease ends."""
        holder = self._holder(place)
        left = self._lease_left(holder) if holder is not None else 0.0
        has_queue = queue is self._making or queue.capacity > 0
        return key_busy(what, max(1, math.ceil(left)), has_queue=has_queue)

    def check_key_is_free(self, user_id: str, curve: str, what: str) -> None:
        """Check that no session makes a key of a user and curve, but for one with a silent caller.

        Args:
            what: kind of session, for the error text.

        Raises:
            Refused: one does.
        """
        place = user_id, curve
        if self._making.is_taken(place):
            holder = self._holder(place)
            if holder is None or self._lease_left(holder) > 0:
                raise self._busy(self._making, place, what)

    def check_no_other_call(self, named_call: NamedCall) -> None:
        """Check that no open session is part of another call of the same user and name.

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
                raise idempotency_key_reused()

    async def _wait_for_slot(
        self, caller: CallerContext, release_place: Callable[[], None]
    ) -> Callable[[], None]:
        """Wait for a slot to make a key, of all users together.

        The place is held meanwhile, so that a user waits with one request a key, and the key does
        not change. Signing needs no slot.

        Args:
            release_place: gives up the place.

        Returns:
            Callback that gives up both.
        """
        key_creation_slots = self._key_creation_slots
        try:
            release_slot = await key_creation_slots.acquire(None, caller.wait_for_disconnect)
        except BaseException as error:
            release_place()
            if isinstance(error, TimeoutError):
                raise too_many_key_creations(
                    max(1, math.ceil(key_creation_slots.max_wait_s))
                ) from None
            raise

        def release_both() -> None:
            release_place()
            release_slot()

        return release_both

    async def _end_silent_holder(self, queue: KeyQueue, place: Hashable) -> None:
        """Cancel the session that has a place once its caller's lease is over; run while a request
        waits for that place."""
        soon = min(CANCEL_WAIT_S, self._lease_s)
        while queue.is_taken(place):
            holder = self._holder(place)  # None while one is being cancelled
            left = soon if holder is None else self._lease_left(holder)
            if holder is not None and left <= 0:
                self.start_cancelling(holder)
                left = soon
            await asyncio.sleep(left)

    def _holder(self, place: Hashable) -> Session | None:
        """Return the session that has a place."""
        return next((s for s in self._sessions.values() if s.place == place), None)

    def _lease_left(self, session: Session) -> float:
        """Return the seconds after which another session may take the place."""
        if session.requests_in_progress:
            return self._lease_s
        return session.last_served_at + self._lease_s - self._clock()

    # ------------------------------------------------------------------ continue

    async def find(self, claims: Claims, session_id: bytes) -> Session:
        """Return an open session of the caller; with a token for one key, one that signs with it.

        Raises:
            Refused: there is none of this id.
        """
        await self._expire()
        session = self._sessions.get(session_id)
        if session is None or session.user_id != claims.user_id:
            raise no_such_session()
        if claims.key_id is not None and (session.makes_key or session.key_id != claims.key_id):
            raise no_such_session()
        annotate_request(key_id=session.key_id, session_id=session_id)
        return session

    @asynccontextmanager
    async def serve_in_turn(self, session: Session) -> AsyncIterator[None]:
        """Serve requests of a session's caller one at a time; meanwhile its lease does not run out.

        Raises:
            Refused: the session has ended while this one waited.
        """
        session.requests_in_progress += 1
        try:
            async with session.lock:
                if not self.is_open(session):
                    raise no_such_session()
                yield
        finally:
            session.requests_in_progress -= 1
            session.last_served_at = self._clock()

    # ------------------------------------------------------------------ end

    def end(self, session: Session) -> None:
        """Remove a session; its place is free."""
        if self.is_open(session):
            del self._sessions[session.session_id]
        if session.expiry is not None:
            session.expiry.cancel()
        session.release_place()

    def start_cancelling(self, session: Session) -> asyncio.Task[None]:
        """Cancel a session in the background."""
        return self._start(self._cancel(session))

    async def _cancel(self, session: Session) -> None:
        """Close a session at the MPC nodes first, if they can be reached, then free its place: the
        next session must not find them busy."""
        if self.is_open(session):
            del self._sessions[session.session_id]
        try:
            await gather_all([self._close(party, session) for party in session.open_nodes])
        finally:
            self.end(session)

    async def _close(self, party: PartyId, session: Session) -> None:
        """Close a session at an MPC node, or note that it is to be closed later (3)."""
        try:
            await self._close_at(party, session)
        except LinkFailed:
            if session.key_id is not None:
                self._close_later.setdefault((party, session.key_id), []).append(session)
        except NodeFailed:
            pass  # the node could not delete a prepared share now; its next sweep does

    async def _close_at(self, party: PartyId, session: Session) -> None:
        body = wire.Close(session.session_id)
        await self._links[party].call(session.scope("close"), body, Times())

    async def close_pending(self, party: PartyId, key_id: str | None) -> None:
        """Close sessions of a key at an MPC node that could not be told of before (3)."""
        if key_id is not None and (old := self._close_later.pop((party, key_id), None)):
            try:
                await gather_all([self._close_at(party, session) for session in old])
            except LinkFailed:
                self._close_later[party, key_id] = old
                raise

    async def cancel(self, sessions: Sequence[Session]) -> None:
        """Cancel sessions, and wait for that up to ``CANCEL_WAIT_S``."""
        if tasks := [self.start_cancelling(session) for session in sessions]:
            await asyncio.wait(tasks, timeout=CANCEL_WAIT_S)

    async def cancel_if_owned(self, user_id: str, session_id: bytes) -> None:
        """Cancel a session, if it is the user's."""
        session = self._sessions.get(session_id)
        if session is not None and session.user_id == user_id:
            await self.cancel([session])

    async def _expire(self) -> None:
        now = self._clock()
        for at, old in list(self._close_later.items()):
            # A node may have begun them a little later than the gateway did.
            if max(session.expires_at for session in old) + LINK_TIMEOUT_S <= now:
                del self._close_later[at]
        await self.cancel([s for s in self._sessions.values() if s.expires_at <= now])

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that outlives its caller, and keep a reference to it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task
