"""The REST node's client of the gateway, and whom it believes."""
