"""Server sockets of gateway and node, with limits on headers, bodies, time and connections.

Until a request is here whole, nobody has said who they are, so everything before that is bounded:
the length of headers, the time that headers and bodies take, the number of connections. Connections
that wait for their client stand in queues, the longest waiting first; deadlines, and the choice of
one that has to make room, look only at the head of a queue. Whose requests begin next is a line of
connections, too, so that many who ask delay each other, and not what is being answered. All of this
is one process's own: of several workers on one socket, each holds as many connections as are
allowed.

uvicorn answers 503 beyond a number of connections, whoever waits in them, and ends idle ones; it
has no other limit, and hands a body on however long it takes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from mpcsim.errors import UsageError
from mpcsim.service.error_codes import Code, code_of_framework_status
from mpcsim.service.process.http_parser import MOST_LINES, MOST_TARGET_BYTES, BoundedParser
from mpcsim.service.process.request_id import HEADER, IN_SCOPE, USER_IN_SCOPE, new_request_id
from mpcsim.service.process.settings import seconds, setting, whole_number

LOG = logging.getLogger(__name__)

BACKLOG: Final = 2048
OTHER_FILES: Final = 256 + 2 * 512
"""Number of files that a server opens beside its connections: databases, libraries, and connections
of its own, of which a gateway may have as many as its transports allow to each of two MPC nodes."""
MOST_DROPPED_BYTES: Final = 1 << 20
"""Bytes that a client may go on sending after it was refused; then the connection is cut."""
CONNECTIONS_A_TURN: Final = 8
"""Connections of which requests are begun before everything else gets its turn: answers that are
being computed take several turns, and so many times longer the more begins in each."""
BYTES_A_CONNECTION: Final = 4096
"""Bytes to be handled for which a connection counts once more: a long header takes ten times as
long to read as a short one."""
INVALID_HOST: Final = "Invalid Host: there must be one, and a host's name (RFC 9112, 3.2)"
PROTOCOL_ERRORS: Final = {
    HTTPStatus.BAD_REQUEST: "The request is not as HTTP/1.1 has it (RFC 9112)",
    HTTPStatus.REQUEST_URI_TOO_LONG: f"The target has more than {MOST_TARGET_BYTES} bytes",
    HTTPStatus.NOT_IMPLEMENTED: "The only transfer encoding is chunked",
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED: "The versions of HTTP are 1.0 and 1.1",
}
"""Texts for what h11 refuses; its own might show a header's value."""
LOG_EVERY_S: Final = 10.0
"""At most one line about the same limit in this time."""


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of one process on connections whose request is not here whole."""

    connections: int = setting(
        1000,
        "MAX_CONNECTIONS",
        whole_number(1, 100_000, "a number of connections"),
        "Connections at a time, of each process. One more displaces one that keeps waiting for "
        "its client; if none does, it is answered 503. So is a user's call at the node for whom a "
        "quarter of them is busy already; the gateway's answer is 429.",
    )
    header_bytes: int = setting(
        32 * 1024,
        "MAX_HEADER_BYTES",
        whole_number(1024, 1 << 20, "a number of bytes"),
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


class _NoInvalidRequestLines(logging.Filter):
    """Keeps uvicorn's line about each malformed request out of the log: strangers could fill it."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != "Invalid HTTP request received."


NOT_PER_REQUEST: Final = _NoInvalidRequestLines()


class Limit(Enum):
    """Reason why a connection was closed."""

    REFUSED = "too many connections, and all are busy"
    DISPLACED = "too many connections; it waited longest"
    BROKEN = "not HTTP as it must be"
    LONG_HEADER = "header too long"
    SLOW_HEADER = "header not complete in time"
    SLOW_BODY = "body not complete in time"
    UNREAD = "answer not read in time"
    IDLE = "idle"


