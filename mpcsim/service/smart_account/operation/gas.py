"""Gas that an operation needs, found by running it in the EVM.

``EntryPoint.simulateHandleOp`` runs validation and execution whatever the signature says, and
reports what was used. The operation is run without its call and with it; the difference is what the
call uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from eth_abi.abi import encode
from eth_typing import ChecksumAddress

from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import ZERO_ADDRESS, Chain, Reverted
from mpcsim.service.smart_account.errors import BadRequest, NoContract, Refused
from mpcsim.service.smart_account.operation.fields import Value
from mpcsim.service.smart_account.operation.operation import ABI_TYPE, UserOperation

MAX_CALL_GAS: Final = 6_000_000
MAX_VERIFICATION_GAS: Final = 4_000_000
"""Most gas for the two parts of an operation. Together with the EntryPoint's own work below
``chain.CALL_GAS``."""

# The usual overheads of a bundle with one operation (eth-infinitism's reference bundler).
BUNDLE_GAS: Final = 21_000
OPERATION_GAS: Final = 18_300
WORD_GAS: Final = 4
ZERO_BYTE_GAS: Final = 4
NONZERO_BYTE_GAS: Final = 16
SIGNATURE_BYTES: Final = 65
FLOOR_ZERO_BYTE_GAS: Final = 10
FLOOR_NONZERO_BYTE_GAS: Final = 40
"""Lowest cost of a transaction by its calldata (EIP-7623, since Prague)."""
HANDLE_OPS_BYTES: Final = 4 + 4 * 32
"""Bytes of the bundle's calldata beside the operation."""

MARGIN: Final = 0.25
"""A call passes on at most 63/64 of its gas (EIP-150), so a limit must exceed what is used by 1.6 %
a nested call: this is enough for fourteen. What is not used is not charged."""
SLACK: Final = 5_000


@dataclass(frozen=True)
class SimulationResult:
    """Report of ``simulateHandleOp``."""

    pre_op_gas: int
    """Used by validation, ``pre_verification_gas`` included."""
    paid: int
    """Amount in wei."""
    target_success: bool
    target_result: bytes


def simulate(
    chain: Chain,
    entry_point: ChecksumAddress,
    operation: UserOperation,
    *,
    target: ChecksumAddress = ZERO_ADDRESS,
    calldata: bytes = b"",
    balances: Mapping[ChecksumAddress, int] | None = None,
) -> SimulationResult:
    """Run an operation, then a call from the EntryPoint to ``target``; nothing of it stays.

    Raises:
        Refused: the EntryPoint refused it, with the revert code.
        NoContract: there is no EntryPoint, which always reverts.
    """
    abi = contracts.entry_point().abi
    data = abi.call("simulateHandleOp", operation.abi_tuple(), target, calldata)
    try:
        chain.call(entry_point, data, balances=balances)
    except Reverted as reverted:
        match abi.error(reverted.data):
            case ("ExecutionResult", (pre_op_gas, paid, _, _, success, result)):
                return SimulationResult(pre_op_gas, paid, success, result)
        raise Refused(abi.reason(reverted.data)) from None
    raise NoContract(entry_point)


def call_reverts(chain: Chain, operation: UserOperation, reason: str) -> Refused:
    """Return the error for a call that reverts, with the account's balance if there is no reason:
    as where it pays more than it has."""
    if reason == contracts.NO_REASON:
        reason += f"; the account's balance is {chain.balance(operation.sender)} wei"
    return Refused(f"call_data: the call reverts: {reason}")


def check_call(
    chain: Chain,
    entry_point: ChecksumAddress,
    operation: UserOperation,
    *,
    balances: Mapping[ChecksumAddress, int] | None = None,
) -> SimulationResult:
    """Run an operation with its call outside of it, where the call's own revert can be seen.

    Raises:
        Refused: the EntryPoint refused the operation, or the call reverted.
    """
    without = replace(operation, call_data=b"")
    if not operation.call_data:
        return simulate(chain, entry_point, without, balances=balances)
    ran = simulate(
        chain,
        entry_point,
        without,
        target=operation.sender,
        calldata=operation.call_data,
        balances=balances,
    )
    if not ran.target_success:
        reason = contracts.account().abi.reason(ran.target_result)
        raise call_reverts(chain, operation, reason)
    return ran


