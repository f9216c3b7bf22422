"""Routing of protocol messages between the client and the MPC nodes.

The gateway reads the headers of envelopes only. Within one request of the client it delivers
messages between the MPC nodes again and again, until none is under way, so that the client has as
few round trips as the protocol allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import CLIENT, MPC_NODES, ROLES, PartyId
from mpcsim.link_transport import LinkTransport
from mpcsim.protocols.engine.envelope import ABORT_KIND, Envelope
from mpcsim.service.errors import (
    BAD_REQUEST,
    UNAVAILABLE,
    LinkFailed,
    NodeFailed,
    Refused,
    may_owe_suspension,
    no_such_session,
    node_timed_out,
    unintelligible_reply,
)
from mpcsim.service.gateway.links.links import Link, decode_answer
from mpcsim.service.gateway.sessions.sessions import CallerContext, Session, Sessions
from mpcsim.service.rpc import wire
from mpcsim.service.web.threads import gather_all

LOG = logging.getLogger(__name__)

MAX_DELIVERIES: Final = 16
"""Most deliveries between the MPC nodes within one request; honest protocols need 4."""
MAX_MESSAGES_OF_NODE: Final = wire.MAX_MESSAGES // len(MPC_NODES)
"""Largest number of messages of one MPC node within one request, so that a reply holds all."""

Opening = Callable[[PartyId, tuple[bytes, ...]], Awaitable[bytes]]
"""Function that opens a session at an MPC node, with the first messages that go there."""
RoutingResult = tuple[tuple[bytes, ...], dict[PartyId, wire.Answer]]
"""Messages for the client, and the MPC nodes' answers if the session was opened."""
RoutedMessage = tuple[Envelope, bytes]
"""Envelope (its header), and its bytes."""


class MessageRouter:
    """Routes messages of open sessions."""

    def __init__(
        self,
        sessions: Sessions,
        links: Mapping[PartyId, Link],
        carrier: LinkTransport,
        on_node_abort: Callable[[PartyId], Awaitable[None]],
    ) -> None:
        """
        Args:
            on_node_abort: called when an MPC node has aborted a signature, before the client hears
                of it.
        """
        self._on_node_abort = on_node_abort
        self._sessions = sessions
        self._links = links
        self._carrier = carrier

    async def route(
        self,
        caller: CallerContext,
        session: Session,
        messages: Sequence[bytes],
        opening: Opening | None = None,
    ) -> RoutingResult:
        """Route a client's messages, and those that follow from them, until none is under way
        between MPC nodes.

        Args:
            opening: opens the session; given for its first request.

        Raises:
            Refused: the session has been cancelled.
        """
        async with self._sessions.serve_in_turn(session):
            session.requests_to_come -= 1
            try:
                sent = _read_headers(session, CLIENT, messages)
                found = await self._route_all(caller, session, sent, opening)
            except BaseException:
                await self._sessions.cancel([session])
                raise
            if not self._sessions.is_open(session):
                # The session expired, or its key was suspended. Another session may have the place
                # by now: the client must not get unread messages of both.
                await self._sessions.cancel([session])
                raise no_such_session()
            if any(envelope.kind == ABORT_KIND for envelope, _ in sent):
                # The client will not continue, whatever the nodes say.
                await self._sessions.cancel([session])
            elif not session.open_nodes:
                self._sessions.end(session)
            return found

    async def _route_all(
        self,
        caller: CallerContext,
        session: Session,
        sent: list[RoutedMessage],
        opening: Opening | None,
    ) -> RoutingResult:
        under_way = sent
        mail: list[RoutedMessage] = []
        begun: dict[PartyId, wire.Answer] = {}
        message_counts: Counter[PartyId] = Counter()
        for _ in range(MAX_DELIVERIES):
            outboxes: dict[PartyId, list[RoutedMessage]] = {}
            for envelope, data in under_way:
                if envelope.receiver == CLIENT:
                    mail.append((envelope, data))
                else:
                    outboxes.setdefault(envelope.receiver, []).append((envelope, data))
            receivers = [
                p for p in session.nodes if opening or (p in outboxes and p in session.open_nodes)
            ]
            if not receivers:
                break
            try:
                answers = await gather_all(
                    [
                        self._deliver(caller, session, party, outboxes.get(party, []), opening)
                        for party in receivers
                    ]
                )
            except NodeFailed as failed:
                if not session.makes_key and may_owe_suspension(failed):
                    await self._on_node_abort(failed.party)
                raise
            under_way = []
            for party, answer in zip(receivers, answers, strict=True):
                read = _read_headers_from_node(session, party, answer.messages)
                message_counts[party] += len(read)
                if message_counts[party] > MAX_MESSAGES_OF_NODE:
                    LOG.error("the %s sends more messages than any protocol has", ROLES[party])
                    raise unintelligible_reply(party)
                under_way += read
                if not session.makes_key and any(e.kind == ABORT_KIND for e, _ in read):
                    await self._on_node_abort(party)
                if opening:
                    begun[party] = answer
                if not answer.open and session.requests_to_come <= 0:
                    session.open_nodes.discard(party)
            opening = None
        return await self._carrier.apply_faults(mail), begun

    async def _deliver(
        self,
        caller: CallerContext,
        session: Session,
        party: PartyId,
        outbox: Sequence[RoutedMessage],
        opening: Opening | None,
    ) -> wire.Answer:
        link = self._links[party]
        try:
            async with asyncio.timeout(link.timeout_s):
                messages = await self._carrier.apply_faults(outbox)
        except TimeoutError:
            raise node_timed_out(party) from None
        try:
            if opening is None:
                request = wire.Exchange(session.session_id, messages)
                reply = await link.call(session.scope("exchange"), request, caller.times)
            else:
                await self._sessions.close_pending(party, session.key_id)
                session.open_nodes.add(party)
                reply = await opening(party, messages)
        except Refused as refused:
            never_had_it = opening is not None and refused.status == UNAVAILABLE
            if never_had_it or not isinstance(refused, LinkFailed):
                session.open_nodes.discard(party)
            raise
        return decode_answer(wire.Answer, party, reply)


def _read_headers_from_node(
    session: Session, party: PartyId, messages: Sequence[bytes]
) -> list[RoutedMessage]:
    """Read the headers of an MPC node's messages, like ``_read_headers``.

    Raises:
        LinkFailed: one is wrong, for which the client is not to blame.
    """
    try:
        return _read_headers(session, party, messages)
    except Refused as refused:
        LOG.error("the %s's %s", ROLES[party], refused)
        raise unintelligible_reply(party) from None


def _read_headers(
    session: Session, source: PartyId, messages: Sequence[bytes]
) -> list[RoutedMessage]:
    """Read the headers of messages, and check each (``check_header``).

    Raises:
        Refused: one is wrong.
    """
    found = []
    for data in messages:
        try:
            envelope = Envelope.decode(data)
        except InvalidEncoding as error:
            raise Refused(BAD_REQUEST, f"messages: {error}") from None
        check_header(session, source, envelope)
        found.append((envelope, data))
    return found


def check_header(session: Session, source: PartyId, envelope: Envelope) -> None:
    """Check that a message is of this session, from this sender, and to another of its parties.

    Raises:
        Refused: it is not.
    """
    if envelope.session_id != session.session_id:
        raise Refused(BAD_REQUEST, "messages: of another session")
    if envelope.sender != source:
        raise Refused(BAD_REQUEST, f"messages: party {source} speaks for {envelope.sender}")
    if envelope.receiver == source or envelope.receiver not in (CLIENT, *session.nodes):
        raise Refused(BAD_REQUEST, f"messages: party {envelope.receiver} takes no part")
