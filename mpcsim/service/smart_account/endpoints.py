"""The endpoints of the smart-account flow, as data: what they are for, method, path.

The routes, the client and the table that maps fields to endpoints are derived from this.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

PREFIX: Final = "/core/evm/v2/erc4337"


class Endpoint(Enum):
    """Endpoint of the flow: purpose, method, path below ``PREFIX``, and the spelling of its
    reply."""

    ADDRESS = ("address query", "GET", "/{address}/address")
    INFO = ("info query", "GET", "/{address}/info")
    NONCE = ("nonce query", "GET", "/{address}/nonce")
    INIT = ("init calldata query", "POST", "/calldata/init")
    EXECUTE = ("execute calldata query", "POST", "/calldata/execute")
    GAS = ("gas info query", "POST", "/gas/info", True)
    SPONSOR = ("paymaster sponsor query", "POST", "/paymaster/sponsor", True)
    DIGEST = ("digest query", "POST", "/userop/hash")
    SEND = ("send", "POST", "/userop/send")
    RECEIPT = ("receipt query", "GET", "/userop/{result}/receipt")

    def __init__(self, purpose: str, method: str, below: str, camel: bool = False) -> None:
        self.purpose = purpose
        self.method = method
        self.path = PREFIX + below
        self.camel = camel
        """The reply names UserOperation fields in camelCase."""
