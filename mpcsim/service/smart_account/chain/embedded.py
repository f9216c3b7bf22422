"""A chain in this process: py-evm, one block a transaction, nothing on disk.

For notebooks, tests and services in one process: a run repeats bit by bit, and what its callers
compute and store is bounded by nothing. A served gateway has its chain beside it (``anvil``).

py-evm was measured against pyrevm (revm's Python binding). revm simulates an operation that deploys
its account in 0.3 ms, py-evm in 12 to 16; but the binding never ends a transaction: what was once
touched stays warm and keeps its first value as "original" (validating that operation comes to
390,490 gas in place of 400,490), the base fee reads as zero, and fees and nonces are left to the
caller. py-evm is a whole chain and charges what a node charges (the tests compare the two gas by
gas); and it is pure Python, where the binding has no build for Python 3.13 outside Windows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

from eth_typing import Address, BlockNumber, ChecksumAddress
from eth_utils.address import to_canonical_address, to_checksum_address
from eth_utils.exceptions import ValidationError

from mpcsim.service.smart_account.chain.chain import (
    CALL_GAS,
    DEFAULT_CHAIN_ID,
    ZERO_ADDRESS,
    Check,
    Fees,
    Log,
    Outcome,
    Reverted,
    TransactionReceipt,
)
from mpcsim.service.smart_account.chain.pyevm import (
    AccountDetails,
    AtomicDB,
    CancunVM,
    HeaderParams,
    MiningChain,
    ReceiptAPI,
    SignedTransactionAPI,
    SpoofTransaction,
)
from mpcsim.service.smart_account.errors import ChainUnavailable, Refused

GENESIS_TIME: Final = 1_767_225_600
"""2026-01-01 00:00 UTC."""

FIRST_BASE_FEE: Final = 10**9
PRIORITY_FEE: Final = 10**9
BLOCK_GAS: Final = 30_000_000

FORK: Final = CancunVM


P = ParamSpec("P")
R = TypeVar("R")


def _one_thread_at_a_time(
    method: Callable[Concatenate[EmbeddedChain, P], R],
) -> Callable[Concatenate[EmbeddedChain, P], R]:
    """Serialise a method's calls: py-evm's state is not made for several threads."""

    @wraps(method)
    def alone(self: EmbeddedChain, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


@contextmanager
def _refuse_deep_recursion() -> Iterator[None]:
    """py-evm recurses with the contracts' calls: about a hundred levels fit the limit."""
    try:
        yield
    except RecursionError:
        raise Refused("the contracts' calls nest too deeply for the embedded chain") from None


