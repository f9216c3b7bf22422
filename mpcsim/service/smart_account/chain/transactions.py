"""An ordinary account of the chain that signs and sends transactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from eth_account.signers.local import LocalAccount
from eth_account.types import TransactionDictType
from eth_typing import ChecksumAddress

from mpcsim.service.process.backoff import retry_pauses
from mpcsim.service.smart_account.chain.chain import Chain, Check, TransactionReceipt
from mpcsim.service.smart_account.errors import ChainTimeout, ChainUnavailable, Refused

POLL_S: Final = (0.005, 0.25)
"""First and longest pause between two looks for a receipt; each is twice the one before."""
PATIENCE_S: Final = 60.0

TURN_S: Final = 30.0
"""Seconds that a transaction waits until those before it are handed in."""

TRANSFER_GAS: Final = 60_000
"""Enough for an account contract that takes note of it."""


class TransactionSender:
    """Sends from one account, in order, for any number of threads. Amounts in wei."""

    def __init__(
        self, chain: Chain, account: LocalAccount, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.chain = chain
        self._account = account
        self._sleep = sleep
        self._turn = threading.RLock()

    @property
    def address(self) -> ChecksumAddress:
        return self._account.address

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Meanwhile no other thread sends: the account counts its transactions.

        Raises:
            ChainTimeout: it was others' turn for ``TURN_S``.
        """
        if not self._turn.acquire(timeout=TURN_S):
            raise ChainTimeout("the chain's node is slow: other transactions are still waiting")
        try:
            yield
        finally:
            self._turn.release()

    def send(
        self,
        to: ChecksumAddress | None,
        data: bytes,
        *,
        gas: int,
        value: int = 0,
        check: Check | None = None,
        most_fees: tuple[int, int] | None = None,
    ) -> bytes:
        """Sign and hand in, if ``check`` accepts what it would do; the transaction's hash.

        Args:
            to: none: it creates a contract.
            most_fees: the most that it may pay, and pay on top of the base fee, in wei per gas.
        """
        with self.exclusive():
            fees = self.chain.fees()
            most = most_fees or (fees.maximum, fees.priority)
            transaction: TransactionDictType = {
                "type": 2,
                "chainId": self.chain.chain_id,
                "nonce": self.chain.transaction_count(self.address),
                "gas": gas,
                "maxFeePerGas": min(fees.maximum, most[0]),
                "maxPriorityFeePerGas": min(fees.priority, most[1]),
                "value": value,
                "data": data,
            }
            if to is not None:
                transaction["to"] = to
            raw = self._account.sign_transaction(transaction).raw_transaction
            return self.chain.send_raw(raw, check)

    def wait(self, transaction_hash: bytes) -> TransactionReceipt:
        """Wait until a block holds the transaction, and return its receipt.

        Raises:
            Refused: it is in a block, and reverted.
            ChainUnavailable: no block holds it after ``PATIENCE_S``.
        """
        waited_s, pauses_s = 0.0, retry_pauses(*POLL_S)
        while waited_s < PATIENCE_S:
            receipt = self.chain.receipt(transaction_hash)
            if receipt is None:
                self._sleep(pause_s := next(pauses_s))
                waited_s += pause_s
            elif receipt.success:
                return receipt
            else:
                raise Refused(f"transaction 0x{transaction_hash.hex()} reverted")
        raise ChainUnavailable(f"no block holds transaction 0x{transaction_hash.hex()}")

    def execute(
        self, to: ChecksumAddress | None, data: bytes, *, gas: int, value: int = 0
    ) -> TransactionReceipt:
        """Send and wait."""
        return self.wait(self.send(to, data, gas=gas, value=value))

    def pay(self, to: ChecksumAddress, amount: int) -> TransactionReceipt:
        """Transfer coin."""
        return self.execute(to, b"", gas=TRANSFER_GAS, value=amount)
