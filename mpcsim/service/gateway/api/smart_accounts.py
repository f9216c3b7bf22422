"""Smart-account flow as a part of the gateway, loaded at its first request.

An EVM and its libraries take a second to load, and deploying the contracts another moment; a
wallet that only signs never needs them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from mpcsim.crypto.rng import Rng
from mpcsim.errors import UsageError
from mpcsim.service.rpc.tokens import Claims

if TYPE_CHECKING:
    from mpcsim.service.smart_account.endpoints import Endpoint
    from mpcsim.service.smart_account.service import Reply, SmartAccountService

PREFIX: Final = "/core/evm/v2/erc4337"
KEY_BYTES: Final = 32
PATIENCE_S: Final = 60.0
"""Longest time that a request waits until the service has been created."""

MakeService = Callable[[], "SmartAccountService"]
Authorize = Callable[[Request], Claims]


class SmartAccounts:
    """Endpoints of the flow as an ASGI application, and the service behind them."""

    def __init__(self, make: MakeService) -> None:
        """
        Args:
            make: creates the service; called at the first request, and later until it succeeds.
        """
        self._make = make
        self._making: Future[SmartAccountService] | None = None
        self._lock = threading.Lock()

    def service(self) -> SmartAccountService:
        """Return the service; create it if need be. Concurrent calls get the same outcome.

        Raises:
            ChainUnavailable: its node cannot be reached, or the contracts are not installed.
        """
        return _wait_for_service(self._current_attempt())

    def answer(self, endpoint: Endpoint, request: Mapping[str, object], user_id: str) -> Reply:
        """Answer a request, like ``SmartAccountService.answer``. On a chain that has restarted, as
        development nodes do, the contracts are deployed again, and the old state is forgotten."""
        from mpcsim.service.smart_account.errors import NoContract

        making = self._current_attempt()
        service = _wait_for_service(making)
        try:
            return service.answer(endpoint, request, user_id)
        except NoContract:
            with self._lock:
                if self._making is making:  # else another thread was faster
                    self._make, self._making = service.renew, None
        return self.service().answer(endpoint, request, user_id)

    def close(self) -> None:
        """Stop the service's chain, if it was ever created."""
        with self._lock:
            making = self._making
        if making is not None and making.done() and making.exception() is None:
            making.result().chain.close()

    def _current_attempt(self) -> Future[SmartAccountService]:
        with self._lock:
            making = self._making
            if making is None or (making.done() and making.exception() is not None):
                making = self._making = Future()
                threading.Thread(
                    target=_create_service, args=(making, self._make), daemon=True
                ).start()
            return making

    def route(self, authorize: Authorize) -> Route:
        """Return the route of everything below the flow's prefix.

        Args:
            authorize: authenticates a request, or raises.
        """
        return Route(PREFIX + "/{rest:path}", _Endpoints(self, authorize))


class _Endpoints:
    """ASGI application: the routes of ``smart_account.api.http``, imported at the first request."""

    def __init__(self, accounts: SmartAccounts, authorize: Authorize) -> None:
        self._accounts = accounts
        self._authorize = authorize
        self._router: Router | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._router is None:
            async with self._loading:  # one router, since it holds the users' places
                if self._router is None:
                    self._router = await asyncio.to_thread(self._load)
        # The router matches the path again; the prefix match is no parameter of the flow.
        await self._router({**scope, "path_params": {}}, receive, send)

    def _load(self) -> Router:
        from mpcsim.service.smart_account.api.http import routes

        return Router(routes(self._accounts.answer, self._authorize), redirect_slashes=False)


def _create_service(making: Future[SmartAccountService], make: MakeService) -> None:
    try:
        making.set_result(make())
    except BaseException as error:
        making.set_exception(error)


def _wait_for_service(making: Future[SmartAccountService]) -> SmartAccountService:
    from mpcsim.service.smart_account.errors import ChainTimeout, ChainUnavailable

    try:
        return making.result(PATIENCE_S)
    except TimeoutError:
        raise ChainTimeout("the contracts are still being deployed") from None
    except UsageError as error:
        raise ChainUnavailable(str(error)) from None


def in_own_process(budget: int | None = None, address_file: Path | None = None) -> MakeService:
    """Return a factory of a service with a chain in a process of its own, which ends with the
    gateway.

    Args:
        address_file: file that names the chain's address while it runs.
        budget: what is sponsored for each user in a day, and may be lost by the bundler, in wei;
            by default ``mpcsim.service.smart_account.operation.limits.DEFAULT_BUDGET``.
    """

    def make() -> SmartAccountService:
        from mpcsim.service.smart_account import setup

        return setup.over_own_process(budget=budget, address_file=address_file)

    return make


def embedded(rng: Rng, now: Callable[[], float]) -> MakeService:
    """Return a factory of a service with a chain in this process, for tests and notebooks."""

    def make() -> SmartAccountService:
        from mpcsim.service.smart_account import setup

        return setup.over_embedded_chain(rng=rng, clock=now)

    return make


def over_rpc(url: str, bundler_key: str, budget: int | None = None) -> MakeService:
    """Return a factory of a service over an existing node.

    Args:
        bundler_key: private key of an account with coin there, in hex.
        budget: what is sponsored for each user in a day, and may be lost by the bundler, in wei;
            by default ``mpcsim.service.smart_account.operation.limits.DEFAULT_BUDGET``.

    Raises:
        UsageError: the key is not 32 bytes of hex.
    """
    try:
        key = bytes.fromhex(bundler_key.removeprefix("0x"))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UsageError(f"the bundler's key is not {KEY_BYTES} bytes of hex")

    def make() -> SmartAccountService:
        from mpcsim.service.smart_account import setup

        return setup.over_rpc(url, key, budget=budget)

    return make
