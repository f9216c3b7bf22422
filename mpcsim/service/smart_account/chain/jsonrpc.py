"""A chain behind a node's JSON-RPC interface (``CHAIN_RPC_URL``)."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import httpx
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_typing import ChecksumAddress
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes

from mpcsim.service.smart_account.chain.chain import (
    CALL_GAS,
    ZERO_ADDRESS,
    Check,
    Fees,
    Log,
    Outcome,
    Reverted,
    TransactionReceipt,
)
from mpcsim.service.smart_account.errors import ChainTimeout, ChainUnavailable

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
"""Seconds for the whole answer to one call."""

MAX_REPLY_BYTES: Final = 1 << 19
"""Highest size of one answer: a receipt with a thousand logs. Who asks for one of four thousand all
the time makes everybody's signatures ten times as slow, of this one hardly slower than of a small
one."""
IDENTITY: Final = {"Accept-Encoding": "identity"}

LOG_BLOCKS: Final = 10_000
"""Number of past blocks that are searched for logs: nodes bound the span of one query."""

_REVERTED: Final = 3
"""The error code of a reverted message call (EIP-1474's successors agree on it)."""

_HALTS: Final = ("revert", "out of gas", "outofgas", "invalid opcode", "invalid jump", "evm error")


class JsonRpcError(ChainUnavailable):
    """The node answered with an error."""

    def __init__(self, method: str, error: Mapping[str, Any]) -> None:
        self.code = error.get("code")
        self.text = str(error.get("message", ""))
        self.data = error.get("data")
        super().__init__(f"the chain's node refused {method}: {self.text}")


class JsonRpcChain:
    """The chain; for any number of threads, with connections that are kept alive.

    Raises:
        ChainUnavailable: from any method: no answer, one that makes no sense, or an error of the
            node's own.
        ChainTimeout: from any method: no answer in ``timeout_s``.
    """

    def __init__(
        self,
        url: str,
        *,
        client: httpx.Client | None = None,
        clock: Callable[[], float] = time.time,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._url = url
        self._clock = clock
        self._timeout_s = timeout_s
        # No proxy and no credentials of the environment: only where it was told to.
        self._client = client or httpx.Client(trust_env=False)
        self._ids = itertools.count(1)
        self.request("eth_chainId")  # is anybody there?

    def request(self, method: str, *params: object) -> Any:
        """Make one JSON-RPC call and return its result."""
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        status = 200
        try:
            status, received = self._post(body)
            reply = json.loads(received)
        except (httpx.HTTPError, ValueError, RecursionError) as failed:
            kind = ChainTimeout if isinstance(failed, httpx.TimeoutException) else ChainUnavailable
            why = type(failed).__name__ if status == 200 else f"HTTP status {status}"
            raise kind(f"the chain's node did not answer {method}: {why}") from None
        match reply:
            case {"error": dict(error)}:
                raise JsonRpcError(method, error)
            case {"result": result, **rest} if rest.get("error") is None:
                return result
        raise ChainUnavailable(f"the chain's node did not answer {method} in JSON-RPC")

    def _post(self, body: Mapping[str, object], within_s: float | None = None) -> tuple[int, bytes]:
        """Return status and whole answer, as it was sent.

        Nothing is decompressed, which could make anything of a little. httpx bounds each wait for
        a part of it, neither their sum nor their size.
        """
        within_s, received = within_s or self._timeout_s, bytearray()
        until = time.monotonic() + within_s
        with self._client.stream(
            "POST", self._url, json=body, timeout=within_s, headers=IDENTITY
        ) as response:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise httpx.DecodingError("encoded")
            for chunk in response.iter_bytes():
                received += chunk
                if len(received) > MAX_REPLY_BYTES:
                    raise httpx.DecodingError("too long")
                if time.monotonic() > until:
                    raise httpx.ReadTimeout("in parts")
        return response.status_code, bytes(received)

    def _ask(self, read: Callable[[Any], T], method: str, *params: object) -> T:
        """The same, with the result as ``read`` understands it."""
        result = self.request(method, *params)
        try:
            return read(result)
        except (TypeError, ValueError, LookupError, AttributeError):
            raise ChainUnavailable(
                f"the chain's node answered {method} with something else"
            ) from None

    @property
    def chain_id(self) -> int:
        """Chain id, asked anew every time: a node may have been restarted as another chain."""
        return self._ask(_number, "eth_chainId")

    def close(self) -> None:
        self._client.close()

    def call(
        self,
        to: ChecksumAddress,
        data: bytes,
        *,
        sender: ChecksumAddress = ZERO_ADDRESS,
        balances: Mapping[ChecksumAddress, int] | None = None,
    ) -> bytes:
        message = {"from": sender, "to": to, "data": _hex(data), "gas": hex(CALL_GAS)}
        overrides = {
            address: {"balance": hex(balance)} for address, balance in (balances or {}).items()
        }
        return self._call(message, *([overrides] if overrides else []))

    def code(self, address: ChecksumAddress) -> bytes:
        return self._ask(_bytes, "eth_getCode", address, "latest")

    def balance(self, address: ChecksumAddress) -> int:
        return self._ask(_amount, "eth_getBalance", address, "latest")

    def transaction_count(self, address: ChecksumAddress) -> int:
        return self._ask(_number, "eth_getTransactionCount", address, "pending")

    def fees(self) -> Fees:
        base_fee = self._ask(_next_base_fee, "eth_feeHistory", hex(1), "latest", [])
        return Fees(base_fee, self._ask(_fee, "eth_maxPriorityFeePerGas"))

    def timestamp(self) -> int:
        newest = self._ask(_timestamp, "eth_getBlockByNumber", "latest", False)
        # A development chain that nobody uses makes no blocks: its newest may be old.
        return max(newest, int(self._clock()))

    def send_raw(self, raw: bytes, check: Check | None = None) -> bytes:
        if check is not None:
            check(self._outcome(raw))
        return self._ask(_bytes, "eth_sendRawTransaction", _hex(raw))

    def _outcome(self, raw: bytes) -> Outcome:
        """Return the outcome of a typed transaction by simulating it. A message call shows no
        events."""
        fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        message = {
            "from": Account.recover_transaction(raw),
            "to": _hex(fields["to"]),
            "data": _hex(fields["data"]),
            "value": hex(fields["value"]),
            "gas": hex(fields["gas"]),
        }
        try:
            return Outcome(True, self._call(message), None)
        except Reverted as reverted:
            return Outcome(False, reverted.data, None)

    def _call(self, message: Mapping[str, str], *overrides: object) -> bytes:
        try:
            return self._ask(_bytes, "eth_call", message, "latest", *overrides)
        except JsonRpcError as failed:
            raise _reverted(failed) or failed from None

    def receipt(self, transaction_hash: bytes) -> TransactionReceipt | None:
        return self._ask(_receipt, "eth_getTransactionReceipt", _hex(transaction_hash))

    def logs(self, address: ChecksumAddress, topics: Sequence[bytes]) -> list[Log]:
        newest = self._ask(_number, "eth_blockNumber")
        wanted = {
            "address": address,
            "topics": [_hex(topic) for topic in topics],
            "fromBlock": hex(max(0, newest - LOG_BLOCKS + 1)),
            "toBlock": "latest",
        }
        return self._ask(_logs, "eth_getLogs", wanted)


def _reverted(failed: JsonRpcError) -> Reverted | None:
    """The revert that a node reports as an error; None for any other error.

    Nodes disagree on the shape: the data stands alone, inside an object, or is missing.
    """
    data = failed.data.get("data") if isinstance(failed.data, dict) else failed.data
    if isinstance(data, str) and (start := data.find("0x")) >= 0:
        try:
            return Reverted(bytes.fromhex(data[start + 2 :]))
        except ValueError:
            pass  # of no form we know
    if failed.code == _REVERTED or any(halt in failed.text.lower() for halt in _HALTS):
        return Reverted(b"")
    return None


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _number(text: str, bits: int = 64) -> int:
    """Read a number; what no node can mean would meet its limits anywhere else.

    Raises:
        ValueError: it is none, or of more bits.
    """
    number = int(text, 16)
    if not 0 <= number < 1 << bits:
        raise ValueError("out of range")
    return number


def _amount(text: str) -> int:
    return _number(text, 256)


def _fee(text: str) -> int:
    return _number(text, 96)


def _next_base_fee(history: Mapping[str, Any]) -> int:
    return _fee(history["baseFeePerGas"][-1])


def _timestamp(block: Mapping[str, Any]) -> int:
    return _number(block["timestamp"], 40)


def _logs(entries: Sequence[Mapping[str, Any]]) -> list[Log]:
    return [_log(entry) for entry in entries]


def _log(entry: Mapping[str, Any]) -> Log:
    return Log(
        address=to_checksum_address(entry["address"]),
        topics=tuple(_bytes(topic) for topic in entry["topics"]),
        data=_bytes(entry["data"]),
        block_number=_number(entry["blockNumber"]),
        transaction_hash=_bytes(entry["transactionHash"]),
        index=_number(entry["logIndex"]),
    )


def _receipt(entry: Mapping[str, Any] | None) -> TransactionReceipt | None:
    if entry is None:
        return None
    to, created = entry.get("to"), entry.get("contractAddress")
    return TransactionReceipt(
        transaction_hash=_bytes(entry["transactionHash"]),
        transaction_index=_number(entry["transactionIndex"]),
        block_hash=_bytes(entry["blockHash"]),
        block_number=_number(entry["blockNumber"]),
        sender=to_checksum_address(entry["from"]),
        to=to_checksum_address(to) if to else None,
        contract_address=to_checksum_address(created) if created else None,
        success=entry["status"] == "0x1",
        gas_used=_number(entry["gasUsed"]),
        cumulative_gas_used=_number(entry["cumulativeGasUsed"]),
        effective_gas_price=_fee(entry["effectiveGasPrice"]),
        logs=tuple(_logs(entry["logs"])),
        logs_bloom=_bytes(entry["logsBloom"]),
    )
