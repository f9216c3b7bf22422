"""Forwarding of messages while their bytes arrive: ``exchange`` in sessions with one MPC node.

Everything else is stored first and then forwarded (``MessageRouter.route``), however the gateway is
set: other verbs, exchanges with both MPC nodes, and all messages while faults are in force on the
links. So is a body that arrives slowly or turns out malformed: its request to the MPC node, which
acts on whole bodies only, is broken off, and the body is handled as if nothing had been forwarded.
Callers get the same answers either way.

The header of an envelope is checked before any byte of it is forwarded (``body_validation``). What
cannot be known before the first byte is checked later:

* The session must be open whenever bytes go to the client, and once more at the end: the last byte
  is held back until the MPC node's whole answer has been validated and the table of sessions is up
  to date.
* An error before the reply has begun is answered as usual. After that, the reply breaks off like a
  lost connection.
* The caller's proof that it opened the session (``session_keys``) covers the whole body: the last
  byte is forwarded once the proof has been checked.
* The caller's lease does not run out from the body's first bytes on. Should the session end all the
  same, nothing more of the body is forwarded.
* An answer that begins before the request has ended counts as malformed.
* ``Server-Timing`` covers the time until the reply began.

The MPC node's answer is read as fast as it comes, however slowly the caller takes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import ClientDisconnect

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import CLIENT, ROLES, SESSION_ID_BYTES, PartyId
from mpcsim.link_transport import LinkTransport, Pieces
from mpcsim.protocols.engine.envelope import ABORT_KIND, Envelope
from mpcsim.service.errors import (
    LinkFailed,
    NodeFailed,
    Refused,
    may_owe_suspension,
    no_such_session,
    unintelligible_reply,
)
from mpcsim.service.gateway.defaults import LEASE_S
from mpcsim.service.gateway.links.links import Link
from mpcsim.service.gateway.sessions.body_validation import AnswerValidator, ExchangeValidator
from mpcsim.service.gateway.sessions.routing import MAX_MESSAGES_OF_NODE, check_header
from mpcsim.service.gateway.sessions.sessions import CallerContext, Session, Sessions
from mpcsim.service.rpc.session_keys import is_proven
from mpcsim.service.web.http import RequestBody

LOG = logging.getLogger(__name__)

MAX_STREAMS: Final = 128
"""Largest number of bodies that are forwarded at a time: each holds a connection to an MPC node for
as long as its caller takes. Further ones are stored first."""
_HEAD_BYTES = SESSION_ID_BYTES + 2
"""Length of the first fields of a ``wire.Exchange``: session id, and number of messages."""


class _StoreFirst(Exception):
    """The body must be stored first, and handled when it is complete."""


class Reply:
    """Reply (a ``wire.MessageBatch``) whose pieces are sent while they arrive."""

    def __init__(self) -> None:
        self._coming: asyncio.Queue[bytes | asyncio.Task[None]] = asyncio.Queue()
        self._first = b""

    def put(self, piece: bytes) -> None:
        """Add a piece."""
        self._coming.put_nowait(piece)

    def finish(self, task: asyncio.Task[None]) -> None:
        """End the reply with the outcome of the task that filled it."""
        if not task.cancelled():
            task.exception()  # marks it as retrieved, whether or not the caller still waits
        self._coming.put_nowait(task)

    async def wait_for_first_piece(self) -> None:
        """Wait for the first piece.

        Raises:
            Refused: there is no reply. ``_StoreFirst``: the body must be stored first.
        """
        first = await self._coming.get()
        if isinstance(first, bytes):
            self._first = first
        else:
            first.result()

    async def pieces(self) -> Pieces:
        """Yield the pieces as they arrive.

        Raises:
            Refused: the reply breaks off.
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
        carrier: LinkTransport,
        on_node_abort: Callable[[PartyId], Awaitable[None]],
        forwarding: str | None = None,
    ) -> None:
        """
        Args:
            on_node_abort: as for ``MessageRouter``.
            forwarding: ``store`` or ``stream``; None: as the carrier's network says.
        """
        self._sessions = sessions
        self._links = links
        self._carrier = carrier
        self._on_node_abort = on_node_abort
        self._forwarding = forwarding
        self._under_way: set[asyncio.Task[None]] = set()

    @property
    def is_enabled(self) -> bool:
        """Whether messages are forwarded while they arrive, at present."""
        wished = self._carrier.streams if self._forwarding is None else self._forwarding == "stream"
        return wished and not self._carrier.has_faults

    async def exchange(self, caller: CallerContext, body: RequestBody) -> Reply | None:
        """Forward a client's messages to its one MPC node, and the answers back.

        Returns:
            The reply, which has begun; None: the body must be stored first, nothing is done yet.

        Raises:
            Refused: the session has been cancelled.
        """
        if len(self._under_way) >= MAX_STREAMS:
            return None
        session = await self._session(caller, body)
        if session is None:
            return None
        reply = Reply()
        task = asyncio.create_task(self._forward(caller, session, body, reply))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(reply.finish)
        try:
            await reply.wait_for_first_piece()
        except _StoreFirst:
            return None
        except asyncio.CancelledError:
            task.cancel()
            raise
        return reply

    async def _session(self, caller: CallerContext, body: RequestBody) -> Session | None:
        """Return the session that a body is of, if the body may be forwarded while it arrives."""
        try:
            while len(body.received) < _HEAD_BYTES:
                if not await body.read_more():
                    return None
            if caller.proof is None or not any(body.received[SESSION_ID_BYTES:_HEAD_BYTES]):
                return None
            session_id = bytes(body.received[:SESSION_ID_BYTES])
            session = await self._sessions.find(caller.claims, session_id)
        except Refused:
            return None  # the router meets the same error, and answers it
        return session if len(session.nodes) == 1 else None

    async def _forward(
        self, caller: CallerContext, session: Session, body: RequestBody, reply: Reply
    ) -> None:
        """Forward a body.

        Raises:
            _StoreFirst: it must be stored first, for ``MessageRouter.route``.
            Refused: the session has been cancelled.
        """
        (party,) = session.nodes
        async with self._sessions.serve_in_turn(session):
            if party not in session.open_nodes:
                raise _StoreFirst
            try:
                aborts, last = await self._forward_through_link(caller, session, party, body, reply)
            except _StoreFirst:
                raise
            except BaseException as error:
                refused = isinstance(error, Refused) and not isinstance(error, LinkFailed)
                # Of a session that has ended it is not the node's word: it is being closed there.
                if refused and self._sessions.is_open(session):
                    session.open_nodes.discard(party)
                await self._sessions.cancel([session])
                raise
            if not self._sessions.is_open(session):
                raise no_such_session()
            if aborts:
                await self._sessions.cancel([session])
            elif not session.open_nodes:
                self._sessions.end(session)
            reply.put(last)

    async def _forward_through_link(
        self,
        caller: CallerContext,
        session: Session,
        party: PartyId,
        body: RequestBody,
        reply: Reply,
    ) -> tuple[bool, bytes]:
        """Send the body to the MPC node, and all of its answer but the last byte to the client.

        Returns:
            Whether the client has aborted; the end of the answer.

        Raises:
            Refused: the MPC node's refusal, or it has not answered.
        """
        link = self._links[party]
        from_client: list[Envelope] = []

        def to_node(envelope: Envelope) -> None:
            check_header(session, CLIENT, envelope)
            from_client.append(envelope)

        from_node: list[Envelope] = []

        def to_client(envelope: Envelope) -> None:
            check_header(session, party, envelope)
            from_node.append(envelope)

        def raise_if_ended() -> None:
            if not self._sessions.is_open(session):
                raise no_such_session()

        answer = AnswerValidator(to_client, MAX_MESSAGES_OF_NODE)
        kept = b""

        def take(piece: bytes) -> None:
            nonlocal kept
            passed = kept + _validate_answer(party, answer.feed, piece)
            raise_if_ended()
            kept = passed if answer.done else b""  # together with the last byte
            if passed and not answer.done:
                reply.put(passed)

        scope = session.scope("exchange")

        patience_s = min(link.timeout_s / 2, LEASE_S)

        def check_whole(body_hash: bytes) -> None:
            if not is_proven(session.session_id, "exchange", body_hash, caller.proof):
                raise no_such_session()

        upward = _validated_pieces(
            body, ExchangeValidator(to_node), patience_s, raise_if_ended, check_whole
        )
        try:
            await link.stream(scope, upward, body.size, caller.times, take)
        except NodeFailed as failed:
            if may_owe_suspension(failed):
                await self._on_node_abort(party)
            raise
        last = kept + _validate_answer(party, lambda _: answer.finish(), b"")
        session.requests_to_come -= 1
        if any(envelope.kind == ABORT_KIND for envelope in from_node):
            await self._on_node_abort(party)
        if not answer.open and session.requests_to_come <= 0:
            session.open_nodes.discard(party)
        return any(envelope.kind == ABORT_KIND for envelope in from_client), last


