"""A wallet backend under test: how it is called, and what its answers must satisfy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpcsim.testing.backend.wallet_service import (
    ServiceSettings,
    WalletService,
    serving,
)

if TYPE_CHECKING:
    from mpcsim.testing.backend.local_wallet_service import LocalWalletService

__all__ = [
    "LocalWalletService",
    "ServiceSettings",
    "WalletService",
    "serving",
]


def __getattr__(name: str) -> Any:
    if name == "LocalWalletService":
        # Imported on first use: a service in this process takes a second to load.
        from mpcsim.testing.backend.local_wallet_service import LocalWalletService

        return LocalWalletService
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
