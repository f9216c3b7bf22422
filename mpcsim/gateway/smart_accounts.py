"""The smart-account flow as a part of the gateway: a chain made when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.rng import Rng
from mpcsim.smart_account import setup
from mpcsim.smart_account.endpoints import Endpoint
from mpcsim.smart_account.errors import ChainUnavailable
from mpcsim.smart_account.service import Reply, SmartAccountService

MakeService = Callable[[], SmartAccountService]

KEY_BYTES: Final = 32


class SmartAccounts:
    """A ``SmartAccountService``, as far as the routes need one."""

    def __init__(self, make: MakeService) -> None:
        """
        Args:
            make: called once, at the first request: deploying the contracts takes a while, and a
                node may not be there yet.
        """
        self._make = make
        self._made: SmartAccountService | None = None
        self._lock = threading.Lock()

    def service(self) -> SmartAccountService:
        """The service behind the endpoints, made if need be.

        Raises:
            ChainUnavailable: its node cannot be reached, or the contracts are not installed.
        """
        with self._lock:
            if self._made is None:
                try:
                    self._made = self._make()
                except UsageError as error:
                    raise ChainUnavailable(str(error)) from None
            return self._made

    def answer(self, endpoint: Endpoint, request: Mapping[str, object]) -> Reply:
        """See ``SmartAccountService.answer``."""
        return self.service().answer(endpoint, request)


def embedded(rng: Rng, now: Callable[[], float]) -> MakeService:
    """A chain of the gateway's own, in memory: it is gone when the process ends."""
    return lambda: setup.embedded(rng=rng, clock=now)


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
    return lambda: setup.over_rpc(url, key)
