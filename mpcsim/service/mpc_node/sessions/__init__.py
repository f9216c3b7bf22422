"""Sessions of an MPC node: ``table`` (open sessions), ``runner`` (their parties and the store),
``expiry`` (their ends). Their life cycle is on the page of ``gateway.sessions.sessions``."""
