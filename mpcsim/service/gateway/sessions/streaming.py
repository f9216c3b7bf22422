"""Messages that go on while they come: ``exchange`` in sessions with one MPC node.

What is stored first, however the gateway is set: everything else (``open``, ``generate``,
``recover``, ``sign``, ``presigned``, ``activate``; exchanges with both MPC nodes), and everything
while faults are in force on the links. So is a body that comes slowly, or that is none: its request
to the MPC node is broken off, which acts on whole bodies only, and the body is dealt with as if
nothing had been sent on (``MessageRouter.route``). Callers are told the same as by a gateway that
stores.

Each envelope's header is checked before anything of that envelope goes on, either way. What cannot
be known before the first byte:

* A session must be open whenever something goes to the client, and once more at the end, when the
  last byte goes; that byte is kept back until the MPC node's whole answer has been looked at and
  the books say what follows from it.
* What goes wrong before the reply has begun is told as ever. After that the reply breaks off, as if
  the connection had.
* The caller has opened the session (``session_keys``), whose proof is of the whole body: the last
  byte goes on once it has been checked.
* The session is the caller's (its lease does not run out) from when its first bytes are here, for
  as long as the body may take; should it end all the same, nothing more of the body goes on.
* An answer that begins before the request has ended is none.
* ``Server-Timing`` says what was spent until the reply began.

The MPC node's answer is read as fast as it comes, however slowly the caller takes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import ClientDisconnect

from mpcsim.carrier import Carrier, Pieces
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import CLIENT, ROLES, SESSION_ID_BYTES, PartyId
from mpcsim.protocols.engine.envelope import ABORT_KIND, Envelope
from mpcsim.service.errors import (
    LinkFailed,
    NodeFailed,
    Refused,
    no_such_session,
    owes,
    unintelligible,
)
from mpcsim.service.gateway.links.links import Link
from mpcsim.service.gateway.sessions.body_validation import AnswerValidator, ExchangeValidator
from mpcsim.service.gateway.sessions.routing import MAX_MESSAGES_OF_NODE, check_header
from mpcsim.service.gateway.sessions.sessions import LEASE_S, CallerContext, Session, Sessions
from mpcsim.service.rpc.session_keys import is_proven
from mpcsim.service.web.http import Incoming

LOG = logging.getLogger(__name__)

MAX_STREAMS: Final = 128
"""Bodies that go on as they come, at a time: each takes a connection to an MPC node for as long as
its caller takes. Further ones are stored."""
_HEAD_BYTES = SESSION_ID_BYTES + 2
"""Of a ``wire.Exchange``: its session, and how many messages follow."""


class _Store(Exception):
    """The body is to be dealt with when it is whole."""


class _Off(Exception):
    """The session has ended meanwhile."""


class Reply:
    """A ``wire.Mail`` on its way to a caller."""

    def __init__(self) -> None:
        self._coming: asyncio.Queue[bytes | asyncio.Task[bool]] = asyncio.Queue()
        self._first = b""

    def put(self, piece: bytes) -> None:
        """Something of it."""
        self._coming.put_nowait(piece)

    def over(self, task: asyncio.Task[bool]) -> None:
        """Nothing more comes; the task says why."""
        if not task.cancelled():
            task.exception()  # seen, whether or not anybody still waits
        self._coming.put_nowait(task)

    async def begins(self) -> bool:
        """Wait until there is something of it; False: the body is to be stored.

        Raises:
            Refused: there will be none.
        """
        first = await self._coming.get()
        if isinstance(first, bytes):
            self._first = first
            return True
        return first.result()

    async def pieces(self) -> Pieces:
        """As they come.

        Raises:
            Refused: it breaks off.
        """
        yield self._first
        while isinstance(piece := await self._coming.get(), bytes):
            yield piece
        piece.result()


class Streaming:
    """Forwards messages as their bytes arrive."""

    def __init__(
        self,
        sessions: Sessions,
        links: Mapping[PartyId, Link],
        carrier: Carrier,
        on_node_abort: Callable[[PartyId], Awaitable[None]],
        forwarding: str | None = None,
    ) -> None:
        """
        Args:
            on_node_abort: as of ``MessageRouter``.
            forwarding: ``store`` or ``stream``; None: as the carrier has it.
        """
        self._sessions = sessions
        self._links = links
        self._carrier = carrier
        self._on_node_abort = on_node_abort
        self._forwarding = forwarding
        self._under_way: set[asyncio.Task[bool]] = set()

    @property
    def on(self) -> bool:
        """Whether anything goes on while it comes, for now."""
        if self._carrier.faulty:
            return False
        return self._carrier.streams if self._forwarding is None else self._forwarding == "stream"

    async def exchange(self, caller: CallerContext, body: Incoming) -> Reply | None:
        """Carry a client's messages to its one MPC node, and back what that one says.

        Returns:
            The reply, which has begun; None: the body is to be stored first, nothing is done yet.

        Raises:
            Refused: the session is off.
        """
        if len(self._under_way) >= MAX_STREAMS:
            return None
        session = await self._session(caller, body)
        if session is None:
            return None
        reply = Reply()
        task = asyncio.create_task(self._carry(caller, session, body, reply))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(reply.over)
        try:
            return reply if await reply.begins() else None
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _session(self, caller: CallerContext, body: Incoming) -> Session | None:
        """The session that a body is of, if it may go on while it comes."""
        try:
            while len(body.so_far) < _HEAD_BYTES:
                if not await body.more():
                    return None
            if caller.proof is None or not any(body.so_far[SESSION_ID_BYTES:_HEAD_BYTES]):
                return None
            session_id = bytes(body.so_far[:SESSION_ID_BYTES])
            session = await self._sessions.find(caller.claims, session_id)
        except (Refused, ClientDisconnect):
            return None  # as will be seen again
        return session if len(session.nodes) == 1 else None

    async def _carry(
        self, caller: CallerContext, session: Session, body: Incoming, reply: Reply
    ) -> bool:
        """What ``MessageRouter.route`` does; False: it is for that to do."""
        (party,) = session.nodes
        async with self._sessions.serve_in_turn(session):
            if party not in session.open_nodes:
                session.requests_to_come += 1
                return False
            try:
                aborts, last = await self._through(caller, session, party, body, reply)
            except _Store:
                session.requests_to_come += 1
                return False
            except _Off:
                aborts, last = False, b""  # it is not open any more
            except asyncio.CancelledError:
                self._sessions.start_cancelling(session)
                raise
            except BaseException as error:
                if isinstance(error, Refused) and not isinstance(error, LinkFailed):
                    session.open_nodes.discard(party)
                await self._sessions.cancel([session])
                raise
            if not self._sessions.is_open(session):
                await self._sessions.cancel([session])
                raise no_such_session()
            if aborts:
                await self._sessions.cancel([session])
            elif not session.open_nodes:
                self._sessions.end(session)
            reply.put(last)
            return True

    async def _through(
        self, caller: CallerContext, session: Session, party: PartyId, body: Incoming, reply: Reply
    ) -> tuple[bool, bytes]:
        """Have the MPC node asked, and its answer given to the client but for its end.

        Returns:
            Whether the client has aborted; the end.

        Raises:
            Refused: the MPC node's refusal, or it has not answered.
        """
        link = self._links[party]
        sent: list[Envelope] = []

        def to_node(envelope: Envelope) -> None:
            check_header(session, CLIENT, envelope)
            sent.append(envelope)

        said: list[Envelope] = []

        def to_client(envelope: Envelope) -> None:
            check_header(session, party, envelope)
            said.append(envelope)

        def going_on() -> None:
            if not self._sessions.is_open(session):
                raise _Off

        answer = AnswerValidator(to_client, MAX_MESSAGES_OF_NODE)
        kept = b""

        def take(piece: bytes) -> None:
            nonlocal kept
            passed = kept + _said(party, answer.feed, piece)
            going_on()
            kept = passed if answer.done else b""  # together with the last byte
            if passed and not answer.done:
                reply.put(passed)

        scope = session.scope("exchange")

        patience_s = min(link.timeout_s / 2, LEASE_S)

        def check_whole(body_hash: bytes) -> None:
            if not is_proven(session.session_id, "exchange", body_hash, caller.proof):
                raise no_such_session()

        upward = _checked(body, ExchangeValidator(to_node), patience_s, going_on, check_whole)
        try:
            await link.stream(scope, upward, body.size, caller.times, take)
        except NodeFailed as failed:
            if owes(failed):
                await self._on_node_abort(party)
            raise
        last = kept + _said(party, lambda _: answer.finish(), b"")
        if any(envelope.kind == ABORT_KIND for envelope in said):
            await self._on_node_abort(party)
        if not answer.open and session.requests_to_come <= 0:
            session.open_nodes.discard(party)
        return any(envelope.kind == ABORT_KIND for envelope in sent), last


async def _checked(
    body: Incoming,
    validator: ExchangeValidator,
    patience_s: float,
    going_on: Callable[[], None],
    check_whole: Callable[[bytes], None],
) -> Pieces:
    """What of a body may go on, as it comes.

    Args:
        going_on: raises if nothing more is to go on.
        check_whole: raises if the last byte is not to go on, whatever came before; given SHA-256
            of the body.

    Raises:
        _Store: nothing more of it may, or it takes longer than that.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_s
    chunk, hashed = bytes(body.so_far), hashlib.sha256()
    try:
        while chunk:
            hashed.update(chunk)
            passed = validator.feed(chunk)
            if body.complete:
                break
            if passed:
                going_on()
                yield passed
            passed = b""
            chunk = await body.more(max(0.0, until - loop.time()))
        last = validator.finish()
        check_whole(hashed.digest())
        going_on()
        yield passed + last
    except (InvalidEncoding, Refused, ClientDisconnect, TimeoutError) as error:
        raise _Store from error


def _said(party: PartyId, look: Callable[[bytes], bytes], piece: bytes) -> bytes:
    """Look at what an MPC node says.

    Raises:
        LinkFailed: it is no answer of its; the client has no part in that.
    """
    try:
        return look(piece)
    except (InvalidEncoding, Refused) as error:
        LOG.error("the %s's answer: %s", ROLES[party], error)
        raise unintelligible(party) from None