class EmbeddedChain:
    """The chain, for any number of threads; ``balances`` in wei are those of its first block.

    ``clock`` gives the time of new blocks in seconds since 1970; without one, each block is a
    second after the one before it, so that a run repeats exactly.
    """

    def __init__(
        self,
        balances: Mapping[ChecksumAddress, int],
        *,
        chain_id: int = DEFAULT_CHAIN_ID,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.chain_id = chain_id
        self._clock = clock
        self._lock = threading.RLock()
        chain = MiningChain.configure(
            "EmbeddedChain", vm_configuration=((BlockNumber(0), FORK),), chain_id=chain_id
        )
        state: dict[Address, AccountDetails] = {
            to_canonical_address(address): {
                "balance": balance,
                "nonce": 0,
                "code": b"",
                "storage": {},
            }
            for address, balance in balances.items()
        }
        genesis: dict[str, HeaderParams] = {
            "difficulty": 0,
            "gas_limit": BLOCK_GAS,
            "timestamp": GENESIS_TIME,
            "base_fee_per_gas": FIRST_BASE_FEE,
        }
        self._chain = cast(MiningChain, chain.from_genesis(AtomicDB(), genesis, state))
        self._receipts: dict[bytes, TransactionReceipt] = {}
        self._logs: list[Log] = []
        self._stamp()

    def close(self) -> None:
        """Close the chain, which holds nothing beyond the object."""

    def _stamp(self) -> None:
        """Date the block in the making."""
        earliest = self._chain.get_canonical_head().timestamp + 1
        now = int(self._clock()) if self._clock else earliest
        self._chain.set_header_timestamp(max(earliest, now))

    @_one_thread_at_a_time
    def call(
        self,
        to: ChecksumAddress,
        data: bytes,
        *,
        sender: ChecksumAddress = ZERO_ADDRESS,
        balances: Mapping[ChecksumAddress, int] | None = None,
    ) -> bytes:
        self._stamp()
        # The state made here is thrown away: nothing in it is ever persisted.
        vm = self._chain.get_vm()
        caller = to_canonical_address(sender)
        for address, balance in (balances or {}).items():
            vm.state.set_balance(to_canonical_address(address), balance)
        price = self.fees().base_fee
        vm.state.delta_balance(caller, CALL_GAS * price)
        transaction = vm.create_unsigned_transaction(
            nonce=vm.state.get_nonce(caller),
            gas_price=price,
            gas=CALL_GAS,
            to=to_canonical_address(to),
            value=0,
            data=data,
        )
        spoofed = SpoofTransaction(transaction, from_=caller)
        with _refuse_deep_recursion():
            computation = vm.state.apply_transaction(cast(SignedTransactionAPI, spoofed))
        if computation.is_error:
            raise Reverted(computation.output)
        return computation.output

    @_one_thread_at_a_time
    def code(self, address: ChecksumAddress) -> bytes:
        return self._chain.get_vm().state.get_code(to_canonical_address(address))

    @_one_thread_at_a_time
    def balance(self, address: ChecksumAddress) -> int:
        return self._chain.get_vm().state.get_balance(to_canonical_address(address))

    @_one_thread_at_a_time
    def transaction_count(self, address: ChecksumAddress) -> int:
        return self._chain.get_vm().state.get_nonce(to_canonical_address(address))

    @_one_thread_at_a_time
    def fees(self) -> Fees:
        return Fees(self._chain.header.base_fee_per_gas or 0, PRIORITY_FEE)

    @_one_thread_at_a_time
    def timestamp(self) -> int:
        self._stamp()
        return self._chain.header.timestamp

    @_one_thread_at_a_time
    def send_raw(self, raw: bytes, check: Check | None = None) -> bytes:
        self._stamp()
        before = self._chain.header
        try:
            transaction = self._chain.get_vm().get_transaction_builder().decode(raw)
            # py-evm does not look; None is a transaction for any chain, from before EIP-155.
            if transaction.chain_id not in (None, self.chain_id):
                raise ValidationError(f"it is for chain {transaction.chain_id}")
            with _refuse_deep_recursion():
                _, receipt, computation = self._chain.apply_transaction(transaction)
        except ValidationError as refused:
            raise ChainUnavailable(f"the chain refused a transaction: {refused}") from None
        logs = self._logs_of(receipt, transaction.hash, before.block_number)
        if check is not None:
            try:
                check(Outcome(not computation.is_error, computation.output, logs))
            except BaseException:
                # The state is whatever the header's root says: this forgets the transaction.
                self._chain.header = before
                raise
        price = min(
            transaction.max_fee_per_gas,
            transaction.max_priority_fee_per_gas + self.fees().base_fee,
        )
        block = self._chain.mine_block()
        created = transaction.to == b"" and not computation.is_error
        self._receipts[transaction.hash] = TransactionReceipt(
            transaction_hash=transaction.hash,
            transaction_index=0,
            block_hash=block.hash,
            block_number=block.number,
            sender=to_checksum_address(transaction.sender),
            to=to_checksum_address(transaction.to) if transaction.to else None,
            contract_address=(
                to_checksum_address(computation.msg.storage_address) if created else None
            ),
            success=not computation.is_error,
            gas_used=receipt.gas_used,
            cumulative_gas_used=receipt.gas_used,
            effective_gas_price=price,
            logs=logs,
            logs_bloom=receipt.bloom.to_bytes(256, "big"),
        )
        self._logs += logs
        return bytes(transaction.hash)

    @staticmethod
    def _logs_of(receipt: ReceiptAPI, transaction_hash: bytes, block: int) -> tuple[Log, ...]:
        return tuple(
            Log(
                address=to_checksum_address(log.address),
                topics=tuple(topic.to_bytes(32, "big") for topic in log.topics),
                data=log.data,
                block_number=block,
                transaction_hash=transaction_hash,
                index=index,
            )
            for index, log in enumerate(receipt.logs)
        )

    @_one_thread_at_a_time
    def receipt(self, transaction_hash: bytes) -> TransactionReceipt | None:
        return self._receipts.get(transaction_hash)

    @_one_thread_at_a_time
    def logs(self, address: ChecksumAddress, topics: Sequence[bytes]) -> list[Log]:
        wanted = tuple(topics)
        return [
            log
            for log in self._logs
            if log.address == address and log.topics[: len(wanted)] == wanted
        ]
