"""What gateway and node, as servers, have in common: their socket, and what they take from it.

Until a request is here whole, nobody has said who they are, so everything before that is bounded:
the length of headers, the time that headers and bodies take, the number of connections. Connections
that wait for their client stand in queues, the longest waiting first; deadlines, and the choice of
one that has to make room, look only at the head of a queue. All of this is one process's own: of
several workers on one socket, each holds as many connections as are allowed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import socket
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from mpcsim.error_codes import Code, of_framework
from mpcsim.errors import UsageError
from mpcsim.settings import seconds, setting, whole

LOG = logging.getLogger(__name__)

BACKLOG: Final = 2048
OTHER_FILES: Final = 256
"""What a server opens beside its connections: databases, links to other servers, libraries."""
PIPELINED: Final = 100
"""Requests that one connection may send before the first is answered."""
LOG_EVERY_S: Final = 10.0
"""At most one line about the same limit in this time."""


@dataclass(frozen=True)
class ConnectionLimits:
    """What one process takes from connections while no request is here whole."""

    connections: int = setting(
        1000,
        "MAX_CONNECTIONS",
        whole(1, 100_000, "a number of connections"),
        "Connections at a time, of each process. One more displaces one that keeps waiting for "
        "its client; if none does, it is answered 503.",
    )
    header_bytes: int = setting(
        32 * 1024,
        "MAX_HEADER_BYTES",
        whole(1024, 1 << 20, "a number of bytes"),
        "All header fields of a request together; beyond that the answer is 431.",
    )
    header_s: float = setting(
        10.0,
        "HEADER_TIMEOUT_S",
        seconds(600),
        "From a connection's or a request's first sign to the end of the header; then 408.",
    )
    body_s: float = setting(
        30.0,
        "BODY_TIMEOUT_S",
        seconds(600),
        "From the header's to the body's end; then 408. Also how long an answer may stay unread.",
    )
    idle_s: float = setting(
        75.0,
        "IDLE_TIMEOUT_S",
        seconds(3600),
        # So that they, not the server, end it.
        "How long an idle connection stays open: longer than callers and balancers keep theirs.",
    )


class Limit(Enum):
    """Why a connection was closed."""

    REFUSED = "too many connections, and all are busy"
    DISPLACED = "too many connections; it waited longest"
    LONG_HEADER = "header too long"
    SLOW_HEADER = "header not complete in time"
    SLOW_BODY = "body not complete in time"
    UNREAD = "answer not read in time"
    PIPELINED = "too many requests before the first was answered"
    IDLE = "idle"


class Waiting:
    """Connections that wait for the same thing, the longest waiting first."""

    def __init__(self, patience_s: float | None) -> None:
        """
        Args:
            patience_s: how long each may wait; None if somebody else sees to that.
        """
        self._patience_s = patience_s
        self.since: OrderedDict[HttpConnection, float] = OrderedDict()
        """When each came."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.since)

    def enter(self, connection: HttpConnection) -> None:
        loop = connection.loop
        self.since[connection] = loop.time()
        # One timer for all. It may come too early, for one that has left; never too late.
        if self._timer is None and self._patience_s is not None:
            self._timer = loop.call_later(self._patience_s, self._ring, loop)

    def longest(self) -> HttpConnection | None:
        return next(iter(self.since), None)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._patience_s is not None
        since = loop.time() - self._patience_s
        while (connection := self.longest()) and self.since[connection] <= since:
            connection.overdue()
        self._timer = None
        if connection is not None:
            due = self.since[connection] + self._patience_s
            self._timer = loop.call_at(due, self._ring, loop)


