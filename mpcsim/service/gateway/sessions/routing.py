"""Messages of the protocols, carried between the client and the MPC nodes.

The gateway reads nothing but their headers. Each request of a node is carried on, wave after wave,
until nothing is under way between the MPC nodes, so that a node sees as few round trips as the
protocol allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mpcsim.carrier import Carrier
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import CLIENT, MPC_NODES, ROLES, PartyId
from mpcsim.protocols.engine.envelope import ABORT_KIND, Envelope
from mpcsim.service.errors import (
    BAD_REQUEST,
    UNAVAILABLE,
    LinkFailed,
    NodeFailed,
    Refused,
    no_such_session,
    owes,
    timed_out,
    unintelligible,
)
from mpcsim.service.gateway.links.links import Link, answered
from mpcsim.service.gateway.sessions.sessions import CallerContext, Session, Sessions
from mpcsim.service.rpc import wire
from mpcsim.service.web.threads import all_of

LOG = logging.getLogger(__name__)

MAX_DELIVERIES: Final = 16
"""Deliveries between the MPC nodes within one request; honest protocols need at most 4."""
MAX_MESSAGES_OF_NODE: Final = wire.MAX_MESSAGES // len(MPC_NODES)
"""Messages of one MPC node within one request: a reply has room for all there are."""

Opening = Callable[[PartyId, tuple[bytes, ...]], Awaitable[bytes]]
"""Opens a session at an MPC node, with the first messages that go there."""
RoutingResult = tuple[tuple[bytes, ...], dict[PartyId, wire.Answer]]
"""The client's mail, and what MPC nodes answered when the session was opened."""
RoutedMessage = tuple[Envelope, bytes]
"""A message with its header read."""


class MessageRouter:
    """Carries messages."""

    def __init__(
        self,
        sessions: Sessions,
        links: Mapping[PartyId, Link],
        carrier: Carrier,
        on_node_abort: Callable[[PartyId], Awaitable[None]],
    ) -> None:
        """
        Args:
            on_node_abort: told of an MPC node that has aborted a signature, before the client is.
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
        """Carry a client's messages, and what they lead to, until none is under way between MPC
        nodes.

        Args:
            opening: for the first request of a session.

        Raises:
            Refused: the session is off.
        """
        async with self._sessions.serve_in_turn(session):
            try:
                sent = _read_headers(session, CLIENT, messages)
                found = await self._route_all(caller, session, sent, opening)
            except asyncio.CancelledError:
                self._sessions.start_cancelling(session)
                raise
            except BaseException:
                await self._sessions.cancel([session])
                raise
            if not self._sessions.is_open(session):
                # It has expired, or its key was suspended. Another one may have its turn by now:
                # what the client has not heard yet it must not hear of both.
                await self._sessions.cancel([session])
                raise no_such_session()
            if any(envelope.kind == ABORT_KIND for envelope, _ in sent):
                # The client will not go on, whoever else would.
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
        said: Counter[PartyId] = Counter()
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
                answers = await all_of(
                    [
                        self._deliver(caller, session, party, outboxes.get(party, []), opening)
                        for party in receivers
                    ]
                )
            except NodeFailed as failed:
                if not session.makes_key and owes(failed):
                    await self._on_node_abort(failed.party)
                raise
            under_way = []
            for party, answer in zip(receivers, answers, strict=True):
                read = _read_headers_from_node(session, party, answer.messages)
                said[party] += len(read)
                if said[party] > MAX_MESSAGES_OF_NODE:
                    LOG.error("the %s says more than any protocol has it say", ROLES[party])
                    raise unintelligible(party)
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
            raise timed_out(party) from None
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
        return answered(wire.Answer, party, reply)


def _read_headers_from_node(
    session: Session, party: PartyId, messages: Sequence[bytes]
) -> list[RoutedMessage]:
    """What an MPC node says, as ``_read_headers``.

    Raises:
        LinkFailed: it is not; the client has no part in that.
    """
    try:
        return _read_headers(session, party, messages)
    except Refused as refused:
        LOG.error("the %s's %s", ROLES[party], refused)
        raise unintelligible(party) from None


def _read_headers(
    session: Session, source: PartyId, messages: Sequence[bytes]
) -> list[RoutedMessage]:
    """Messages with their headers read: of this session, from this sender, to one of its parties.

    Raises:
        Refused: one is not.
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
    """Is a message of this session, from this sender, to one of its parties?

    Raises:
        Refused: it is not.
    """
    if envelope.session_id != session.session_id:
        raise Refused(BAD_REQUEST, "messages: of another session")
    if envelope.sender != source:
        raise Refused(BAD_REQUEST, f"messages: party {source} speaks for {envelope.sender}")
    if envelope.receiver == source or envelope.receiver not in (CLIENT, *session.nodes):
        raise Refused(BAD_REQUEST, f"messages: party {envelope.receiver} takes no part")
