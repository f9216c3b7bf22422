"""How the gateway reaches an MPC node: by a call in this process, or over HTTP."""

from __future__ import annotations

import base64
import logging
from contextlib import aclosing
from typing import Protocol

from mpcsim.carrier import Pieces
from mpcsim.errors import InvalidEncoding
from mpcsim.ids import ROLES, PartyId
from mpcsim.service.errors import LinkFailed, Refused, failed, timed_out, unreachable
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.refusals import from_json
from mpcsim.service.web.entries import CURRENT, Book, Call
from mpcsim.service.web.request_ids import current
from mpcsim.service.web.threads import in_thread
from mpcsim.service.web.transport import NotReached, StreamingTransport, TooLate, TransportFailed

LOG = logging.getLogger(__name__)


class Handler(Protocol):
    """An MPC node in this process."""

    @property
    def me(self) -> PartyId: ...
    def hello(self) -> wire.Hello: ...
    def is_quick(self, verb: str, body: bytes) -> bool: ...
    def handle(self, verb: str, grant: bytes, body: bytes) -> bytes: ...
    def restart(self) -> None: ...


class MpcNodePort(Protocol):
    """An MPC node, wherever it is."""

    @property
    def me(self) -> PartyId: ...

    async def hello(self) -> wire.Hello:
        """Who it is, since its last start.

        Raises:
            LinkFailed: it cannot be reached, or is late; also by the other method.
        """
        ...

    async def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """Ask it for something.

        Raises:
            Refused: it refuses.
        """
        ...

    def stream(self, verb: str, grant: bytes, body: Pieces, size: int | None) -> Pieces:
        """The same, with a body that is sent as it comes; its answer as it comes.

        If the body raises, the request breaks off, and the same is raised here.
        """
        ...

    def restart(self) -> None:
        """Do to it what a crash does."""
        ...

    async def close(self) -> None: ...


class InProcess:
    """An MPC node in this process."""

    def __init__(self, node: Handler, book: Book | None = None) -> None:
        """
        Args:
            book: where its requests are entered.
        """
        self.node = node
        self._book = book or Book("")

    @property
    def me(self) -> PartyId:
        return self.node.me

    async def hello(self) -> wire.Hello:
        """See ``MpcNodePort``."""
        return self.node.hello()

    async def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """See ``MpcNodePort``."""
        if self._book.log is None:
            return await self._call_node(verb, grant, body)
        path = f"/{verb}"  # as it is over HTTP
        call = Call(ROLES[self.me], "POST", path, len(body))
        entry = self._book.open(current() or "", "POST", path)
        before = CURRENT.set(entry)
        try:
            reply = await self._call_node(verb, grant, body)
            entry.status = 200
            call.over(200, len(reply))
            return reply
        except Refused as refused:
            entry.status, entry.error = refused.status, str(refused)
            call.over(refused.status)
            raise
        finally:
            CURRENT.reset(before)
            entry.ended, entry.whole = entry.clock(), True
            self._book.close(entry)

    async def _call_node(self, verb: str, grant: bytes, body: bytes) -> bytes:
        if self.node.is_quick(verb, body):
            return self.node.handle(verb, grant, body)
        return await in_thread(self.node.handle, verb, grant, body)

    async def stream(self, verb: str, grant: bytes, body: Pieces, size: int | None) -> Pieces:
        """See ``MpcNodePort``."""
        data = b"".join([piece async for piece in body])
        yield await self.handle(verb, grant, data)

    def restart(self) -> None:
        """See ``MpcNodePort``."""
        self.node.restart()

    async def close(self) -> None:
        """See ``MpcNodePort``."""


class OverHttp:
    """An MPC node behind its HTTP interface (``mpcsim.service.mpc_node.app``)."""

    def __init__(self, party: PartyId, transport: StreamingTransport) -> None:
        self.me = party
        self._transport = transport
        self._was_answering: bool | None = None
        """Whether it did when it was last asked; None before it first has."""

    async def hello(self) -> wire.Hello:
        """See ``MpcNodePort``."""
        try:
            return wire.Hello.from_bytes(await self._request("GET", wire.HELLO_PATH, None, None))
        except LinkFailed:
            raise
        except (Refused, InvalidEncoding):  # there is nothing to refuse
            raise failed(self.me) from None

    async def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """See ``MpcNodePort``."""
        return await self._request("POST", f"/{verb}", _token(grant), body)

    async def stream(self, verb: str, grant: bytes, body: Pieces, size: int | None) -> Pieces:
        """See ``MpcNodePort``."""
        call = Call(ROLES[self.me], "POST", f"/{verb}", size or 0)
        try:
            async with (
                self._transport.stream(
                    "POST", f"/{verb}", token=_token(grant), body=body, size=size
                ) as reply,
                aclosing(reply.pieces) as pieces,
            ):
                if reply.status != 200:
                    said = b"".join([piece async for piece in pieces])
                    call.over(reply.status, len(said))
                    raise from_json(reply.status, said, self.me)
                got = 0
                async for piece in pieces:
                    got += len(piece)
                    yield piece
                call.over(reply.status, got)
        except TransportFailed as failure:
            call.over()
            raise self._connection_failed(failure) from None
        self._note_answer()

    def restart(self) -> None:
        """See ``MpcNodePort``. Only whoever runs its process can."""
        raise NotImplementedError

    async def close(self) -> None:
        """See ``MpcNodePort``."""
        await self._transport.close()

    async def _request(
        self, method: str, path: str, grant: str | None, body: bytes | None
    ) -> bytes:
        call = Call(ROLES[self.me], method, path, len(body or b""))
        try:
            reply = await self._transport.request(method, path, token=grant, body=body)
        except TransportFailed as failure:
            call.over()
            raise self._connection_failed(failure) from None
        call.over(reply.status, len(reply.body))
        self._note_answer()
        if reply.status == 200:
            return reply.body
        raise from_json(reply.status, reply.body, self.me)

    def _connection_failed(self, failure: TransportFailed) -> LinkFailed:
        """No answer came."""
        link_failure = self._link_failure_of(failure)
        if self._was_answering:
            self._was_answering = False
            LOG.warning("%s", link_failure)
        return link_failure

    def _note_answer(self) -> None:
        """An answer came."""
        if self._was_answering is False:
            LOG.info("the %s's MPC node answers again", ROLES[self.me])
        self._was_answering = True

    def _link_failure_of(self, failure: TransportFailed) -> LinkFailed:
        match failure:
            case NotReached():
                return unreachable(self.me)
            case TooLate():
                return timed_out(self.me)
            case _:
                return failed(self.me)


def _token(grant: bytes) -> str:
    """A grant in a header."""
    return base64.urlsafe_b64encode(grant).decode()
