"""EVM chains: embedded, anvil beside the gateway, or any node over JSON-RPC."""

from mpcsim.service.smart_account.chain import contracts

__all__ = [
    "contracts",
]
