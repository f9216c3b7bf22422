"""The node behind a socket: uvicorn, one process or several."""

from __future__ import annotations

import os
import socket
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from node.errors import error_body
from node.settings import Settings

BACKLOG: Final = 2048
SHUTDOWN_S: Final = 60
"""How long requests that run when the node is told to stop may still take."""
KEEP_ALIVE_S: Final = 75
"""How long an idle connection stays open: longer than callers and balancers usually keep theirs,
so that they, not the node, end it."""


class AddressTaken(Exception):
    """The node cannot listen at its address; the message fits on one line."""


class Protocol(HttpToolsProtocol):
    """HTTP/1.1, with the API's form of error for what is no HTTP at all."""

    def send_400_response(self, msg: str) -> None:
        body = error_body(msg)
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()


def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; requests that run then are finished.

    Every process reads its settings from the environment again (``node.app.from_environment``).

    Raises:
        AddressTaken: the port is taken, or the address is not this machine's.
    """
    with listen(settings.app_host, settings.app_port) as listening:
        uvicorn.run(
            "node.app:from_environment",
            factory=True,
            fd=listening.fileno(),
            workers=settings.workers,
            loop="uvloop",
            http=Protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one.

    Raises:
        AddressTaken: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # The number's own text; a failed look-up of a name has a negative one without.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise AddressTaken(f"cannot listen on {host} port {port}: {why}") from None
    listening.set_inheritable(True)
    # Accepted connections inherit it. An answer is two writes, and the second would wait up to
    # 40 ms for the other end's delayed acknowledgement of the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
