"""The compiled contracts, read from the installed npm package, and their ABIs.

``python -m mpcsim.service.smart_account.install`` puts the package into the Python environment;
nothing of it is part of this one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_typing import ChecksumAddress
from eth_utils.abi import collapse_if_tuple
from eth_utils.crypto import keccak

from mpcsim.errors import UsageError
from mpcsim.service.smart_account.chain.chain import Chain, Reverted
from mpcsim.service.smart_account.errors import NoContract

INSTALLED: Final = Path(sys.prefix) / "share" / "mpcsim" / "npm"
"""Folder of the installed npm packages."""

PACKAGE: Final = "@account-abstraction/contracts"

_PANICS: Final = {
    0x01: "an assertion failed",
    0x11: "arithmetic overflow",
    0x12: "division by zero",
    0x32: "index out of bounds",
}


@dataclass(frozen=True)
class Signature:
    """A function, event, error or constructor: its name and types."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    indexed: tuple[bool, ...] = ()

    @property
    def hash(self) -> bytes:
        """Keccak-256 of the signature: the event's topic; its first four bytes: the selector."""
        return keccak(f"{self.name}({','.join(self.inputs)})".encode())


class Abi:
    """Application binary interface of a contract."""

    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self._functions: dict[str, Signature] = {}
        self._events: dict[bytes, Signature] = {}
        self._errors = {known.hash[:4]: known for known in (_ERROR, _PANIC)}
        self._constructor = Signature("", ())
        self._selectors: dict[str, bytes] = {}
        for item in items:
            signature = _signature(item)
            match item["type"]:
                case "function":
                    self._functions[signature.name] = signature
                    self._selectors[signature.name] = signature.hash[:4]
                case "event":
                    self._events[signature.hash] = signature
                case "error":
                    self._errors[signature.hash[:4]] = signature
                case "constructor":
                    self._constructor = signature

    def call(self, function: str, *args: object) -> bytes:
        """The calldata of a call."""
        return self._selectors[function] + encode(self._functions[function].inputs, args)

    def result(self, function: str, data: bytes) -> Any:
        """Return the decoded result of a call: one value, or a tuple of several."""
        values = decode(self._functions[function].outputs, data)
        return values[0] if len(values) == 1 else values

    def view(self, chain: Chain, address: ChecksumAddress, function: str, *args: object) -> Any:
        """Return the result of a view function of the contract at ``address``.

        Raises:
            NoContract: none is there, or another one.
        """
        try:
            return self.result(function, chain.call(address, self.call(function, *args)))
        except (Reverted, DecodingError):
            raise NoContract(address) from None

    def constructor(self, *args: object) -> bytes:
        """The constructor's arguments, to be appended to the creation code."""
        return encode(self._constructor.inputs, args)

    def topic(self, event: str) -> bytes:
        """The first topic of an event's logs."""
        (found,) = (topic for topic, known in self._events.items() if known.name == event)
        return found

    def event(self, topics: Sequence[bytes], data: bytes) -> tuple[str, tuple[Any, ...]] | None:
        """Name and arguments of a log, in the order of declaration; None for an unknown one."""
        known = self._events.get(topics[0]) if topics else None
        if known is None:
            return None
        pairs = list(zip(known.inputs, known.indexed, strict=True))
        rest = iter(decode([kind for kind, indexed in pairs if not indexed], data))
        topic = iter(topics[1:])
        return known.name, tuple(
            decode([kind], next(topic))[0] if indexed else next(rest) for kind, indexed in pairs
        )

    def error(self, data: bytes) -> tuple[str, tuple[Any, ...]] | None:
        """Name and arguments of a revert; None for an unknown one."""
        known = self._errors.get(data[:4])
        if known is None:
            return None
        try:
            return known.name, decode(known.inputs, data[4:])
        except (DecodingError, UnicodeDecodeError, OverflowError):  # a contract may say anything
            return None

    def reason(self, data: bytes) -> str:
        """A revert in words: the EntryPoint's code (AA21, ...), or the contract's own reason."""
        match self.error(data):
            case ("FailedOp", (_, text)) | ("Error", (text,)):
                return str(text)
            case ("Panic", (code,)):
                return f"panic 0x{code:02x}: {_PANICS.get(code, 'see the Solidity manual')}"
            case (name, args):
                return f"{name}{args}"
            case _:
                return f"reverted with 0x{data.hex()}" if data else "reverted without a reason"


def _signature(item: Mapping[str, Any]) -> Signature:
    inputs = item.get("inputs", ())
    return Signature(
        item.get("name", ""),
        tuple(collapse_if_tuple(entry) for entry in inputs),
        tuple(collapse_if_tuple(entry) for entry in item.get("outputs", ())),
        tuple(entry.get("indexed", False) for entry in inputs),
    )


_ERROR: Final = Signature("Error", ("string",))
_PANIC: Final = Signature("Panic", ("uint256",))


@dataclass(frozen=True)
class Artifact:
    """Compiled contract."""

    abi: Abi
    creation_code: bytes
    runtime_code: bytes
    """Code with zeros where the constructor writes immutable values."""

    def creation(self, *args: object) -> bytes:
        """The creation code with the constructor's arguments."""
        return self.creation_code + self.abi.constructor(*args)


@cache
def artifact(name: str) -> Artifact:
    """A contract of the installed package, by name.

    Raises:
        UsageError: the package is not installed.
    """
    path = INSTALLED / "node_modules" / PACKAGE / "artifacts" / f"{name}.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"the compiled contracts ({PACKAGE}) are not installed in this Python environment; "
            "run: python -m mpcsim.service.smart_account.install"
        ) from None
    return Artifact(
        Abi(data["abi"]),
        bytes.fromhex(data["bytecode"][2:]),
        bytes.fromhex(data["deployedBytecode"][2:]),
    )


def entry_point() -> Artifact:
    """The singleton EntryPoint, v0.6."""
    return artifact("EntryPoint")


def account() -> Artifact:
    """SimpleAccount: one owner, ``personal_sign``."""
    return artifact("SimpleAccount")


def account_factory() -> Artifact:
    """SimpleAccountFactory."""
    return artifact("SimpleAccountFactory")


def paymaster() -> Artifact:
    """VerifyingPaymaster: pays for what its signer has signed."""
    return artifact("VerifyingPaymaster")


def token() -> Artifact:
    """An ERC-20 token that its owner can mint, to call in experiments.

    The package's TokenPaymaster is one; its other half is not used here.
    """
    return artifact("TokenPaymaster")
