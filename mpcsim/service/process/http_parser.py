"""h11's parser, with limits on whatever of a request is not its body.

h11 has one limit, on an event of which a part is still to come: none on lines, chunk sizes and
trailers, on the events of what has come, or on the time that its patterns take.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final

import h11
from h11._receivebuffer import ReceiveBuffer

EVENTS_A_TURN: Final = 64
"""Events of h11's that one connection has handled before the others get their turn: a byte a chunk
makes tens of thousands of what comes at once."""
MOST_LINES: Final = 100
"""Lines of a header, and of a trailer: reading one takes longer than many bytes do."""
MOST_TARGET_BYTES: Final = 8000
"""Length of a request's target (RFC 9112, 3)."""
FRAMING_SHARE: Final = 4
"""Divisor of a body's bytes: so much may chunk sizes take beyond what a header may have."""
VERSIONS: Final = (b"1.0", b"1.1")
_CONTENT_LENGTH: Final = re.compile(
    rb"\n[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh][ \t]*:"
)
_IN_NO_LINE: Final = re.compile(rb"[\x00\v\f\r]")
"""Bytes that h11 accepts in no line of a header; line feeds end one."""
_HOST: Final = re.compile(rb"(\[[0-9A-Za-z:._~%-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(:[0-9]*)?")
"""A field's value: a host, of which nothing may be left, and a port (RFC 9110, 7.2)."""
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)
"""A target in absolute form: where the request is for, and the origin form (RFC 9112, 3.2)."""


class BoundedLines(ReceiveBuffer):
    """h11's buffer, with a limit on the lines of a header or trailer, and on the time to read one.

    h11's patterns try every division of a run of spaces before they refuse a byte behind it: hours
    for a megabyte. So lines with bytes that h11 accepts nowhere never get to its patterns.
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of a header or trailer that has come whole.

        Raises:
            h11.RemoteProtocolError: there are too many to be read, or one has a byte that none may.
        """
        lines = super().maybe_extract_lines()
        if lines is not None and len(lines) > MOST_LINES:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise h11.RemoteProtocolError(f"more than {MOST_LINES} lines", status)
        if lines is not None and any(map(_IN_NO_LINE.search, lines)):
            raise h11.RemoteProtocolError("a control character")
        return lines

    def maybe_extract_next_line(self) -> bytearray | None:
        """Return the line with a chunk's size that has come whole.

        Raises:
            h11.RemoteProtocolError: there is a line feed within it.
        """
        line = super().maybe_extract_next_line()
        if line is not None and line.find(b"\n") < len(line) - 1:
            raise h11.RemoteProtocolError("a line feed in a chunk's size")
        return line


class BoundedParser(h11.Connection):
    """h11's parser, with a limit on whatever of a request is not its body.

    h11 refuses a header, a chunk's size line or a trailer that is too long only while it waits for
    the rest of it. Whether a request is refused must not depend on the segments in which it comes,
    so what came in one piece is measured, too.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(h11.SERVER, most_bytes)
        self._receive_buffer = BoundedLines()
        self._most_bytes = most_bytes
        self._taken = 0
        """Bytes of the present header or body that are not payload."""
        self._payload = 0
        """Bytes of the present body."""
        self._events = 0
        """Number of events in this turn."""
        self.refused: HTTPStatus | None = None
        """The status of the answer to what it could not accept."""
        self.has_invalid_host = False
        """Whether that was for its ``Host``: none, several, or none that a host can have."""
        self.has_many_lines = False
        """Whether that was for the number of lines."""

    def begin_turn(self) -> None:
        """Allow ``EVENTS_A_TURN`` more events."""
        self._events = 0

    @property
    def is_behind(self) -> bool:
        """Whether there may be more events in what has come, for another turn."""
        return self._events > EVENTS_A_TURN

    def next_event(self) -> Any:
        """Return the next event, as h11 does; ``NEED_DATA`` also if there were enough in this turn.

        Raises:
            h11.RemoteProtocolError: the client broke the protocol or a limit; ``refused`` says so.
        """
        self._events += 1
        if self.is_behind:
            return h11.NEED_DATA
        starts_request = self.their_state is h11.IDLE
        header = self.trailing_data[0] if starts_request else b""
        before = self.buffered_bytes
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            self._taken += before - self.buffered_bytes
            # h11 refuses such a line before it is complete, whatever its length.
            is_no_request = starts_request and header[:1] < b"!"
            self._refuse_if_too_long(is_no_request)
            self.refused = HTTPStatus(error.error_status_hint)
            self.has_invalid_host = "Host: header" in str(error)  # h11 counts them
            self.has_many_lines = "lines" in str(error)
            raise
        taken = before - self.buffered_bytes
        self._taken += taken
        if isinstance(event, h11.Data):
            self._taken -= len(event.data)
            self._payload += len(event.data)
        self._refuse_if_too_long()
        if isinstance(event, h11.Request):
            self._check_request(event, header[:taken])
            event = self._in_origin_form(event)
        if (
            event is not h11.NEED_DATA
            and event is not h11.PAUSED
            and not isinstance(event, h11.Data)
        ):
            self._taken = self._payload = 0
        return event

    def _check_request(self, event: h11.Request, header: bytes) -> None:
        if len(event.target) > MOST_TARGET_BYTES:
            self.refused = HTTPStatus.REQUEST_URI_TOO_LONG
            raise h11.RemoteProtocolError("a long target")
        if event.http_version not in VERSIONS:
            self.refused = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
            raise h11.RemoteProtocolError("HTTP/1.0 and HTTP/1.1 are understood")
        if any(name == b"host" and not _HOST.fullmatch(value) for name, value in event.headers):
            self.refused, self.has_invalid_host = HTTPStatus.BAD_REQUEST, True
            raise h11.RemoteProtocolError("an invalid Host: header")
        is_chunked = any(name == b"transfer-encoding" for name, _ in event.headers)
        # h11 goes by it alone; whoever is in between may go by the length, or know no coding in
        # HTTP/1.0 (RFC 9112, 6.1).
        if is_chunked and (event.http_version == b"1.0" or _CONTENT_LENGTH.search(header)):
            self.refused = HTTPStatus.BAD_REQUEST
            raise h11.RemoteProtocolError("Transfer-Encoding with Content-Length, or in HTTP/1.0")

    def _in_origin_form(self, event: h11.Request) -> h11.Request:
        """Return a request by its path alone, also where its target has this server's name."""
        absolute = _ABSOLUTE.fullmatch(event.target)
        if absolute is None:
            return event
        authority, rest = absolute.groups()
        named = _HOST.fullmatch(authority)
        if named is None or not named[1]:
            self.refused = HTTPStatus.BAD_REQUEST
            raise h11.RemoteProtocolError("no host in the target")
        target = rest if rest.startswith(b"/") else b"/" + rest
        return h11.Request(
            method=event.method,
            headers=event.headers,
            target=target,
            http_version=event.http_version,
            _parsed=True,
        )

    def _refuse_if_too_long(self, is_refused_anyway: bool = False) -> None:
        most = self._most_bytes + self._payload // FRAMING_SHARE
        if self._taken > most and not is_refused_anyway:
            self.refused = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise h11.RemoteProtocolError(f"more than {most} bytes besides bodies")

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes that have come and are part of no event yet."""
        # Not ``trailing_data``, which copies them: there may be many, and this is asked often.
        return len(self._receive_buffer)
