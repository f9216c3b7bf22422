"""Link from the gateway to an MPC node: grants, timeouts, transport, and measured times."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import ROLES, PartyId
from mpcsim.link_transport import GATEWAY, LinkTransport, Pieces
from mpcsim.service.errors import (
    LinkFailed,
    NodeFailed,
    Refused,
    identity_mismatch,
    node_timed_out,
    node_unreachable,
    unintelligible_reply,
)
from mpcsim.service.gateway.defaults import LINK_TIMEOUT_S
from mpcsim.service.gateway.links.mpc_nodes import MpcNodePort
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import GrantIssuer, GrantRefused, Scope, StaleGrant
from mpcsim.service.web.request_records import Span, totals_ms

LOG = logging.getLogger(__name__)

B = TypeVar("B", bound=wire.Body)

HELLO_WAIT_S: Final = 0.5
"""Longest time that a request for hellos waits for an MPC node."""
SILENCE_S: Final = 2.0
"""Time without a hello after which an MPC node counts as not answering."""


@dataclass
class Times:
    """Time spans of a request, on links and in MPC nodes."""

    spans: list[Span] = field(default_factory=list)
    """Name, begin and end of each, in seconds by the timer of links."""

    def add(
        self, party: PartyId, began: float, called: float, answered: float, ended: float
    ) -> None:
        """Add one request to an MPC node. All times are seconds by the timer of links.

        Args:
            called: when the request had come over the link; ``answered``: when the MPC node was
                done with it.
        """
        role = ROLES[party]
        link = f"{role}-link"
        self.spans += (
            (role, called, answered),
            (link, began, called),
            (link, answered, ended),
        )

    def header(self) -> str:
        """Return the times as a Server-Timing header."""
        return ", ".join(f"{name};dur={ms:.2f}" for name, ms in totals_ms(self.spans).items())


def decode_answer(kind: type[B], party: PartyId, reply: bytes) -> B:
    """Decode an MPC node's answer.

    Raises:
        LinkFailed: it does not decode, for which the caller of the gateway is not to blame.
    """
    try:
        return kind.from_bytes(reply)
    except InvalidEncoding as error:
        LOG.error("the %s's answer is no %s: %s", ROLES[party], kind.__name__, error)
        raise unintelligible_reply(party) from None


class Link:
    """Link to one MPC node."""

    def __init__(
        self,
        port: MpcNodePort,
        issuer: GrantIssuer,
        carrier: LinkTransport,
        *,
        timer: Callable[[], float],
        timeout_s: float = LINK_TIMEOUT_S,
    ) -> None:
        """
        Args:
            port: transport to the node.
            issuer: issues grants for this node.
            carrier: delays and faults of the network that a request passes.
            timer: seconds, to measure node and carrier.
        """
        self.port = port
        self.timeout_s = timeout_s
        self.down = False
        """Set to cut the link off: no request gets through."""
        self.is_answering = False
        """Whether the node answered when its hello was last asked for."""
        self._issuer = issuer
        self._carrier = carrier
        self._timer = timer
        self._hello: wire.Hello | None = None
        self._hello_task: asyncio.Task[wire.Hello] | None = None
        self._hello_asked_at = 0.0
        """Time at which that task was started, by the event loop; for ``latest_hello``."""

    @property
    def node(self) -> Any:
        """MPC node itself, if it is in this process."""
        return self.port.node  # type: ignore[attr-defined]

    async def call(self, scope: Scope, body: wire.Body, times: Times | None) -> bytes:
        """Ask the node, over the carrier.

        When this ends, a node in this process has finished with the request, or never received it.

        Args:
            scope: what is asked for, and in whose name; the grant covers it.
            times: receives the times of the request; None: ask without the carrier (``ask``).

        Raises:
            Refused: the node refuses; ``LinkFailed``: it cannot be reached, or is late.
        """
        if times is None:
            return await self.ask(scope, body)
        party, carrier = self.port.me, self._carrier
        if carrier.is_down(party, self.port.restart):
            raise node_unreachable(party)
        data = body.to_bytes()
        began = self._timer()
        called: float | None = None
        answered: float | None = None
        exchange = carrier.exchange(GATEWAY, party)
        try:
            async with asyncio.timeout(self.timeout_s):
                await exchange.send_request(len(data))
                called = self._timer()
                try:
                    reply = await self._ask(scope, data)
                except LinkFailed:
                    raise
                except Refused as refused:
                    await exchange.receive_refusal(len(str(refused)))
                    raise
                finally:
                    answered = self._timer()
                    carrier.on_handled(party)
                await exchange.receive_reply(len(reply))
        except TimeoutError:
            raise node_timed_out(party) from None
        finally:
            exchange.close()
            ended = self._timer()
            called = ended if called is None else called
            times.add(party, began, called, ended if answered is None else answered, ended)
        return reply

    async def stream(
        self,
        scope: Scope,
        body: Pieces,
        size: int | None,
        times: Times,
        take: Callable[[bytes], None],
    ) -> None:
        """Ask the node, like ``call``, and forward body and answer while they arrive.

        Args:
            body: pieces of the body. If it raises, the request is broken off, and the same is
                raised here; the node acts on whole bodies only.
            size: length of the body, if that is known.
            times: receives the time until the answer begins.
            take: called with each piece of the answer. If it raises, so does this.
        """
        party, carrier = self.port.me, self._carrier
        if carrier.is_down(party, self.port.restart):
            raise node_unreachable(party)
        began = self._timer()
        called: list[float] = []
        sent = bytearray()
        exchange = carrier.exchange(GATEWAY, party)

        async def request_pieces() -> Pieces:
            async with aclosing(exchange.stream_request(body)) as pieces:
                async for piece in pieces:
                    sent.extend(piece)
                    yield piece
            called.append(self._timer())

        upward = request_pieces()

        async def reply_pieces() -> Pieces:
            if self.down:
                raise node_unreachable(party)
            await self.hello()
            try:
                streamed = self.port.stream(scope.verb, self.grant(scope), upward, size)
                async with aclosing(streamed) as pieces:
                    async for piece in pieces:
                        yield piece
            except StaleGrant:
                if not called:
                    raise
                await self.hello(fresh=True)
                yield await self._send_with_grant(scope, bytes(sent))

        answering = False
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                aclosing(exchange.stream_reply(reply_pieces())) as answer,
            ):
                async for piece in answer:
                    if not called and len(sent) != size:  # an answer before the whole request
                        raise unintelligible_reply(party)
                    if not answering:
                        answering = True
                        self._add_time_to_answer(times, began, called)
                    take(piece)
        except TimeoutError:
            raise node_timed_out(party) from None
        except GrantRefused as refused:
            raise self._grant_refused(scope, refused) from None
        finally:
            exchange.close()
            carrier.on_handled(party)
            with suppress(RuntimeError):  # the transport may still hold the generator
                await upward.aclose()

    def _add_time_to_answer(self, times: Times, began: float, called: list[float]) -> None:
        """Add the time until the answer began."""
        now = self._timer()
        times.add(self.port.me, began, called[0] if called else now, now, now)

    async def ask(self, scope: Scope, body: wire.Body) -> bytes:
        """Ask the node without the carrier, when no other request is under way (at the start).

        Raises:
            Refused: as for ``call``.
        """
        return await self._ask(scope, body.to_bytes())

    @property
    def last_hello(self) -> wire.Hello | None:
        """Last hello of the node; None: there was none yet."""
        return self._hello

    async def fetch_hello(self) -> wire.Hello:
        """Ask the node for its hello.

        Raises:
            LinkFailed: it cannot be reached.
        """
        try:
            if self.down:
                raise node_unreachable(self.port.me)
            self._hello = await self.port.hello()
        except LinkFailed:
            self.is_answering = False
            raise
        self.is_answering = True
        return self._hello

    async def hello(self, *, fresh: bool = False) -> wire.Hello:
        """Return the node's last hello.

        Args:
            fresh: ask the node first, if it can be reached.

        Raises:
            LinkFailed: there was none yet, and the node cannot be reached.
        """
        if fresh or self._hello is None:
            try:
                return await self.fetch_hello()
            except LinkFailed:
                if self._hello is None:
                    raise
        return self._hello

    async def latest_hello(self) -> wire.Hello:
        """Ask the node for its hello, for unauthenticated requests.

        Concurrent requests share one question to the node, and a slow node's last hello is returned
        after ``HELLO_WAIT_S``: so strangers neither load the node nor hold connections while it
        hangs.

        Raises:
            LinkFailed: there was no hello yet, and the node does not answer.
        """
        loop = asyncio.get_running_loop()
        if self._hello_task is None or self._hello_task.done():
            self._hello_task, self._hello_asked_at = (
                loop.create_task(self.fetch_hello()),
                loop.time(),
            )
            self._hello_task.add_done_callback(lambda task: task.cancelled() or task.exception())
        left = max(0.0, self._hello_asked_at + HELLO_WAIT_S - loop.time())
        done, _ = await asyncio.wait([self._hello_task], timeout=left)
        if not done and loop.time() - self._hello_asked_at >= SILENCE_S:
            self.is_answering = False
        if self._hello is not None:
            return self._hello
        if not done:
            raise node_timed_out(self.port.me)
        return await self._hello_task

    async def _ask(self, scope: Scope, data: bytes) -> bytes:
        try:
            try:
                return await self._send_with_grant(scope, data)
            except StaleGrant:  # the node has restarted since its last hello
                await self.hello(fresh=True)
                return await self._send_with_grant(scope, data)
        except GrantRefused as refused:
            raise self._grant_refused(scope, refused) from None

    def _grant_refused(self, scope: Scope, refused: GrantRefused) -> NodeFailed:
        LOG.error("%s at the %s: %s", scope.verb, ROLES[self.port.me], refused)
        return identity_mismatch(self.port.me)

    async def _send_with_grant(self, scope: Scope, data: bytes) -> bytes:
        if self.down:
            raise node_unreachable(self.port.me)
        await self.hello()
        return await self.port.handle(scope.verb, self.grant(scope), data)

    def grant(self, scope: Scope) -> bytes:
        """Issue the grant for a request; the node's hello must be known."""
        assert self._hello is not None
        return self._issuer.issue(scope, self._hello.boot)