class WaitQueue:
    """Connections that wait for the same thing, the longest waiting first."""

    def __init__(self, patience_s: float | None) -> None:
        """
        Args:
            patience_s: how long each may wait; None if somebody else sees to that.
        """
        self._patience_s = patience_s
        self.since: OrderedDict[HttpConnection, float] = OrderedDict()
        """Time when each connection came."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.since)

    def enter(self, connection: HttpConnection) -> None:
        loop = connection.loop
        self.since[connection] = loop.time()
        # One timer for all. It may come too early, for one that has left; never too late.
        if self._timer is None and self._patience_s is not None:
            self._timer = loop.call_later(self._patience_s, self._check_deadlines, loop)

    def longest_waiting(self) -> HttpConnection | None:
        return next(iter(self.since), None)

    def _check_deadlines(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._patience_s is not None
        since = loop.time() - self._patience_s
        while (connection := self.longest_waiting()) and self.since[connection] <= since:
            connection.on_timeout()
        self._timer = None
        if connection is not None:
            due = self.since[connection] + self._patience_s
            self._timer = loop.call_at(due, self._check_deadlines, loop)


class Connections:
    """The connections of one server: makes each one's protocol, and knows who waits for what.

    It is what uvicorn calls ``http``. Without connections it can be pickled, as for its workers.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: Collection[object] = ()
        self.headers = WaitQueue(limits.header_s)
        self.transfers = WaitQueue(limits.body_s)
        """A body is not here whole, or an answer is not taken."""
        self.idle = WaitQueue(None)
        self.pipelining = WaitQueue(None)
        """Several requests are here; they need not leave a place between two of them."""
        self._turn_queues: OrderedDict[str | None, deque[HttpConnection]] = OrderedDict()
        """Connections with something to handle: a queue per user of the connection's last request,
        and one for connections whose user is not known. They are served round robin, so that
        nobody waits for all requests of one user."""
        self._begun = 0
        """Number of connections of which something has been handled in this iteration of the
        loop; much that has come counts for several."""
        self.closed: Counter[Limit] = Counter()
        """Number of connections that were closed, by reason."""
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

    def take_turn(self, connection: HttpConnection) -> bool:
        """Return whether a connection may handle what has come, now; if not, it stands in line and
        is called."""
        if self._turn_queues or self._begun >= CONNECTIONS_A_TURN:
            self.requeue(connection)
            return False
        if not self._begun:
            connection.loop.call_soon(self._next_turn, connection.loop)
        self._begun += connection.turn_cost
        return True

    def requeue(self, connection: HttpConnection) -> None:
        """Call a connection that has had its turn, and has more to handle, after all others."""
        self._turn_queues.setdefault(connection.last_user, deque()).append(connection)

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._turn_queues and self._begun < CONNECTIONS_A_TURN:
            user, queue = self._turn_queues.popitem(last=False)
            connection = queue.popleft()
            loop.call_soon(connection.resume_handling)
            if queue:
                self._turn_queues[user] = queue  # behind the others
            self._begun += connection.turn_cost
        if self._begun:
            loop.call_soon(self._next_turn, loop)

    def displace(self) -> bool:
        """Close a connection that waits for its client, if there is one.

        It comes from the longest queue. Whoever fills the server with one kind of connection
        competes with those alone; everybody else's stay.
        """
        queues = (self.headers, self.transfers, self.idle, self.pipelining)
        victim = max(queues, key=len).longest_waiting()
        if victim is None:
            return False
        victim.abort(Limit.DISPLACED)
        return True

    def count_closed(self, limit: Limit, connection: HttpConnection) -> None:
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


class State(Enum):
    """State of a connection; ``HttpConnection`` is in one of these at any time."""

    HEADER = "waits for a request's header, or for the rest of it"
    BODY = "waits for a request's body"
    SERVER = "the server works for it; whatever it sends meanwhile is not read"
    QUEUED = "the same, and the next request has already come"
    IDLE = "waits for the next request, of which nothing has come"
    WRITING = "waits until the client has read the answer"
    REFUSED = "was answered for the last time; what comes is dropped until the client closes"
    CLOSED = "is over"


