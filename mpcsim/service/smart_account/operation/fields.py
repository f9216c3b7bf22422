"""The fields of a UserOperation, as data: form, limits, and the endpoints that may supply each.

Requests are read, replies are written, the client's steps are checked and the documentation's
mapping table is made from ``FIELDS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from eth_typing import ChecksumAddress
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import BadRequest

Value = ChecksumAddress | int | bytes

MAX_BYTES: Final = 1 << 16
"""Longest byte field of a request: a block of 30 million gas carries ten times that and
more, at 40 gas a byte that is not 0."""

UINT256_MAX: Final = (1 << 256) - 1
UINT120_MAX: Final = (1 << 120) - 1
"""The EntryPoint's own bound on gas values and fees (AA94)."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_DECIMAL = re.compile(r"[0-9]{1,78}")
_HEX_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,64}")
_HEX_BYTES = re.compile(r"0[xX](?:[0-9a-fA-F]{2})*")


def parse_address(name: str, value: object) -> ChecksumAddress:
    """A 20-byte address in 0x hex; mixed case must be a valid EIP-55 checksum.

    Raises:
        BadRequest: it is not.
    """
    if isinstance(value, str) and _ADDRESS.fullmatch(value):
        address = to_checksum_address(value)
        if value[2:] in (value[2:].lower(), value[2:].upper(), address[2:]):
            return address
    raise BadRequest(f"{name}: not an address (0x, 40 hex digits, EIP-55 if of mixed case)")


def parse_number(name: str, value: object, maximum: int = UINT256_MAX) -> int:
    """A whole number from 0 to ``maximum``: an integer, a decimal string, or 0x hex.

    Raises:
        BadRequest: it is not.
    """
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        number = int(value)
    elif isinstance(value, str) and _HEX_NUMBER.fullmatch(value):
        number = int(value, 16)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        raise BadRequest(f"{name}: not a whole number (an integer, a decimal string, or 0x hex)")
    if not 0 <= number <= maximum:
        raise BadRequest(f"{name}: outside 0..2^{maximum.bit_length()}-1")
    return number


def parse_bytes(name: str, value: object) -> bytes:
    """Bytes in 0x hex with an even number of digits, at most ``MAX_BYTES``.

    Raises:
        BadRequest: they are not.
    """
    if not isinstance(value, str) or not value.startswith("0x"):
        raise BadRequest(f"{name}: not 0x hex")
    if len(value) > 2 + 2 * MAX_BYTES:
        raise BadRequest(f"{name}: longer than {MAX_BYTES} bytes")
    if len(value) % 2:
        raise BadRequest(f"{name}: an odd number of hex digits")
    if not _HEX_BYTES.fullmatch(value):
        raise BadRequest(f"{name}: not 0x hex")
    return bytes.fromhex(value[2:])


def parse_signature(name: str, value: object) -> bytes:
    """Bytes as ``parse_bytes``, or without 0x, as the REST node answers a signature.

    Raises:
        BadRequest: they are not.
    """
    bare = isinstance(value, str) and not value.startswith("0x")
    return parse_bytes(name, f"0x{value}" if bare else value)


def parse_prefixed(name: str, value: object) -> bytes:
    """Parse nothing (``0x``), or an address followed by data.

    Raises:
        BadRequest: it is neither.
    """
    data = parse_bytes(name, value)
    if 0 < len(data) < 20:
        raise BadRequest(f"{name}: neither 0x nor an address (20 bytes) with its data")
    return data


def _gas(name: str, value: object) -> int:
    return parse_number(name, value, UINT120_MAX)


def to_wire(value: Value) -> str:
    """A value as replies carry it: numbers and bytes in 0x hex, addresses in EIP-55."""
    if isinstance(value, int):
        return hex(value)
    return "0x" + value.hex() if isinstance(value, bytes) else value


def abbreviate(value: Value) -> str:
    """A value for an error message; a long one by its first bytes, length and hash."""
    text = to_wire(value)
    if not isinstance(value, bytes) or len(value) <= 128:
        return text
    return f"{text[:34]}... ({len(value)} bytes, keccak256 0x{keccak(value).hex()})"


