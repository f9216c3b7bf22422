"""Ready-made services: over a chain in this process, one in its own process, or somebody's node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_typing import ChecksumAddress
from eth_utils.crypto import keccak

from mpcsim.crypto.rng import Rng, SystemRng
from mpcsim.errors import UsageError, needs_extra
from mpcsim.service.smart_account.chain.anvil import GAS_OF_USER, AnvilChain
from mpcsim.service.smart_account.chain.chain import DEFAULT_CHAIN_ID
from mpcsim.service.smart_account.chain.jsonrpc import JsonRpcChain
from mpcsim.service.smart_account.deployment import DEFAULT_DEPOSIT
from mpcsim.service.smart_account.errors import BadRequest, ChainUnavailable
from mpcsim.service.smart_account.operation.fields import parse_address
from mpcsim.service.smart_account.service import SmartAccountService

BUNDLER_BALANCE: Final = 10**24
"""A million coins, in wei: the bundler of a chain of our own is also its faucet."""

EMBEDDED_DEPOSIT: Final = 1_000 * 10**18

Balances = Mapping[ChecksumAddress, int]
"""Balances in wei."""


def over_embedded_chain(
    *,
    rng: Rng | None = None,
    chain_id: int = DEFAULT_CHAIN_ID,
    clock: Callable[[], float] | None = None,
) -> SmartAccountService:
    """A service over a fresh chain in this process; see ``EmbeddedChain`` for the clock.

    Raises:
        UsageError: the contracts are not installed.
    """
    with needs_extra("workbench", "a chain in this process"):
        from mpcsim.service.smart_account.chain.embedded import EmbeddedChain

    bundler, sponsor, balances = _fresh_accounts(rng)
    chain = EmbeddedChain(balances, chain_id=chain_id, clock=clock)
    return SmartAccountService(
        chain, bundler, sponsor, deposit=EMBEDDED_DEPOSIT, now=chain.timestamp
    )


def over_own_process(
    *, rng: Rng | None = None, budget: int | None = None, address_file: Path | None = None
) -> SmartAccountService:
    """Return a service over an empty chain in a process of its own (see ``AnvilChain``).

    Raises:
        UsageError: the contracts or anvil are not installed.
        ChainUnavailable: the process does not start.
    """
    bundler, sponsor, balances = _fresh_accounts(rng)
    chain = AnvilChain(balances, address_file=address_file)
    try:
        return SmartAccountService(
            chain,
            bundler,
            sponsor,
            deposit=EMBEDDED_DEPOSIT,
            budget=budget,
            gas_budget=GAS_OF_USER,
        )
    except BaseException:
        chain.close()
        raise


def over_rpc(url: str, bundler_key: bytes, *, budget: int | None = None) -> SmartAccountService:
    """A service over the node at ``url``; the account of ``bundler_key`` has coin there.

    It pays for what is missing: contracts, and the paymaster's deposit. The
    paymaster's signer follows from the same key, so a restart finds the same paymaster.

    Raises:
        UsageError: the contracts are not installed, or the key is none.
        ChainUnavailable: the node does not answer.
    """
    sponsor_key = keccak(b"mpcsim/smart-account/sponsor/v1" + bundler_key)
    return SmartAccountService(
        JsonRpcChain(url),
        account(bundler_key),
        account(sponsor_key),
        deposit=DEFAULT_DEPOSIT,
        budget=budget,
    )


def give_coins(address_file: Path, address: str, wei: int) -> int:
    """Add coins to an account of the chain that a gateway runs; return its new balance in wei.

    Args:
        address_file: the gateway's.

    Raises:
        UsageError: the address is none, or no gateway runs a chain of its own there.
    """
    try:
        to = parse_address("address", address)
        with closing(JsonRpcChain(address_file.read_text())) as chain:
            if str(chain.request("web3_clientVersion")).startswith("anvil/"):
                balance = chain.balance(to) + wei
                chain.request("anvil_setBalance", to, hex(balance))
                return balance
    except BadRequest as error:
        raise UsageError(str(error)) from None
    except (OSError, ChainUnavailable):
        pass
    raise UsageError(
        f"no gateway of {address_file.parent} runs a chain of its own: it starts one at the first "
        "smart-account request, unless CHAIN_RPC_URL names a chain, where nobody is given coins"
    )


def _fresh_accounts(rng: Rng | None) -> tuple[LocalAccount, LocalAccount, Balances]:
    """Return a bundler, a paymaster's signer, and what a chain of our own begins with."""
    rng = rng or SystemRng()
    bundler, sponsor = account(rng.bytes(32)), account(rng.bytes(32))
    return bundler, sponsor, {bundler.address: BUNDLER_BALANCE}


def account(private_key: bytes) -> LocalAccount:
    """An account of the chain that holds its whole key: for bundlers and sponsors, not for owners.

    Raises:
        UsageError: it is not a private key.
    """
    try:
        made: LocalAccount = Account.from_key(private_key)
    except Exception:  # eth-keys has several kinds; none may show the key
        raise UsageError("not a secp256k1 private key of 32 bytes") from None
    return made
