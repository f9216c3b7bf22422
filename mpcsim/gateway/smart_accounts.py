"""The smart-account flow as a part of the gateway, loaded when it is first asked for.

An EVM and its libraries take a second to load, and deploying the contracts another moment; a
wallet that only signs never needs them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from mpcsim.errors import UsageError
from mpcsim.rng import Rng

if TYPE_CHECKING:
    from mpcsim.smart_account.service import SmartAccountService

PREFIX: Final = "/core/evm/v2/erc4337"
KEY_BYTES: Final = 32

MakeService = Callable[[], "SmartAccountService"]
Authorize = Callable[[Request], object]


class SmartAccounts:
    """The flow's endpoints as an ASGI application, and the service behind them."""

    def __init__(self, make: MakeService) -> None:
        """
        Args:
            make: called once, at the first request.
        """
        self._make = make
        self._service: SmartAccountService | None = None
        self._lock = threading.Lock()

    def service(self) -> SmartAccountService:
        """The service, made if need be.

        Raises:
            ChainUnavailable: its node cannot be reached, or the contracts are not installed.
        """
        from mpcsim.smart_account.errors import ChainUnavailable

        with self._lock:
            if self._service is None:
                try:
                    self._service = self._make()
                except UsageError as error:
                    raise ChainUnavailable(str(error)) from None
            return self._service

    def route(self, authorize: Authorize) -> Route:
        """Everything below the flow's prefix.

        Args:
            authorize: raises unless the caller may.
        """
        return Route(PREFIX + "/{rest:path}", _Endpoints(self, authorize))


class _Endpoints:
    """ASGI: the routes of ``mpcsim.smart_account.http``, imported at the first request."""

    def __init__(self, accounts: SmartAccounts, authorize: Authorize) -> None:
        self._accounts = accounts
        self._authorize = authorize
        self._router: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._router is None:
            self._router = await asyncio.to_thread(self._load)
        # The router reads the path anew; what matched the prefix is no parameter of the flow's.
        await self._router({**scope, "path_params": {}}, receive, send)

    def _load(self) -> Router:
        from mpcsim.smart_account.http import routes

        return Router(routes(self._accounts.service, self._authorize), redirect_slashes=False)


def embedded(rng: Rng, now: Callable[[], float]) -> MakeService:
    """A chain of the gateway's own, in memory: it is gone when the process ends."""

    def make() -> SmartAccountService:
        from mpcsim.smart_account import setup

        return setup.embedded(rng=rng, clock=now)

    return make


def over_rpc(url: str, bundler_key: str) -> MakeService:
    """Somebody's node.

    Args:
        bundler_key: of an account with coin there, in hex.

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
        from mpcsim.smart_account import setup

        return setup.over_rpc(url, key)

    return make
