"""The receipt of an operation: the members of ``eth_getUserOperationReceipt``, in snake_case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_typing import ChecksumAddress
from eth_utils.address import to_checksum_address

from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import ZERO_ADDRESS, Event, Log, TransactionReceipt
from mpcsim.service.smart_account.operation.fields import to_wire
from mpcsim.service.smart_account.operation.operation import UserOperation

PENDING, INCLUDED, FAILED = "pending", "included", "failed"
"""Status of an operation: in no block; in a block, and the call succeeded; in a block, and it
failed."""


def pending_receipt(
    result: bytes, operation: UserOperation, entry_point: ChecksumAddress
) -> dict[str, Any]:
    """Return the receipt of an operation that no block holds."""
    of = _Operation(result, operation.sender, operation.nonce, entry_point)
    return _receipt(of, PENDING, None, _Outcome())


def reverted_bundle_receipt(
    result: bytes,
    operation: UserOperation,
    entry_point: ChecksumAddress,
    transaction: TransactionReceipt,
) -> dict[str, Any]:
    """Return the receipt of an operation whose whole bundle reverted: the operation did not
    happen."""
    of = _Operation(result, operation.sender, operation.nonce, entry_point)
    outcome = _Outcome(success=False, reason="the bundle reverted")
    return _receipt(of, FAILED, transaction, outcome)


def receipt_from_logs(
    result: bytes, entry_point: ChecksumAddress, transaction: TransactionReceipt
) -> dict[str, Any] | None:
    """Return the receipt from the transaction that carried the operation; None if it did not."""
    abi = contracts.entry_point().abi
    begin, reason = 0, b""
    for at, log in enumerate(transaction.logs):
        if log.address != entry_point:
            continue
        match abi.event(log.topics, log.data):
            case ("BeforeExecution", _):
                begin = at + 1
            case ("UserOperationRevertReason", (found, _, _, data)) if found == result:
                reason = data
            case ("UserOperationEvent", (found, sender, paymaster, nonce, success, cost, gas)):
                if found != result:
                    begin = at + 1
                    continue
                outcome = _Outcome(
                    paymaster=paymaster,
                    success=success,
                    actual_gas_cost=hex(cost),
                    actual_gas_used=hex(gas),
                    reason=contracts.account().abi.reason(reason) if not success else None,
                    logs=_logs(transaction.logs[begin:at]),
                )
                of = _Operation(result, sender, nonce, entry_point)
                return _receipt(of, INCLUDED if success else FAILED, transaction, outcome)
    return None


def call_failure(entry_point: ChecksumAddress, events: Sequence[Event]) -> str | None:
    """Return the reason why the call of a bundle's only operation failed; None if it did not."""
    abi = contracts.entry_point().abi
    reason = b""
    for event in events:
        if event.address != entry_point:
            continue
        match abi.event(event.topics, event.data):
            case ("UserOperationRevertReason", (_, _, _, data)):
                reason = data
            case ("UserOperationEvent", (_, _, _, _, success, _, _)):
                return None if success else contracts.account().abi.reason(reason)
    return "the EntryPoint tells of no operation"


@dataclass(frozen=True)
class _Operation:
    """An operation, by what names it."""

    result: bytes
    """Hash of the operation."""
    sender: str
    nonce: int
    entry_point: ChecksumAddress


@dataclass(frozen=True)
class _Outcome:
    """Effects of an operation's execution; nothing where it has not been executed."""

    paymaster: str = ZERO_ADDRESS
    success: bool | None = None
    actual_gas_cost: str | None = None
    actual_gas_used: str | None = None
    reason: str | None = None
    logs: Sequence[dict[str, Any]] = ()


def _receipt(
    of: _Operation, status: str, transaction: TransactionReceipt | None, outcome: _Outcome
) -> dict[str, Any]:
    return {
        "status": status,
        "result": to_wire(of.result),
        "user_op_hash": to_wire(of.result),
        "entry_point": of.entry_point,
        "sender": to_checksum_address(of.sender),
        "nonce": hex(of.nonce),
        "paymaster": to_checksum_address(outcome.paymaster),
        "actual_gas_cost": outcome.actual_gas_cost,
        "actual_gas_used": outcome.actual_gas_used,
        "success": outcome.success,
        "reason": outcome.reason,
        "logs": list(outcome.logs),
        "receipt": None if transaction is None else _transaction(transaction),
    }


def _transaction(receipt: TransactionReceipt) -> dict[str, Any]:
    return {
        "transaction_hash": to_wire(receipt.transaction_hash),
        "transaction_index": hex(receipt.transaction_index),
        "block_hash": to_wire(receipt.block_hash),
        "block_number": hex(receipt.block_number),
        "from": receipt.sender,
        "to": receipt.to,
        "contract_address": receipt.contract_address,
        "status": hex(receipt.success),
        "gas_used": hex(receipt.gas_used),
        "cumulative_gas_used": hex(receipt.cumulative_gas_used),
        "effective_gas_price": hex(receipt.effective_gas_price),
        "logs": _logs(receipt.logs),
        "logs_bloom": to_wire(receipt.logs_bloom),
    }


def _logs(logs: Sequence[Log]) -> list[dict[str, Any]]:
    return [
        {
            "address": log.address,
            "topics": [to_wire(topic) for topic in log.topics],
            "data": to_wire(log.data),
            "block_number": hex(log.block_number),
            "transaction_hash": to_wire(log.transaction_hash),
            "log_index": hex(log.index),
        }
        for log in logs
    ]
