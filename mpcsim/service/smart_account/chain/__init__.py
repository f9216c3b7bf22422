"""EVM chains: embedded, anvil beside the gateway, or any node over JSON-RPC."""
