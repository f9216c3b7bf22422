"""What gateway and node, as servers, have in common: their socket, and HTTP that is none."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mpcsim.errors import UsageError

BACKLOG: Final = 2048
KEEP_ALIVE_S: Final = 75
"""How long an idle connection stays open: longer than callers and balancers usually keep theirs,
so that they, not the server, end it."""


class JsonErrors(HttpToolsProtocol):
    """HTTP/1.1; a request that is no HTTP gets the JSON form of all other errors."""

    def send_400_response(self, msg: str) -> None:
        body = json.dumps({"error": msg}).encode()
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()


OPTIONS: Final[Mapping[str, Any]] = {
    "loop": "uvloop",
    "http": JsonErrors,
    "ws": "none",
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "backlog": BACKLOG,
    "timeout_keep_alive": KEEP_ALIVE_S,
}
"""uvicorn's, of both servers."""


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