async def _validated_pieces(
    body: RequestBody,
    validator: ExchangeValidator,
    patience_s: float,
    raise_if_ended: Callable[[], None],
    check_whole: Callable[[bytes], None],
) -> Pieces:
    """Yield the bytes of a body that may be forwarded, as they arrive.

    Args:
        patience_s: time that the body may take.
        raise_if_ended: raises if nothing more may be forwarded.
        check_whole: raises if the last byte must not be forwarded; given SHA-256 of the body.

    Raises:
        _StoreFirst: the body is malformed, or takes longer, or one of the checks has raised.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_s
    chunk, hashed = bytes(body.received), hashlib.sha256()
    try:
        while chunk:
            hashed.update(chunk)
            passed = validator.feed(chunk)
            if body.is_complete:
                break
            if passed:
                raise_if_ended()
                yield passed
            passed = b""
            chunk = await body.read_more(max(0.0, until - loop.time()))
        last = validator.finish()
        check_whole(hashed.digest())
        raise_if_ended()
        yield passed + last
    except (InvalidEncoding, Refused, ClientDisconnect, TimeoutError) as error:
        raise _StoreFirst from error


def _validate_answer(party: PartyId, look: Callable[[bytes], bytes], piece: bytes) -> bytes:
    """Validate a piece of an MPC node's answer.

    Raises:
        LinkFailed: it is malformed, for which the client is not to blame.
    """
    try:
        return look(piece)
    except (InvalidEncoding, Refused) as error:
        LOG.error("the %s's answer: %s", ROLES[party], error)
        raise unintelligible_reply(party) from None
