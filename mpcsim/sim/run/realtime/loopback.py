"""HTTP servers and clients on the loopback interface, for sessions in real time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final

import httpx
import uvicorn
from starlette.applications import Starlette

from mpcsim.ids import PartyId

LOOPBACK: Final = "127.0.0.1"

KEPT_S: Final = 86_400
"""Seconds that a server keeps an idle connection: longer than any session."""

CLOSING_S: Final = 1
"""Seconds that a server may take to close its connections."""

End = PartyId | str
"""Owner of a server: a party, or a forwarding site by its name."""


class LoopbackServers:
    """HTTP servers on the loopback interface, closed together.

    Of uvicorn's server only what opens and closes it is used: its main loop would catch signals.
    """

    def __init__(self) -> None:
        self.addresses: dict[End, str] = {}
        self._servers: list[uvicorn.Server] = []

    async def open(self, end: End, app: Starlette) -> None:
        """Start a server on a port that the system chooses."""
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=None,
            access_log=False,
            timeout_keep_alive=KEPT_S,
            timeout_graceful_shutdown=CLOSING_S,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        listener = socket.create_server((LOOPBACK, 0))
        try:
            await server.startup([listener])
        except BaseException:
            listener.close()
            raise
        self._servers.append(server)
        self.addresses[end] = f"http://{LOOPBACK}:{listener.getsockname()[1]}"

    async def __aenter__(self) -> LoopbackServers:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(server.shutdown() for server in self._servers))


def persistent_client(address: str, context: ssl.SSLContext) -> httpx.AsyncClient:
    """Return an HTTP client with one persistent connection and no proxies."""
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
    return httpx.AsyncClient(
        base_url=address, verify=context, trust_env=False, limits=limits, timeout=None
    )
