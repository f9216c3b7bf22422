"""Words of a digest's encoding, and the EntryPoint's reaction to an operation that was changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from eth_typing import ChecksumAddress
from eth_utils.address import to_checksum_address

from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import Reverted
from mpcsim.service.smart_account.operation.fields import SIGNED, Value
from mpcsim.service.smart_account.operation.operation import UserOperation, binding_words
from mpcsim.service.smart_account.service import SmartAccountService

WORD_BYTES: Final = 32


class Kind(Enum):
    """Kind of a word's content."""

    ADDRESS = "address"
    NUMBER = "number"
    HASH = "hash"


@dataclass(frozen=True)
class Word:
    """32 bytes of an encoding that is hashed."""

    offset: int
    """Offset in bytes."""
    name: str
    kind: Kind
    made: str
    """Origin of the value, in words."""
    data: bytes = field(repr=False)


def packed_words(operation: UserOperation) -> tuple[Word, ...]:
    """The ten words of ``UserOperation.packed``."""
    names = [(name, value) for name, value in operation.items() if name in SIGNED]
    return _words(names, operation.packed())


def bound_words(inner_hash: bytes, entry_point: ChecksumAddress, chain_id: int) -> tuple[Word, ...]:
    """The three words whose Keccak-256 is the digest."""
    inner, *rest = _words(
        [("inner hash", inner_hash), ("EntryPoint", entry_point), ("chain id", chain_id)],
        binding_words(inner_hash, entry_point, chain_id),
    )
    return replace(inner, made="Keccak-256 of the ten words"), *rest


def _words(values: list[tuple[str, Value]], encoded: bytes) -> tuple[Word, ...]:
    words = []
    for at, (name, value) in enumerate(values):
        if isinstance(value, bytes):
            kind, made = Kind.HASH, f"Keccak-256 of {len(value)} bytes"
        elif isinstance(value, int):
            kind, made = Kind.NUMBER, f"number {value:,}"
        else:
            kind, made = Kind.ADDRESS, "address of 20 bytes"
        offset = at * WORD_BYTES
        words.append(Word(offset, name, kind, made, encoded[offset : offset + WORD_BYTES]))
    return tuple(words)


def alter_field(operation: UserOperation, name: str) -> UserOperation:
    """The operation with another, well-formed value of one field."""
    value: Value = getattr(operation, name)
    if isinstance(value, int):
        other: Value = value + 1
    elif isinstance(value, bytes):
        # In call data the last word is padding, the call's amount is not.
        at = 67 if name == "call_data" and len(value) > 67 else len(value) - 1
        other = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] if value else b"\1" * 20
    else:
        other = to_checksum_address(f"0x{int(value, 16) ^ 1:040x}")
    return operation.with_values({name: other})


def refusal_reason(
    service: SmartAccountService,
    operation: UserOperation,
    entry_point: ChecksumAddress | None = None,
) -> str | None:
    """Return the reason why an EntryPoint reverts on a bundle of this operation; None if it takes
    it.

    The contracts themselves are asked, past all checks of the service; nothing of it stays.
    """
    abi = contracts.entry_point().abi
    bundler = service.bundler.address
    bundle = abi.call("handleOps", [operation.abi_tuple()], bundler)
    try:
        service.chain.call(entry_point or service.deployment.entry_point, bundle, sender=bundler)
    except Reverted as reverted:
        return abi.reason(reverted.data)
    return None
