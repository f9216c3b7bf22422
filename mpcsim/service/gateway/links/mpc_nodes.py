"""Transports from the gateway to an MPC node: a call in this process, or HTTP."""

from __future__ import annotations

import base64
import logging
from contextlib import aclosing
from typing import Protocol

from mpcsim.errors import InvalidEncoding
from mpcsim.ids import ROLES, PartyId
from mpcsim.link_transport import Pieces
from mpcsim.service.errors import LinkFailed, Refused, node_failed, node_timed_out, node_unreachable
from mpcsim.service.rpc import wire
from mpcsim.service.rpc.error_encoding import from_json
from mpcsim.service.web.request_ids import current_request_id
from mpcsim.service.web.request_records import CURRENT, Call, RequestRecorder
from mpcsim.service.web.threads import in_thread
from mpcsim.service.web.transport import (
    ConnectFailed,
    ReplyTimeout,
    StreamingTransport,
    TransportFailed,
)

LOG = logging.getLogger(__name__)


class Handler(Protocol):
    """Interface of an MPC node in this process."""

    @property
    def me(self) -> PartyId: ...
    def hello(self) -> wire.Hello: ...
    def is_quick(self, verb: str, body: bytes) -> bool: ...
    def handle(self, verb: str, grant: bytes, body: bytes) -> bytes: ...
    def restart(self) -> None: ...


class MpcNodePort(Protocol):
    """Interface of an MPC node, wherever it is."""

    @property
    def me(self) -> PartyId: ...

    async def hello(self) -> wire.Hello:
        """Ask for its identity, seal key and boot since its last start.

        Raises:
            LinkFailed: it cannot be reached, or is late; also raised by the other methods.
        """
        ...

    async def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """Send one request.

        Raises:
            Refused: it refuses.
        """
        ...

    def stream(self, verb: str, grant: bytes, body: Pieces, size: int | None) -> Pieces:
        """Send one request whose body and answer are forwarded while they arrive.

        If the body raises, the request is broken off, and the same is raised here.
        """
        ...

    def restart(self) -> None:
        """Restart it as after a crash."""
        ...

    async def close(self) -> None: ...


class InProcess:
    """Port to an MPC node in this process."""

    def __init__(self, node: Handler, recorder: RequestRecorder | None = None) -> None:
        """
        Args:
            book: records its requests.
        """
        self.node = node
        self._recorder = recorder or RequestRecorder("")

    @property
    def me(self) -> PartyId:
        return self.node.me

    async def hello(self) -> wire.Hello:
        """Implement ``MpcNodePort``."""
        return self.node.hello()

    async def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """Implement ``MpcNodePort``."""
        if self._recorder.log is None:
            return await self._call_node(verb, grant, body)
        path = f"/{verb}"  # as it is over HTTP
        call = Call(ROLES[self.me], "POST", path, len(body))
        record = self._recorder.open(current_request_id() or "", "POST", path)
        before = CURRENT.set(record)
        try:
            reply = await self._call_node(verb, grant, body)
            record.status = 200
            call.finish(200, len(reply))
            return reply
        except Refused as refused:
            record.status, record.error = refused.status, str(refused)
            call.finish(refused.status)
            raise
        finally:
            CURRENT.reset(before)
            record.ended, record.is_complete = record.clock(), True
            self._recorder.close(record)

    async def _call_node(self, verb: str, grant: bytes, body: bytes) -> bytes:
        if self.node.is_quick(verb, body):
            return self.node.handle(verb, grant, body)
        return await in_thread(self.node.handle, verb, grant, body)

    async def stream(self, verb: str, grant: bytes, body: Pieces, size: int | None) -> Pieces:
        """Implement ``MpcNodePort``."""
        data = b"".join([piece async for piece in body])
        yield await self.handle(verb, grant, data)

    def restart(self) -> None:
        """Implement ``MpcNodePort``."""
        self.node.restart()

    async def close(self) -> None:
        """Implement ``MpcNodePort``."""


class OverHttp:
    """Port to an MPC node behind its HTTP interface (``mpcsim.service.mpc_node.app``)."""

    def __init__(self, party: PartyId, transport: StreamingTransport) -> None:
        self.me = party
        self._transport = transport
        self._was_answering: bool | None = None
        """Whether it answered the last request; None before the first answer."""

    async def hello(self) -> wire.Hello:
        """Implement ``MpcNodePort``."""
        try:
            return wire.Hello.from_bytes(await self._request("GET", wire.HELLO_PATH, None, None))
        except LinkFailed:
            raise
        except (Refused, InvalidEncoding):  # there is nothing to refuse
            raise node_failed(self.me) from None

    async def handle(self, verb: str, grant: bytes, body: bytes) -> bytes:
        """Implement ``MpcNodePort``."""
        return await self._request("POST", f"/{verb}", _token(grant), body)

    async def stream(self, verb: str, grant: bytes, body: Pieces, size: int | None) -> Pieces:
        """Implement ``MpcNodePort``."""
        call = Call(ROLES[self.me], "POST", f"/{verb}", size or 0)
        try:
            async with (
                self._transport.stream(
                    "POST", f"/{verb}", token=_token(grant), body=body, size=size
                ) as reply,
                aclosing(reply.pieces) as pieces,
            ):
                if reply.status != 200:
                    error_body = b"".join([piece async for piece in pieces])
                    call.finish(reply.status, len(error_body))
                    raise from_json(reply.status, error_body, self.me)
                got = 0
                async for piece in pieces:
                    got += len(piece)
                    yield piece
                call.finish(reply.status, got)
        except TransportFailed as failure:
            call.finish()
            raise self._connection_failed(failure) from None
        self._note_answer()

    def restart(self) -> None:
        """Raise: a process that runs elsewhere cannot be restarted from here."""
        raise NotImplementedError

    async def close(self) -> None:
        """Implement ``MpcNodePort``."""
        await self._transport.close()

    async def _request(
        self, method: str, path: str, grant: str | None, body: bytes | None
    ) -> bytes:
        call = Call(ROLES[self.me], method, path, len(body or b""))
        try:
            reply = await self._transport.request(method, path, token=grant, body=body)
        except TransportFailed as failure:
            call.finish()
            raise self._connection_failed(failure) from None
        call.finish(reply.status, len(reply.body))
        self._note_answer()
        if reply.status == 200:
            return reply.body
        raise from_json(reply.status, reply.body, self.me)

    def _connection_failed(self, failure: TransportFailed) -> LinkFailed:
        """Note, and log once, that no answer came; return the error to raise."""
        link_failure = self._link_failure_of(failure)
        if self._was_answering:
            self._was_answering = False
            LOG.warning("%s", link_failure)
        return link_failure

    def _note_answer(self) -> None:
        """Note that an answer came, and log it if the last request had none."""
        if self._was_answering is False:
            LOG.info("the %s's MPC node answers again", ROLES[self.me])
        self._was_answering = True

    def _link_failure_of(self, failure: TransportFailed) -> LinkFailed:
        match failure:
            case ConnectFailed():
                return node_unreachable(self.me)
            case ReplyTimeout():
                return node_timed_out(self.me)
            case _:
                return node_failed(self.me)


def _token(grant: bytes) -> str:
    """Encode a grant for the Authorization header."""
    return base64.urlsafe_b64encode(grant).decode()
