"""The port at which a process can be looked at: ``GET /metrics`` and ``GET /ready``.

It has a thread of its own, because what is shown is put together in one go, some milliseconds long,
for which the service's own event loop would stand still; here the interpreter switches between the
two. The server in it is the one that the service has, too, with limits on whoever connects.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mpcsim.errors import UsageError
from mpcsim.service.errors import UNAVAILABLE
from mpcsim.service.metrics.connections import ConnectionCounts
from mpcsim.service.metrics.readiness import Probe, Readiness
from mpcsim.service.process.http_limits import (
    ConnectionLimits,
    Connections,
    listen,
    uvicorn_options,
)
from mpcsim.service.web.http import HANDLERS, App
from mpcsim.version import __version__

LIMITS: Final = ConnectionLimits(connections=20, header_bytes=8192, header_s=5, body_s=10)
EVERY_S: Final = 0.1
"""Between two times at which figures are put together, some milliseconds each."""
STOPPING_S: Final = 3.0
"""Seconds that an answer may still take when the server stops."""


@dataclass(frozen=True)
class MetricsSource:
    """Metrics and probes of a process."""

    part: str
    """Kind of process: ``node``, ``gateway``, ``operator`` or ``institution``."""
    collectors: Sequence[Collector]
    probes: Sequence[Probe]


class _BuildInfo(Collector):
    """A collector."""

    def __init__(self, part: str) -> None:
        self._labels = {"version": __version__, "part": part}

    def collect(self) -> Iterator[Metric]:
        text = "What this process is, and its version."
        yield InfoMetricFamily("mpcsim_build", text, value=self._labels)


def build_registry(source: MetricsSource, *more: Collector) -> CollectorRegistry:
    """Return a registry of all metrics of a process."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in (_BuildInfo(source.part), *source.collectors, *more):
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


class _EncodedMetrics:
    """Cache of the encoded metrics.

    Encoding takes the interpreter from the service, and anybody may ask: it is done seldom, and
    whoever asks meanwhile gets the next result, together.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._turn = asyncio.Lock()
        self._made = "", -math.inf, b""
        """Last result: its content type, the time when it was begun, and the encoded metrics."""
        self._next = -math.inf

    async def encode(self, encode: Callable[[CollectorRegistry], bytes], kind: str) -> bytes:
        """Return them as of now, or a moment later."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        async with self._turn:
            made, at, encoded = self._made
            if made != kind or at < now:
                await asyncio.sleep(self._next - loop.time())
                at, encoded = loop.time(), encode(self._registry)
                self._made = kind, at, encoded
                self._next = loop.time() + EVERY_S
            return encoded


def create_app(registry: CollectorRegistry, readiness: Readiness) -> App:
    """The application at the port."""
    figures = _EncodedMetrics(registry)

    async def metrics(request: Request) -> Response:
        try:
            encode, kind = choose_encoder(request.headers.get("accept", ""))
        except (TypeError, ValueError):  # a version that is none
            encode, kind = choose_encoder("")
        return Response(await figures.encode(encode, kind), media_type=kind)

    async def ready(request: Request) -> Response:
        state = await readiness.state()
        return JSONResponse(state.document(), 200 if state.is_ready else UNAVAILABLE)

    routes = [
        Route("/metrics", metrics, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
    ]
    return App(routes=routes, exception_handlers=HANDLERS)


@contextmanager
def expose_metrics(
    app: Starlette, source: MetricsSource, host: str, port: int, connections: Connections
) -> Iterator[None]:
    """Show what is to be seen of a service at a port of its own, until the block is left.

    Args:
        app: the service's, before it has been started.
        connections: of the service.

    Raises:
        UsageError: the port is taken, or the address is not this machine's.
    """
    readiness = Readiness(source.probes)
    readiness.attach(app)
    shown = create_app(build_registry(source, ConnectionCounts(connections)), readiness)
    with _open_socket(host, port) as listening, _serve_in_thread(shown, listening):
        yield


@contextmanager
def _open_socket(host: str, port: int) -> Iterator[socket.socket]:
    try:
        listening = listen(host, port)
    except UsageError as error:
        raise UsageError(f"metrics: {error}") from None
    with listening:
        yield listening


@contextmanager
def _serve_in_thread(app: App, listening: socket.socket) -> Iterator[None]:
    config = uvicorn.Config(
        app, **uvicorn_options(LIMITS), log_config=None, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(STOPPING_S)
