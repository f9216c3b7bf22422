"""Runs the node for tests, behind a socket, and a client of it that waits."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
import uvicorn
from starlette.applications import Starlette

from mpcsim.service.error_codes import HEADER, Code
from mpcsim.service.operations import RunningGateway, open_gateway
from mpcsim.service.process.http_limits import ConnectionLimits, listen, uvicorn_options
from mpcsim.service.vault import Argon2Cost
from mpcsim.service.web.transport import HttpTransport, Limits
from node.app import create_app
from node.gateway_client.client import GatewayClient
from node.process.settings import Settings
from node.wallet.wallet import Wallet

T = TypeVar("T")

PASSWORD = "correct horse battery staple"
CHEAP = Argon2Cost(1, 8192)
SETTINGS = Settings(waas_api_url="http://gateway")
"""Of a node that is given its gateway; the address is not used."""


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.begin(work).result(60)

    def close(self) -> None:
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class Api:
    """A blocking client of one node."""

    def __init__(self, app: Starlette, loop: Loop, client: httpx.AsyncClient) -> None:
        self.app = app
        self.loop = loop
        self.client = client
        self.headers: dict[str, str] = {}
        """Sent with every request."""

    def as_user(self, token: str) -> Api:
        """The same node, called with a token."""
        api = Api(self.app, self.loop, self.client)
        api.headers = {"authorization": f"Bearer {token}"}
        return api

    def begin(self, method: str, path: str, **options: Any) -> Future[httpx.Response]:
        headers = {**self.headers, **options.pop("headers", {})}
        return self.loop.begin(self.client.request(method, path, headers=headers, **options))

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.begin(method, path, **options).result(60)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return self.request("POST", path, **options)


@contextmanager
def running(app: Starlette) -> Iterator[Api]:
    """The application behind a socket, with its lifespan."""
    loop = Loop()
    try:
        with _served(loop, app) as api:
            yield api
    finally:
        loop.close()


@contextmanager
def _served(loop: Loop, app: Starlette) -> Iterator[Api]:
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, log_config=None, **uvicorn_options(ConnectionLimits()))
    # Without this, pytest would make uvicorn believe that somebody wants its access log.
    logging.getLogger("uvicorn.access").disabled = True
    server = uvicorn.Server(config)
    serving = loop.begin(server._serve([listening]))  # without signal handlers: not the main thread
    client = httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", trust_env=False, timeout=30
    )
    try:
        yield Api(app, loop, client)
    finally:
        loop.run(client.aclose())
        server.should_exit = True
        serving.result(30)
        listening.close()


# --- with everything behind it -----------------------------------------------------------------


@dataclass
class System:
    """A node with everything behind it."""

    api: Api
    gateway: RunningGateway
    keys: dict[str, dict[str, str]] = field(default_factory=dict)
    """Key share records of ``alice``, by curve."""

    def user(self, name: str = "alice") -> Api:
        return self.api.as_user(self.gateway.token(name))

    def make_keys(self) -> None:
        """Give ``alice`` a key on each curve."""
        for curve in ("ed25519", "secp256k1"):
            new = {"curve": curve, "password": PASSWORD}
            self.keys[curve] = answer(self.user().post("/v3/wallet/generate", new))


@contextmanager
def system() -> Iterator[System]:
    """Node and gateway, each behind a socket."""
    with closing(open_gateway()) as gateway, running(gateway.app) as behind:
        client = GatewayClient(HttpTransport(str(behind.client.base_url), Limits(total_s=30.0)))
        app = create_app(SETTINGS, client, Wallet(client, cost=CHEAP))
        with running(app) as api:
            yield System(api, gateway)


def answer(response: httpx.Response, status: int = 200) -> Any:
    """The JSON of an answer of that status; of an error, its text in the one form of errors."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    if status != 200:
        assert list(response.json()) == ["error"]
        code = Code(response.headers[HEADER])
        assert status in code.node, (status, code)
        assert code.wait_s is None or response.headers["Retry-After"].isdecimal()
        return response.json()["error"]
    return response.json()
