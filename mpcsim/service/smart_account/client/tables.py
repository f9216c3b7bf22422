"""Tables of operations, balances and receipts for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eth_typing import ChecksumAddress

from mpcsim.errors import UsageError
from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import ZERO_ADDRESS
from mpcsim.service.smart_account.client.client import Flow
from mpcsim.service.smart_account.operation.fields import FIELDS, to_wire
from mpcsim.service.smart_account.service import SmartAccountService
from mpcsim.sim.rich_display import Table

ETHER: Final = 10**18
"""Wei in one ether."""

_SHORT: Final = 44


class View(Table):
    """A table that shows itself."""

    def __repr__(self) -> str:
        return self.text("")

    def _repr_html_(self) -> str:
        return self.html()


def ether(wei: int) -> str:
    """An amount in ether, with every digit that counts."""
    whole, rest = divmod(abs(wei), ETHER)
    digits = f"{rest:018d}".rstrip("0")
    return f"{'-' if wei < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def fields_view(flow: Flow) -> View:
    """The fields that an operation has so far: value, length, and who supplied it."""
    rows = []
    for name in FIELDS:
        if name not in flow.fields:
            continue
        value = flow.fields[name]
        supplier = flow.provenance.get(name)
        rows.append(
            (
                name,
                brief(str(value) if isinstance(value, int) else to_wire(value)),
                f"{len(value)} bytes" if isinstance(value, bytes) else "",
                supplier.purpose if supplier else "the owner",
            )
        )
    return View(("field", "value", "length", "supplied by"), rows, frozenset({"length"}))


@dataclass(frozen=True)
class Balance:
    """Balance of an address: coin and deposit at the EntryPoint in wei, and units of a token."""

    coin: int
    deposit: int
    tokens: int


Balances = Mapping[str, Balance]
"""Balances by name."""


def balances(
    service: SmartAccountService,
    addresses: Mapping[str, ChecksumAddress],
    token: ChecksumAddress,
) -> dict[str, Balance]:
    """Return the balances of named addresses, from the chain itself."""
    chain, entry_point = service.chain, service.deployment.entry_point

    def held(at: ChecksumAddress, abi: contracts.Abi, owner: ChecksumAddress) -> int:
        amount: int = abi.view(chain, at, "balanceOf", owner)
        return amount

    return {
        name: Balance(
            chain.balance(address),
            held(entry_point, contracts.entry_point().abi, address),
            held(token, contracts.token().abi, address),
        )
        for name, address in addresses.items()
    }


def balances_view(before: Balances, after: Balances) -> View:
    """Return a table of the changes between two moments; balances that are zero in both are left
    out."""
    rows = []
    for name in after:
        for what, unit, show in (
            ("coin", "ETH", ether),
            ("deposit", "ETH", ether),
            ("tokens", "units", str),
        ):
            old, new = getattr(before[name], what), getattr(after[name], what)
            if old or new:
                change = ("+" if new > old else "") + show(new - old) if new != old else "="
                rows.append((name, f"{what} ({unit})", show(old), show(new), change))
    columns = ("whose", "what", "before", "after", "change")
    return View(columns, rows, frozenset({"before", "after", "change"}))


def receipt_view(flow: Flow) -> View:
    """Return a table of an operation's receipt.

    Raises:
        UsageError: it is in no block yet.
    """
    receipt = receipt_of(flow)
    sponsored = receipt["paymaster"] != ZERO_ADDRESS
    cost, used = int(receipt["actual_gas_cost"], 16), int(receipt["actual_gas_used"], 16)
    rows = [
        ("status", receipt["status"]),
        ("block", str(int(receipt["receipt"]["block_number"], 16))),
        ("userOpHash", receipt["user_op_hash"]),
        ("gas charged", f"{used:,}"),
        ("fee", f"{ether(cost)} ETH"),
        ("paid by", f"paymaster {receipt['paymaster']}" if sponsored else "the account itself"),
        ("bundle's gas", f"{int(receipt['receipt']['gas_used'], 16):,}"),
    ]
    if receipt["reason"]:
        rows.insert(1, ("reason", receipt["reason"]))
    return View(("receipt", ""), rows)


def events_view(flow: Flow, names: Mapping[ChecksumAddress, str]) -> View:
    """Return a table of the events in the operation's transaction; ``names`` of addresses.

    Raises:
        UsageError: it is in no block yet.
    """
    known = {address.lower(): name for address, name in names.items()}
    rows = []
    for log in receipt_of(flow)["receipt"]["logs"]:
        topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
        name, args = _event(topics, bytes.fromhex(log["data"][2:]))
        who = known.get(log["address"].lower(), log["address"])
        rows.append((who, name, ", ".join(_argument(arg, known) for arg in args)))
    return View(("contract", "event", "arguments"), rows)


def receipt_of(flow: Flow) -> dict[str, Any]:
    """The receipt of an operation that is in a block.

    Raises:
        UsageError: it is in none yet.
    """
    if flow.receipt is None or flow.receipt["actual_gas_used"] is None:
        raise UsageError("the operation is in no block yet")
    return flow.receipt


def _event(topics: list[bytes], data: bytes) -> tuple[str, tuple[Any, ...]]:
    for contract in (contracts.entry_point(), contracts.account(), contracts.token()):
        found = contract.abi.event(topics, data)
        if found is not None:
            return found
    return "?", (data,)


def _argument(value: object, names: Mapping[str, str]) -> str:
    if isinstance(value, bytes):
        return brief("0x" + value.hex(), 12)
    if isinstance(value, str):
        return names.get(value.lower(), brief(value, 12))
    return str(value)


def brief(text: str, longest: int = _SHORT) -> str:
    """The text, or its beginning and its last four characters."""
    return text if len(text) <= longest else f"{text[: longest - 4]}...{text[-4:]}"
