"""The link from the gateway to an MPC node: where time passes, and where it can fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mpcsim.carrier import GATEWAY, Carrier, Pieces
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import ROLES, PartyId
from mpcsim.service.errors import (
    LinkFailed,
    NodeFailed,
    Refused,
    at_odds,
    timed_out,
    unintelligible,
    unreachable,
)
from mpcsim.service.gateway.links.mpc_nodes import MpcNodePort
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.grants import AnotherBoot, GrantIssuer, GrantRefused, Scope
from mpcsim.service.web.entries import Span, totals_ms

LOG = logging.getLogger(__name__)

B = TypeVar("B", bound=wire.Body)

LINK_TIMEOUT_S: Final = 20.0
"""How long the gateway waits for an MPC node."""
HELLO_WAIT_S: Final = 0.5
"""How long anybody who asks who an MPC node is waits until it says so."""
SILENCE_S: Final = 2.0
"""After which it counts as one that does not answer."""


@dataclass
class Times:
    """Where the time of a request went."""

    spans: list[Span] = field(default_factory=list)
    """By the timer of links."""

    def add(
        self, party: PartyId, began: float, called: float, answered: float, ended: float
    ) -> None:
        """An MPC node has been asked.

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
        """As a Server-Timing header."""
        return ", ".join(f"{name};dur={ms:.2f}" for name, ms in totals_ms(self.spans).items())


def answered(kind: type[B], party: PartyId, reply: bytes) -> B:
    """What an MPC node has answered.

    Raises:
        LinkFailed: something that is none; the caller of the gateway has no part in that.
    """
    try:
        return kind.from_bytes(reply)
    except InvalidEncoding as error:
        LOG.error("the %s's answer is no %s: %s", ROLES[party], kind.__name__, error)
        raise unintelligible(party) from None


