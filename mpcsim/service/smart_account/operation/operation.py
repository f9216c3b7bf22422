"""The UserOperation of ERC-4337, EntryPoint v0.6: encoding, hashes, what the owner signs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from eth_typing import ChecksumAddress
from eth_utils.crypto import keccak

from mpcsim.service.smart_account.operation.fields import (
    FIELDS,
    SIGNED,
    Value,
    parse_fields,
    to_wire,
)

ABI_TYPE: Final = "({})".format(",".join(field.abi_type for field in FIELDS.values()))
"""The EntryPoint's struct as an ABI tuple."""


@dataclass(frozen=True)
class UserOperation:
    """Operation of a smart account. Gas in units of gas, fees in wei."""

    sender: ChecksumAddress
    nonce: int
    """192 bits of key, 64 bits of sequence."""
    init_code: bytes
    """The factory and its calldata; empty once the account is deployed."""
    call_data: bytes
    call_gas_limit: int
    verification_gas_limit: int
    pre_verification_gas: int
    max_fee_per_gas: int
    max_priority_fee_per_gas: int
    paymaster_and_data: bytes = b""
    """The paymaster and its data; empty when the account pays."""
    signature: bytes = b""

    @classmethod
    def from_request(cls, body: Mapping[str, object], *, signed: bool) -> UserOperation:
        """Read an operation from a request's snake_case fields, with or without its signature.

        Raises:
            BadRequest: a field is missing, unknown or malformed; the message names it.
        """
        names = (*SIGNED, "signature") if signed else SIGNED
        return cls.of(parse_fields(body, names))

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> UserOperation:
        """Make an operation from parsed values by field name."""
        parsed: Mapping[str, Any] = values
        return cls(**parsed)

    def with_values(self, values: Mapping[str, Value]) -> UserOperation:
        """The same operation with other values of the named fields."""
        parsed: Mapping[str, Any] = values
        return replace(self, **parsed)

    def items(self) -> Iterator[tuple[str, Value]]:
        """Names and values, in the order of the struct."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)

    def to_request(self, *, signed: bool) -> dict[str, str]:
        """The fields as requests carry them."""
        return {name: to_wire(v) for name, v in self.items() if signed or name != "signature"}

    def abi_tuple(self) -> tuple[Value, ...]:
        """The struct as the contracts take it."""
        return tuple(value for _, value in self.items())

    def packed(self) -> bytes:
        """The encoding that is hashed: ten words, byte fields by their Keccak-256.

        The same as UserOperationLib.pack (ERC-4337, EntryPoint v0.6).
        """
        values = (getattr(self, name) for name in SIGNED)
        return b"".join(_word(keccak(v) if isinstance(v, bytes) else v) for v in values)

    def inner_hash(self) -> bytes:
        """Keccak-256 of the packed encoding.

        The same as UserOperationLib.hash (ERC-4337, EntryPoint v0.6).
        """
        return keccak(self.packed())

    def hash(self, entry_point: ChecksumAddress, chain_id: int) -> bytes:
        """The userOpHash: names this operation on this chain; the digest that the owner signs.

        The same as EntryPoint.getUserOpHash (ERC-4337, EntryPoint v0.6).
        """
        return bind(self.inner_hash(), entry_point, chain_id)

    def differences(self, other: UserOperation) -> list[tuple[str, Value, Value]]:
        """The signed fields in which two operations differ: name, this value, the other's."""
        return [
            (name, mine, theirs)
            for (name, mine), (_, theirs) in zip(self.items(), other.items(), strict=True)
            if name != "signature" and mine != theirs
        ]


def bind(inner_hash: bytes, entry_point: ChecksumAddress, chain_id: int) -> bytes:
    """Bind an operation's inner hash to an EntryPoint and a chain.

    The same as EntryPoint.getUserOpHash (ERC-4337, EntryPoint v0.6).
    """
    return keccak(binding_words(inner_hash, entry_point, chain_id))


def binding_words(inner_hash: bytes, entry_point: ChecksumAddress, chain_id: int) -> bytes:
    """The three words that ``bind`` hashes."""
    return inner_hash + _word(entry_point) + _word(chain_id)


def _word(value: Value) -> bytes:
    """ABI encoding of a value of fixed length: one word of 32 bytes.

    Written out here: eth-abi would more than double the time that a digest takes.
    """
    if isinstance(value, int):
        return value.to_bytes(32, "big")
    return value if isinstance(value, bytes) else bytes.fromhex(value[2:]).rjust(32, b"\0")


def personal_message(digest: bytes) -> bytes:
    """Return the bytes that ``personal_sign`` of a 32-byte digest hashes: the EIP-191 prefix and
    the digest."""
    return b"\x19Ethereum Signed Message:\n32" + digest


def personal_hash(digest: bytes) -> bytes:
    """The 32 bytes that ECDSA signs in ``personal_sign`` of a 32-byte digest (EIP-191)."""
    return keccak(personal_message(digest))
