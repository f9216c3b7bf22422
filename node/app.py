"""The node as an ASGI application."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from mpcsim.service.process.gc_policy import reduce_collections
from mpcsim.service.process.process_lifetime import terminate_after
from mpcsim.service.web import meter
from mpcsim.service.web.api_page import page_routes
from mpcsim.service.web.request_ids import RequestIds
from mpcsim.service.web.request_records import RequestRecorder, RequestSink
from mpcsim.service.web.transport import HttpTransport, Limits, Reply, Transport
from mpcsim.service.web.user_limits import SHARE, UserSlots
from node.api import routes
from node.api.auth import Authenticator
from node.api.docs import TITLE, describe_node
from node.api.protected import error_answer
from node.errors import NotConfigured
from node.gateway_client.client import GatewayClient
from node.process import logs
from node.process.settings import Settings
from node.wallet.wallet import Wallet


class NoGateway:
    """The transport of a node that was not told where its gateway is."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None,
        body: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> Reply:
        raise NotConfigured

    async def close(self) -> None:
        pass


def create_app(
    settings: Settings,
    gateway: GatewayClient | None = None,
    wallet: Wallet | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
    now: Callable[[], float] = time.time,
    log: RequestSink | None = None,
    log_now: Callable[[], float] | None = None,
) -> Starlette:
    """The node's application.

    Args:
        gateway: by default the one at the settings' address.
        wallet: what the endpoints do; by default over that gateway.
        clock: monotonic seconds, for what is measured.
        now: seconds since 1970 UTC, for the expiry of tokens.
        log: where it is entered what becomes of each request.
        log_now: seconds since 1970 UTC, for that; by default as ``now``.
    """
    gateway = gateway or GatewayClient(_transport(settings), settings.mpc_node_keys)
    wallet = wallet or Wallet(gateway, settings=settings, now=now)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if settings.waas_api_url is None:
            logs.logger.error(NotConfigured().message)
        yield
        await wallet.close()
        await gateway.close()
        if log is not None:
            log.flush()  # the server may end this process by a signal

    recorder = RequestRecorder("node", log, clock=clock, now=log_now or now)
    operations = [*routes.PUBLIC, *routes.WALLET]
    app = Starlette(
        routes=[*operations, *page_routes(TITLE, partial(describe_node, operations))],
        lifespan=lifespan,
        middleware=[
            Middleware(RequestIds, recorder),
            *([Middleware(meter.MeterMiddleware)] if meter.ON else []),
            Middleware(logs.RequestLog, clock=clock),
        ],
        exception_handlers={HTTPException: _http_error},
    )
    app.router.redirect_slashes = False
    app.state.settings = settings
    app.state.gateway = gateway
    app.state.wallet = wallet
    app.state.recorder = recorder
    share = max(1, settings.limits.connections // SHARE)
    app.state.authenticator = Authenticator(gateway, now=now, clock=clock, most_waiting=share)
    app.state.places = UserSlots(share)
    app.state.clock = clock
    return app


def from_environment(now: Callable[[], float] = time.time) -> Starlette:
    """The application as the environment variables want it, with its logs: a worker's own.

    Args:
        now: seconds since 1970 UTC.

    Raises:
        SettingsError: a variable has an impossible value.
    """
    settings = Settings.from_environment(os.environ)
    log = logs.configure(settings.log_level, settings.log_format, settings.log_folder)
    if (parent := multiprocessing.parent_process()) is not None:  # one of several workers
        terminate_after(parent.join)
    app = create_app(settings, now=now, log=log, log_now=time.time)
    reduce_collections()
    return app


def _transport(settings: Settings) -> Transport:
    if settings.waas_api_url is None:
        return NoGateway()
    return HttpTransport(settings.waas_api_url, Limits(total_s=settings.gateway_timeout_s))


async def _http_error(request: Request, error: Exception) -> Response:
    return error_answer(request, error)