class Link:
    """From the gateway to one MPC node and back."""

    def __init__(
        self,
        port: MpcNodePort,
        issuer: GrantIssuer,
        carrier: Carrier,
        *,
        timer: Callable[[], float],
        timeout_s: float = LINK_TIMEOUT_S,
    ) -> None:
        """A link.

        Args:
            port: how the node is reached.
            issuer: of grants for this node.
            timer: seconds, to measure what the node takes, and the carrier.
        """
        self.port = port
        self.timeout_s = timeout_s
        self.down = False
        """True: nothing gets through."""
        self.is_answering = False
        """Whether the node did when it was last asked who it is."""
        self._issuer = issuer
        self._carrier = carrier
        self._timer = timer
        self._hello: wire.Hello | None = None
        self._hello_task: asyncio.Task[wire.Hello] | None = None
        self._hello_asked_at = 0.0
        """When, by the event loop; for ``latest_hello``."""

    @property
    def node(self) -> Any:
        """The MPC node itself, if it is in this process."""
        return self.port.node  # type: ignore[attr-defined]

    async def call(self, scope: Scope, body: wire.Body, times: Times) -> bytes:
        """Ask the node. When this ends, a node in this process is done with the request, or never
        had it.

        Args:
            scope: what is asked for, and in whose name.

        Raises:
            Refused: the node refuses; ``LinkFailed``: it cannot be reached, or is late.
        """
        party, carrier = self.port.me, self._carrier
        if carrier.down(party, self.port.restart):
            raise unreachable(party)
        data = body.to_bytes()
        began = self._timer()
        called: float | None = None
        answered: float | None = None
        exchange = carrier.exchange(GATEWAY, party)
        try:
            async with asyncio.timeout(self.timeout_s):
                await exchange.go(len(data))
                called = self._timer()
                try:
                    reply = await self._ask(scope, data)
                except LinkFailed:
                    raise
                except Refused as refused:
                    await exchange.refuse(len(str(refused)))
                    raise
                finally:
                    answered = self._timer()
                    carrier.handled(party)
                await exchange.come(len(reply))
        except TimeoutError:
            raise timed_out(party) from None
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
        """As ``call``, with a body that is sent on as it comes.

        Args:
            body: if it raises, the request breaks off, and the same is raised here; the node acts
                on whole bodies only.
            size: of the body, if that is known.
            times: are told of when the answer begins.
            take: is given the answer, as it comes. If it raises, so does this.
        """
        party, carrier = self.port.me, self._carrier
        if carrier.down(party, self.port.restart):
            raise unreachable(party)
        began = self._timer()
        called: list[float] = []
        sent = bytearray()
        exchange = carrier.exchange(GATEWAY, party)

        async def going() -> Pieces:
            async with aclosing(exchange.going(body)) as pieces:
                async for piece in pieces:
                    sent.extend(piece)
                    yield piece
            called.append(self._timer())

        upward = going()

        async def coming() -> Pieces:
            if self.down:
                raise unreachable(party)
            await self.hello()
            try:
                streamed = self.port.stream(scope.verb, self.grant(scope), upward, size)
                async with aclosing(streamed) as pieces:
                    async for piece in pieces:
                        yield piece
            except AnotherBoot:
                if not called:
                    raise
                await self.hello(fresh=True)
                yield await self._granted(scope, bytes(sent))

        answering = False
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                aclosing(exchange.coming(coming())) as answer,
            ):
                async for piece in answer:
                    if not called and len(sent) != size:  # nobody answers what is not there yet
                        raise unintelligible(party)
                    if not answering:
                        answering = True
                        self._add_time_to_answer(times, began, called)
                    take(piece)
        except TimeoutError:
            raise timed_out(party) from None
        except GrantRefused as refused:
            raise self._grant_refused(scope, refused) from None
        finally:
            exchange.close()
            carrier.handled(party)
            with suppress(RuntimeError):  # whoever was to send it has not let go of it yet
                await upward.aclose()

    def _add_time_to_answer(self, times: Times, began: float, called: list[float]) -> None:
        """Where the time went until the answer began."""
        now = self._timer()
        times.add(self.port.me, began, called[0] if called else now, now, now)

    async def ask(self, scope: Scope, body: wire.Body) -> bytes:
        """Ask the node before anything else is under way: the carrier has no part in it.

        Raises:
            Refused: as for ``call``.
        """
        return await self._ask(scope, body.to_bytes())

    async def call_or_ask(self, scope: Scope, body: wire.Body, times: Times | None) -> bytes:
        """As ``call``; or as ``ask``, where there are no times."""
        return await (self.ask(scope, body) if times is None else self.call(scope, body, times))

    @property
    def last_hello(self) -> wire.Hello | None:
        """Who the node is, as it last said; None: it has not been heard of yet."""
        return self._hello

    async def fetch_hello(self) -> wire.Hello:
        """Who the node says that it is, now.

        Raises:
            LinkFailed: it cannot be reached.
        """
        try:
            if self.down:
                raise unreachable(self.port.me)
            self._hello = await self.port.hello()
        except LinkFailed:
            self.is_answering = False
            raise
        self.is_answering = True
        return self._hello

    async def hello(self, *, fresh: bool = False) -> wire.Hello:
        """Who the node is, as far as is known.

        Args:
            fresh: ask anew, if it can be reached.

        Raises:
            LinkFailed: it has not been heard of yet, and cannot be reached.
        """
        if fresh or self._hello is None:
            try:
                return await self.fetch_hello()
            except LinkFailed:
                if self._hello is None:
                    raise
        return self._hello

    async def latest_hello(self) -> wire.Hello:
        """Who the node is: asked anew, but once for all who want to know at a time, and what is
        known does for whoever would have to wait. Strangers may ask: they neither keep the node
        busy, nor, while it hangs, the connections to the gateway.

        Raises:
            LinkFailed: it has not been heard of yet, and does not answer.
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
            raise timed_out(self.port.me)
        return await self._hello_task

    async def _ask(self, scope: Scope, data: bytes) -> bytes:
        try:
            try:
                return await self._granted(scope, data)
            except AnotherBoot:  # it has been started anew since it was last asked
                await self.hello(fresh=True)
                return await self._granted(scope, data)
        except GrantRefused as refused:
            raise self._grant_refused(scope, refused) from None

    def _grant_refused(self, scope: Scope, refused: GrantRefused) -> NodeFailed:
        LOG.error("%s at the %s: %s", scope.verb, ROLES[self.port.me], refused)
        return at_odds(self.port.me)

    async def _granted(self, scope: Scope, data: bytes) -> bytes:
        if self.down:
            raise unreachable(self.port.me)
        await self.hello()
        return await self.port.handle(scope.verb, self.grant(scope), data)

    def grant(self, scope: Scope) -> bytes:
        """What the node is shown with a request, once it has been heard of."""
        assert self._hello is not None
        return self._issuer.issue(scope, self._hello.boot)
