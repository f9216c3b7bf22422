"""Errors of the smart-account flow, and the HTTP status of each kind."""

from __future__ import annotations

from typing import ClassVar

from mpcsim.errors import MpcError
from mpcsim.service.error_codes import Code


class SmartAccountError(MpcError):
    """Base of every refusal; the message is safe to show to the caller."""

    status: ClassVar[int] = 400
    error_code: ClassVar[Code] = Code.BAD_REQUEST


class BadRequest(SmartAccountError):
    """A field is missing, unknown, malformed or out of range; the message names it."""


class UnknownOperation(SmartAccountError):
    """No operation of that identifier, or none at that step."""

    status = 404
    error_code = Code.NOT_FOUND


class Inconsistent(SmartAccountError):
    """Data that differ from those of an earlier step; the message names field and both values."""

    status = 409
    error_code = Code.CONFLICT


class Refused(SmartAccountError):
    """The EntryPoint, the account, the paymaster or the called contract said no.

    The message carries the EntryPoint's revert code (AA21, AA24, ...) or the call's own reason.
    """

    status = 422
    error_code = Code.REVERTED


class BudgetSpent(SmartAccountError):
    """The user's budget for sponsored operations of the day would be exceeded."""

    status = 429
    error_code = Code.LIMITED

    def __init__(self, text: str, wait_s: int) -> None:
        super().__init__(text)
        self.wait_s = wait_s
        """Seconds until the next day's budget."""


class TooManyRequests(SmartAccountError):
    """The user has as many requests answered or waiting as it may have."""

    status = 429
    error_code = Code.LIMITED


class ChainUnavailable(SmartAccountError):
    """The chain's node cannot be reached, or answers with an error of its own."""

    status = 502
    error_code = Code.UPSTREAM_DOWN


class ChainTimeout(ChainUnavailable):
    """The chain's node does not answer in time."""

    status = 504
    error_code = Code.UPSTREAM_LATE


class NoContract(ChainUnavailable):
    """The contract is not where it was deployed: another chain, or the same one begun anew."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the contract at {address} does not answer: the chain is another one than before, "
            "or was begun anew"
        )