class HttpConnection(H11Protocol):
    """HTTP/1.1 as h11 understands it, within limits; errors have the JSON form of all others.

    =========  ==================================  ===================  ========================
    state      while                               waits in             too long is
    =========  ==================================  ===================  ========================
    HEADER     h11 waits for a request             ``headers``          408 (nothing came: closed)
    BODY       h11 waits for a body                ``transfers``        408, unless answered
    SERVER     the application has not answered    --                   --
    QUEUED     the same, with bytes left over      ``pipelining``       --
    IDLE       like HEADER, after an answer        ``idle``             closed (uvicorn's timer)
    WRITING    the answer fills the socket         ``transfers``        closed
    REFUSED    an error was sent                   ``transfers``        closed
    CLOSED     the transport is closing            ``transfers``        closed
    =========  ==================================  ===================  ========================

    HTTP's ``Upgrade`` is ignored (RFC 9110, 7.8), and trailer fields are dropped (6.5.1).
    """

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
        self.conn: BoundedParser = BoundedParser(among.limits.header_bytes)
        self._queue: WaitQueue | None = None
        self._is_refused = False
        self._is_behind = False
        """Whether more of what has come waits for its turn; nothing is read till then."""
        self._dropped_bytes = 0
        self._last_user: str | None = None

    @property
    def turn_cost(self) -> int:
        """Number of connections for which this one counts when it has its turn."""
        return 1 + self.conn.buffered_bytes // BYTES_A_CONNECTION

    @property
    def last_user(self) -> str | None:
        """The user whose request was the last that was answered here, if that is known."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None:  # the present one's user is known at its end
            scope = cast(dict[str, Any], cycle.scope)
            self._last_user = scope.get(USER_IN_SCOPE) or self._last_user
        return self._last_user

    @property
    def state(self) -> State:
        """State as the table describes it."""
        client = self.conn.their_state
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if self.transport.is_closing():
            return State.CLOSED
        if self._is_refused:
            return State.REFUSED
        if self.flow.write_paused:
            return State.WRITING
        if client is h11.IDLE:
            is_idle = cycle is not None and not self.conn.buffered_bytes
            return State.IDLE if is_idle else State.HEADER
        if client is h11.SEND_BODY:
            return State.BODY
        return State.QUEUED if self.conn.buffered_bytes else State.SERVER

    # ------------------------------------------------------------------ asyncio's calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        while len(self.connections) > self._among.limits.connections:
            if not self._among.displace():
                self.connections.discard(self)
                self._among.count_closed(Limit.REFUSED, self)
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections")
                self.transport.close()
                return
        self._update_queue()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave_queue()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > MOST_DROPPED_BYTES:
                self.transport.abort()
            return
        super().data_received(data)
        self._update_queue()

    def handle_events(self) -> None:
        """Handle what has come, when it is this connection's turn."""
        if not self._is_behind and self._among.take_turn(self):
            self._handle()
        else:
            self._is_behind = True
            self.transport.pause_reading()

    def resume_handling(self) -> None:
        """Handle more of what has come: it is this connection's turn."""
        self._is_behind = False
        if self._is_refused or self.transport.is_closing():
            return
        self._handle()
        if not self._is_behind and not self.flow.read_paused:
            self.transport.resume_reading()
        self._update_queue()

    def _handle(self) -> None:
        """Handle what has come: so much of it that the other connections are not held up."""
        self.conn.begin_turn()
        super().handle_events()
        if self.conn.is_behind and not (self._is_refused or self.transport.is_closing()):
            self._is_behind = True
            self.transport.pause_reading()
            self._among.requeue(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._update_queue()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._update_queue()

    # ------------------------------------------------------------------ uvicorn's

    def _should_upgrade(self) -> bool:
        return False

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_queue()

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self._among.count_closed(Limit.IDLE, self)
            self.transport.close()
            self._update_queue()

    def send_400_response(self, msg: str) -> None:
        status = self.conn.refused or HTTPStatus.BAD_REQUEST
        if status is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._among.count_closed(Limit.LONG_HEADER, self)
            most = f"{self._among.limits.header_bytes} bytes"
            if self.conn.has_many_lines:
                most = f"{MOST_LINES} lines"
            msg = f"The header has more than {most}"
        else:
            self._among.count_closed(Limit.BROKEN, self)
            msg = INVALID_HOST if self.conn.has_invalid_host else PROTOCOL_ERRORS.get(status, msg)
        self._refuse(status, msg)

    # ------------------------------------------------------------------ the queues'

    def on_timeout(self) -> None:
        """End a wait in its queue that has taken as long as it may."""
        among, state = self._among, self.state
        self._leave_queue()
        if state is State.REFUSED:
            self.transport.abort()
        elif state in (State.CLOSED, State.WRITING):
            self.abort(Limit.UNREAD)
        elif state is State.HEADER:
            among.count_closed(Limit.SLOW_HEADER, self)
            if self.conn.buffered_bytes:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, "The header was not complete in time")
            else:
                self.transport.close()
                self._update_queue()
        elif self.flow.read_paused:
            self._update_queue()  # It is the server that takes its time.
        else:
            among.count_closed(Limit.SLOW_BODY, self)
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "The body was not complete in time")

    def abort(self, limit: Limit) -> None:
        """Close the connection at once."""
        self._among.count_closed(limit, self)
        self._leave_queue()
        self.connections.discard(self)
        self.transport.abort()

    def _update_queue(self) -> None:
        """Stand in the queue of its state; in none while the server works for it."""
        among = self._among
        queue = {
            State.HEADER: among.headers,
            State.SERVER: None,
            State.QUEUED: among.pipelining,
            State.IDLE: among.idle,
        }.get(self.state, among.transfers)
        if queue is not self._queue:
            self._leave_queue()
            self._queue = queue
            if queue is not None:
                queue.enter(self)

    def _leave_queue(self) -> None:
        if self._queue is not None:
            del self._queue.since[self]
            self._queue = None

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer the request that is being refused, unless it is answered already, and close.

        The client may still be sending: closed at once, it might see a reset instead of the answer.
        """
        cycle: RequestResponseCycle | None = self.cycle
        is_due = self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)
        request_id: bytes | None = None
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            # The one that the application's logs have.
            request_id = cast(dict[str, Any], cycle.scope).get(IN_SCOPE)
        if is_due:
            self._answer(status, message, request_id)
            self._is_refused = True
            self.transport.write_eof()
        else:
            self.transport.close()
        self._update_queue()

    def _answer(self, status: HTTPStatus, message: str, request_id: bytes | None = None) -> None:
        body = json.dumps({"error": message}).encode()
        # The server is at its limit of connections, not out of reach.
        full = status is HTTPStatus.SERVICE_UNAVAILABLE
        code = Code.BUSY if full else code_of_framework_status(status)
        headers = code.headers() | {HEADER: (request_id or new_request_id()).decode()}
        fields = "".join(f"{name.lower()}: {value}\r\n" for name, value in headers.items())
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\n%b"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, status.phrase.encode(), fields.encode(), len(body), body)
        )


def uvicorn_options(limits: ConnectionLimits) -> Mapping[str, Any]:
    """uvicorn's, of both servers."""
    logging.getLogger("uvicorn.error").addFilter(NOT_PER_REQUEST)
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


def fit_open_files(limits: ConnectionLimits) -> ConnectionLimits:
    """The limits, with no more connections than this process may have open files.

    Raises the process's own limit as far as the operating system lets it.
    """
    others = OTHER_FILES
    wanted = limits.connections + others
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        wanted, others = hard, min(others, hard // 2)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    connections = max(1, min(limits.connections, wanted - others))
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
