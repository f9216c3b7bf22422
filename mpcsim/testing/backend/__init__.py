"""A wallet backend under test: how it is called, and what its answers must satisfy."""

from mpcsim.testing.backend.wallet_service import Settings, serving

__all__ = [
    "Settings",
    "serving",
]
