"""Interface of an EVM chain for the flow; ``embedded``, ``anvil`` and ``jsonrpc`` implement it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from eth_typing import ChecksumAddress
from eth_utils.address import to_checksum_address

DEFAULT_CHAIN_ID: Final = 31337

ZERO_ADDRESS: Final = to_checksum_address("0x" + "00" * 20)

CALL_GAS: Final = 15_000_000
"""Gas of a message call: below the bound on one transaction's gas (EIP-7825)."""


class Reverted(Exception):
    """A message call reverted, or halted (out of gas, bad instruction): then without data."""

    def __init__(self, data: bytes) -> None:
        super().__init__(f"0x{data.hex()}")
        self.data = data


@dataclass(frozen=True)
class Fees:
    """Fees that a transaction should offer now, in wei per gas."""

    base_fee: int
    """Base fee of the next block (EIP-1559)."""
    priority: int

    @property
    def maximum(self) -> int:
        """Enough for six full blocks in a row before the base fee outgrows it."""
        return 2 * self.base_fee + self.priority


@dataclass(frozen=True)
class Log:
    """Log entry of a contract."""

    address: ChecksumAddress
    topics: tuple[bytes, ...]
    data: bytes = field(repr=False)
    block_number: int
    transaction_hash: bytes
    index: int
    """Index in the block."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a transaction, or of its simulation."""

    success: bool
    output: bytes
    """Return data; when it reverts, the reason's data."""
    events: tuple[Event, ...] | None
    """None: the node cannot tell."""


class Event(Protocol):
    """The part of a log that does not depend on its place in a block."""

    @property
    def address(self) -> ChecksumAddress: ...
    @property
    def topics(self) -> tuple[bytes, ...]: ...
    @property
    def data(self) -> bytes: ...


Check = Callable[[Outcome], None]
"""Raises if an outcome is not to happen."""


@dataclass(frozen=True)
class TransactionReceipt:
    """A transaction in a block."""

    transaction_hash: bytes
    transaction_index: int
    block_hash: bytes
    block_number: int
    sender: ChecksumAddress
    to: ChecksumAddress | None
    contract_address: ChecksumAddress | None
    success: bool
    gas_used: int
    cumulative_gas_used: int
    effective_gas_price: int
    logs: tuple[Log, ...] = field(repr=False)
    logs_bloom: bytes = field(repr=False)


class Chain(Protocol):
    """An EVM chain. Every method may raise ``ChainUnavailable``."""

    @property
    def chain_id(self) -> int: ...

    def close(self) -> None:
        """Give up what the chain holds. It is not used afterwards."""
        ...

    def call(
        self,
        to: ChecksumAddress,
        data: bytes,
        *,
        sender: ChecksumAddress = ZERO_ADDRESS,
        balances: Mapping[ChecksumAddress, int] | None = None,
    ) -> bytes:
        """A message call on the latest state that leaves no trace.

        ``balances``, in wei, replace those of the named accounts for this call.

        Raises:
            Reverted: it reverted.
        """
        ...

    def code(self, address: ChecksumAddress) -> bytes: ...

    def balance(self, address: ChecksumAddress) -> int:
        """Return a balance in wei."""
        ...

    def transaction_count(self, address: ChecksumAddress) -> int:
        """The account's next nonce, waiting transactions counted."""
        ...

    def fees(self) -> Fees: ...

    def timestamp(self) -> int:
        """Return the time of a block made now, in seconds since 1970 (to within a block)."""
        ...

    def send_raw(self, raw: bytes, check: Check | None = None) -> bytes:
        """Hand in a signed transaction, if ``check`` accepts what it would do; its hash.

        What ``check`` raises goes to the caller, and the transaction did not happen.
        """
        ...

    def receipt(self, transaction_hash: bytes) -> TransactionReceipt | None:
        """None while no block holds the transaction."""
        ...

    def logs(self, address: ChecksumAddress, topics: Sequence[bytes]) -> list[Log]:
        """A contract's logs that begin with these topics, oldest first, as far back as known."""
        ...
