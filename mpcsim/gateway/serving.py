"""The gateway behind a socket: one process, because its MPC nodes keep their sessions in memory."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from typing import Final

import uvicorn

from mpcsim.errors import UsageError
from mpcsim.gateway.assembly import OpenGateway

BACKLOG: Final = 2048
KEEP_ALIVE_S: Final = 75
SHUTDOWN_S: Final = 15


def serve(gateway: OpenGateway, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM, finish what runs, and close the stores.

    Raises:
        UsageError: the port is taken, or the address is not this machine's.
    """
    with closing(gateway), listen(host, port) as listening:
        uvicorn.Server(
            uvicorn.Config(
                gateway.app,
                loop="uvloop",
                http="httptools",
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=SHUTDOWN_S,
            )
        ).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one.

    Raises:
        UsageError: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"cannot listen on {host} port {port}: {why}") from None
    # Accepted connections inherit it. An answer is two writes, and the second would wait up to
    # 40 ms for the other end's delayed acknowledgement of the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