@dataclass(frozen=True)
class Field:
    """Field of a UserOperation."""

    name: str
    abi_type: str
    parse: Callable[[str, object], Value]
    suppliers: tuple[Endpoint, ...]
    """The endpoints whose replies may supply it; none: the owner does."""
    default: str | None = None
    """Value for requests without it; None: a request must have it."""

    @property
    def camel(self) -> str:
        """The name as gas replies spell it."""
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)

    def key(self, endpoint: Endpoint) -> str:
        """The name as ``endpoint`` spells it in its reply."""
        return self.camel if endpoint.camel else self.name


_GAS_STEP = (Endpoint.GAS, Endpoint.SPONSOR)

FIELDS: Final[Mapping[str, Field]] = {
    field.name: field
    for field in (
        Field("sender", "address", parse_address, (Endpoint.ADDRESS, Endpoint.INFO)),
        Field("nonce", "uint256", parse_number, (Endpoint.NONCE, Endpoint.INFO)),
        Field("init_code", "bytes", parse_prefixed, (Endpoint.INIT, Endpoint.INFO), "0x"),
        Field("call_data", "bytes", parse_bytes, (Endpoint.EXECUTE,)),
        Field("call_gas_limit", "uint256", _gas, _GAS_STEP),
        Field("verification_gas_limit", "uint256", _gas, _GAS_STEP),
        Field("pre_verification_gas", "uint256", _gas, _GAS_STEP),
        Field("max_fee_per_gas", "uint256", _gas, _GAS_STEP),
        Field("max_priority_fee_per_gas", "uint256", _gas, _GAS_STEP),
        Field("paymaster_and_data", "bytes", parse_prefixed, (Endpoint.SPONSOR,), "0x"),
        Field("signature", "bytes", parse_signature, ()),
    )
}
"""Fields in the order of the EntryPoint's struct."""

_BY_CAMEL: Final = {
    field.camel: field.name for field in FIELDS.values() if field.camel != field.name
}

SIGNED: Final = tuple(name for name in FIELDS if name != "signature")
"""The fields that the userOpHash covers."""

GAS: Final = tuple(name for name in FIELDS if Endpoint.GAS in FIELDS[name].suppliers)
"""The fields that the gas step supplies, sponsored or not."""

UNPRICED: Final = ("sender", "nonce", "init_code", "call_data")
"""The fields that the gas step takes."""


def supplied_by(endpoint: Endpoint) -> tuple[Field, ...]:
    """The fields that an endpoint's reply may supply."""
    return tuple(field for field in FIELDS.values() if endpoint in field.suppliers)


def parse_fields(
    body: Mapping[str, object], required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Value]:
    """Read the named fields of a request; those left out take their defaults, if they have any.

    Raises:
        BadRequest: a field is missing, unknown or malformed; the message names it.
    """
    body = in_snake_case(body)
    if unknown := sorted(body.keys() - {*required, *optional}):
        raise BadRequest(f"{unknown[0]}: unknown field")
    found: dict[str, Value] = {}
    for name in required + optional:
        field = FIELDS[name]
        value = body.get(name, field.default)
        if value is not None:
            found[name] = field.parse(name, value)
        elif name in body or name in required:
            raise BadRequest(f"{name}: {'null' if name in body else 'missing'}")
    return found


def in_snake_case(body: Mapping[str, object]) -> dict[str, object]:
    """Return a request with the names of requests, where it has those of gas replies: so that a
    reply may be sent on as it is.

    Raises:
        BadRequest: a field is there in both spellings.
    """
    found = {**body}
    for key in body.keys() & _BY_CAMEL.keys():
        name = _BY_CAMEL[key]
        if name in body:
            raise BadRequest(f"{name}: there in both spellings")
        found[name] = found.pop(key)
    return found


def mapping_table() -> str:
    """The mapping of fields to endpoints as a Markdown table."""
    rows = ["| Field | Supplied by |", "|---|---|"]
    for field in FIELDS.values():
        suppliers = "; ".join(e.purpose for e in field.suppliers) or "the owner"
        rows.append(f"| `{field.name}` | {suppliers} |")
    return "\n".join(rows)