def pre_verification_gas(operation: UserOperation) -> int:
    """Return the gas of a bundle beyond what the EntryPoint can measure.

    The transaction's own gas, its calldata, and the EntryPoint's loop; or, if that is more, the
    least that a transaction of so much calldata costs. The signature counts with 65 bytes that are
    not zero, or as it is if it is longer, and this value with a usual one, so the result depends on
    no signature of an owner's own.
    """
    length = max(SIGNATURE_BYTES, len(operation.signature))
    signed = replace(operation, signature=b"\xff" * length, pre_verification_gas=BUNDLE_GAS)
    calldata = encode((ABI_TYPE,), (signed.abi_tuple(),))
    zeros = calldata.count(0)
    others, words = len(calldata) - zeros, (len(calldata) + 31) // 32
    usual = (
        BUNDLE_GAS
        + OPERATION_GAS
        + ZERO_BYTE_GAS * zeros
        + NONZERO_BYTE_GAS * others
        + WORD_GAS * words
    )
    floor = (
        BUNDLE_GAS
        + FLOOR_ZERO_BYTE_GAS * zeros
        + FLOOR_NONZERO_BYTE_GAS * (others + HANDLE_OPS_BYTES)
    )
    return max(usual, floor)


def check_pre_verification_gas(operation: UserOperation, needed: int) -> None:
    """Check that an operation pays what its bundle costs, and not much more: it is charged as it
    is.

    Raises:
        BadRequest: it does not.
    """
    most = int(needed * (1 + MARGIN))
    if operation.pre_verification_gas < needed:
        raise BadRequest(f"pre_verification_gas: below {needed}, what the bundle costs")
    if operation.pre_verification_gas > most:
        raise BadRequest(f"pre_verification_gas: above {most}, what the bundle costs and a margin")


def estimate(
    chain: Chain,
    entry_point: ChecksumAddress,
    operation: UserOperation,
    given: Mapping[str, Value],
) -> UserOperation:
    """Fill in the gas limits that are not ``given`` by the caller.

    The operation brings fees, a signature of the right form (whose it is does not matter), and
    paymaster data of the final length. That the account can pay is not asked here; ``send`` asks.

    Raises:
        Refused: the EntryPoint refuses it, or its call reverts.
        BadRequest: a given value is below what is used, or above what a bundle carries.
    """
    for name, most in (
        ("call_gas_limit", MAX_CALL_GAS),
        ("verification_gas_limit", MAX_VERIFICATION_GAS),
    ):
        value = given.get(name, 0)
        if isinstance(value, int) and value > most:
            raise BadRequest(f"{name}: above {most}, the most that a bundle carries")
    # Equal fees make the price per gas known, whatever the base fee is.
    price = 1 if operation.paymaster_and_data else max(operation.max_fee_per_gas, 1)
    unlimited = replace(
        operation,
        call_gas_limit=MAX_CALL_GAS,
        verification_gas_limit=MAX_VERIFICATION_GAS,
        pre_verification_gas=0,
        max_fee_per_gas=price,
        max_priority_fee_per_gas=price,
    )
    solvent = _solvent(chain, entry_point, unlimited)
    idle = check_call(chain, entry_point, unlimited, balances=solvent)
    outside = idle.paid // price - idle.pre_op_gas
    used = 0
    if operation.call_data:
        busy = simulate(chain, entry_point, unlimited, balances=solvent)
        # A paymaster's own work may have cost less with the call than without.
        used = max(0, busy.paid // price - busy.pre_op_gas - outside)

    filled = operation.with_values(
        {
            "verification_gas_limit": _with_margin(idle.pre_op_gas),
            "call_gas_limit": _with_margin(used) if operation.call_data else 0,
            **given,
        }
    )
    needed = pre_verification_gas(filled)
    if "pre_verification_gas" not in given:
        filled = replace(filled, pre_verification_gas=needed)
    else:
        check_pre_verification_gas(filled, needed)
    if filled.call_gas_limit < used:
        raise BadRequest(f"call_gas_limit: below {used}, what the call uses")
    if "verification_gas_limit" in given:
        trial = replace(filled, max_fee_per_gas=price, max_priority_fee_per_gas=price)
        try:
            simulate(chain, entry_point, trial, balances=_solvent(chain, entry_point, trial))
        except Refused as refused:
            # With gas enough it went through.
            raise Refused(f"verification_gas_limit: too low: {refused}") from None
    return filled


def _with_margin(used: int) -> int:
    return int(used * (1 + MARGIN)) + SLACK


def _solvent(
    chain: Chain, entry_point: ChecksumAddress, operation: UserOperation
) -> dict[ChecksumAddress, int]:
    """The sender's balance with which it pays the prefund and has what it has now for its call."""
    if operation.paymaster_and_data:
        return {}
    gas = (
        operation.call_gas_limit + operation.verification_gas_limit + operation.pre_verification_gas
    )
    held = contracts.entry_point().abi.view(chain, entry_point, "balanceOf", operation.sender)
    missing = max(0, gas * operation.max_fee_per_gas - held)
    return {operation.sender: chain.balance(operation.sender) + missing}
