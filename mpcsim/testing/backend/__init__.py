"""A wallet backend under test: how it is called, and what its answers must satisfy."""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.testing.backend.local_wallet_service import LocalWalletService
    from mpcsim.testing.backend.wallet_service import ServiceSettings, WalletService, serving
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "LocalWalletService",
    "ServiceSettings",
    "WalletService",
    "serving",
]