class Connections:
    """The connections of one server: makes each one's protocol, and knows who waits for what.

    It is what uvicorn calls ``http``. Without connections it can be pickled, as for its workers.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: Collection[object] = ()
        self.headers = Waiting(limits.header_s)
        self.transfers = Waiting(limits.body_s)
        """A body is not here whole, or an answer is not taken."""
        self.idle = Waiting(None)
        self.pipelining = Waiting(None)
        """Several requests are here; they need not leave a place between two of them."""
        self.closed: Counter[Limit] = Counter()
        """How many connections were closed, by reason."""
        self._last: dict[Limit, str] = {}
        self._logged: dict[Limit, int] = {}

    def __call__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> HttpConnection:
        self.open = server_state.connections
        return HttpConnection(self, config, server_state, app_state, _loop)

    def displace(self) -> bool:
        """Close a connection that waits for its client, if there is one.

        It comes from the longest queue. Whoever fills the server with one kind of connection
        competes with those alone; everybody else's stay.
        """
        queues = (self.headers, self.transfers, self.idle, self.pipelining)
        victim = max(queues, key=len).longest()
        if victim is None:
            return False
        victim.abort(Limit.DISPLACED)
        return True

    def note(self, limit: Limit, connection: HttpConnection) -> None:
        """Count a connection that is closed, and log it unless the same was logged just now."""
        self.closed[limit] += 1
        self._last[limit] = connection.client[0] if connection.client else "unknown"
        if limit not in self._logged:
            self._logged[limit] = self.closed[limit] - 1
            self._log(limit, connection.loop)

    def _log(self, limit: Limit, loop: asyncio.AbstractEventLoop) -> None:
        total, last = self.closed[limit], self._last[limit]
        new = total - self._logged[limit]
        if not new:
            del self._logged[limit]
            return
        self._logged[limit] = total
        LOG.log(
            logging.INFO if limit is Limit.IDLE else logging.WARNING,
            "%d closed, %d in all, the last from %s: %s",
            *(new, total, last, limit.value),
            extra={"fields": {"limit": limit.name, "closed": new, "in_all": total, "peer": last}},
        )
        loop.call_later(LOG_EVERY_S, self._log, limit, loop)


class HttpConnection(HttpToolsProtocol):
    """HTTP/1.1 within limits; what is refused here gets the JSON form of all other errors."""

    def __init__(
        self,
        among: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._among = among
        self._queue: Waiting | None = None
        self._in_fields = True
        """What comes next are header fields, or trailer fields."""
        self._field_bytes = 0
        """How much of them was read."""
        self._whole = True
        """Nothing is missing of the last request whose header is complete."""
        self._refused = False
        """Whatever else comes is read only so that the client gets to its answer."""

    # ------------------------------------------------------------------ asyncio's calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        while len(self.connections) > self._among.limits.connections:
            if not self._among.displace():
                self.connections.discard(self)
                self._among.note(Limit.REFUSED, self)
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections")
                self.transport.close()
                return
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        # The parser joins the pieces of a field as they come, so that many would be costly: it is
        # never given more of them than the limit.
        while self._in_fields and data:
            room = self._among.limits.header_bytes - self._field_bytes
            piece, data = data[:room], data[room:]
            self._field_bytes += len(piece)
            super().data_received(piece)
            if self.transport.is_closing():
                return
            if self._field_bytes == self._among.limits.header_bytes:
                self._among.note(Limit.LONG_HEADER, self)
                self._refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    f"The header has more than {self._field_bytes} bytes",
                )
                return
        if data:
            super().data_received(data)
        if len(self.pipeline) > PIPELINED:
            self.abort(Limit.PIPELINED)
        else:
            self._settle()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._settle()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._settle()

    # ------------------------------------------------------------------ the parser's

    def on_headers_complete(self) -> None:
        self._field_bytes = 0
        super().on_headers_complete()
        self._in_fields = self._whole = False

    def on_chunk_header(self) -> None:
        # A chunk follows; after the last one, trailer fields.
        self._in_fields = True
        self._field_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._in_fields = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_fields = self._whole = True
        super().on_message_complete()

    # ------------------------------------------------------------------ uvicorn's

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._settle()

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self._among.note(Limit.IDLE, self)
            self.transport.close()
            self._settle()

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    # ------------------------------------------------------------------ the queues'

    def overdue(self) -> None:
        """It has waited in its queue for as long as it may."""
        among, waited_for_header = self._among, self._queue is self._among.headers
        self._leave()
        if self._refused:
            self.transport.abort()
        elif self.transport.is_closing() or self.flow.write_paused:
            self.abort(Limit.UNREAD)
        elif waited_for_header:
            among.note(Limit.SLOW_HEADER, self)
            if self._field_bytes:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, "The header was not complete in time")
            else:
                self.transport.close()
                self._settle()
        elif self.flow.read_paused:
            self._settle()  # It is the server that takes its time.
        else:
            among.note(Limit.SLOW_BODY, self)
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "The body was not complete in time")

    def abort(self, limit: Limit) -> None:
        """Close the connection at once."""
        self._among.note(limit, self)
        self._leave()
        self.connections.discard(self)
        self.transport.abort()

    def _settle(self) -> None:
        """Stand in the queue for what it waits for now; in none while the server works for it."""
        among = self._among
        cycle: RequestResponseCycle | None = self.cycle
        queue: Waiting | None = None
        if not self._whole or self.flow.write_paused or self.transport.is_closing():
            queue = among.transfers
        elif self.pipeline:
            queue = among.pipelining
        elif cycle is None:
            queue = among.headers
        elif cycle.response_complete:
            queue = among.headers if self._field_bytes else among.idle
        if queue is not self._queue:
            self._leave()
            self._queue = queue
            if queue is not None:
                queue.enter(self)

    def _leave(self) -> None:
        if self._queue is not None:
            del self._queue.since[self]
            self._queue = None

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer, if an answer is what the client waits for, and close."""
        if self._is_due():
            self._answer(status, message)
            if status is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE and self._whole:
                # It goes on sending; closed now, it might see a reset in place of the answer.
                self._refused = True
                self.transport.write_eof()
                return
        self.transport.close()
        self._settle()

    def _answer(self, status: HTTPStatus, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        # The server is at its limit of connections, not out of reach.
        full = status is HTTPStatus.SERVICE_UNAVAILABLE
        code = Code.BUSY if full else of_framework(status)
        fields = "".join(f"{name}: {value}\r\n" for name, value in code.headers().items())
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\n%b"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, status.phrase.encode(), fields.lower().encode(), len(body), body)
        )

    def _is_due(self) -> bool:
        """Whether the next answer is for what is being refused."""
        if not self._whole:
            return not (self.cycle.response_started or self.pipeline)
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete


def options(limits: ConnectionLimits) -> Mapping[str, Any]:
    """uvicorn's, of both servers."""
    return {
        "loop": "uvloop",
        "http": Connections(limits),
        "ws": "none",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "backlog": BACKLOG,
        "timeout_keep_alive": limits.idle_s,
    }


def affordable(limits: ConnectionLimits) -> ConnectionLimits:
    """The limits, with no more connections than this process may have open files.

    Raises the process's own limit as far as the operating system lets it.
    """
    wanted = limits.connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    connections = max(1, wanted - OTHER_FILES)
    if connections < limits.connections:
        LOG.warning("MAX_CONNECTIONS is %d: no more than %d open files", connections, wanted)
    return replace(limits, connections=connections)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one.

    Raises:
        UsageError: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # The number's own text; a failed look-up of a name has a negative one without.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise UsageError(f"cannot listen on {host} port {port}: {why}") from None
    # Accepted connections inherit it. An answer is two writes, and the second would wait up to
    # 40 ms for the other end's delayed acknowledgement of the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
