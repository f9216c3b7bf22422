"""Deployment of the contracts on a chain, where they are not there already.

The EntryPoint and the account factory go through the deterministic deployment proxy with salt 0,
as on every public chain: CREATE2 over the packages' creation code gives exactly their well-known
addresses, which is the proof that the code is the same, and the EntryPoint's constructor makes its
SenderCreator where it is everywhere. The paymaster is the first transaction of its signer, who owns
it, so its address follows from the signer's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_typing import ChecksumAddress
from eth_utils.address import to_canonical_address, to_checksum_address
from eth_utils.crypto import keccak

from mpcsim.errors import UsageError
from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import Chain
from mpcsim.service.smart_account.chain.transactions import TransactionSender

ENTRY_POINT: Final = to_checksum_address("0x5FF137D4b0FDCD49DcA30c7CF57E578a026d2789")
"""The EntryPoint v0.6 on every chain."""

PROXY: Final = to_checksum_address("0x4e59b44847b379578588920cA78FbF26c0B4956C")
"""The deterministic deployment proxy: calldata is a salt and creation code, it does CREATE2."""

# Signed once and for all by nobody's key, for every chain: whoever broadcasts it makes the proxy.
PROXY_TRANSACTION: Final = bytes.fromhex(
    "f8a58085174876e800830186a08080b853604580600e600039806000f350fe"
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe0"
    "3601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
    "1ba02222222222222222222222222222222222222222222222222222222222222222"
    "a02222222222222222222222222222222222222222222222222222222222222222"
)
PROXY_COST: Final = 100_000 * 100 * 10**9
"""Highest cost of that transaction, in wei."""

SALT: Final = bytes(32)

CREATION_GAS: Final = 6_000_000
DEPOSIT_GAS: Final = 100_000
DEFAULT_DEPOSIT: Final = 10**18


@dataclass(frozen=True)
class Deployment:
    """Addresses of the contracts."""

    entry_point: ChecksumAddress
    factory: ChecksumAddress
    paymaster: ChecksumAddress


def deploy(
    funder: TransactionSender, sponsor: LocalAccount, *, deposit: int = DEFAULT_DEPOSIT
) -> Deployment:
    """Deploy what is missing and top the paymaster's deposit up to ``deposit`` wei.

    Raises:
        UsageError: the contracts are not installed, or the sponsor's account is not a fresh one.
        Refused, ChainUnavailable: a transaction failed.
    """
    chain = funder.chain
    _deploy_proxy(funder)
    entry_point = _deploy_through_proxy(funder, contracts.entry_point().creation())
    if entry_point != ENTRY_POINT:
        raise UsageError(f"the installed EntryPoint is not v0.6: it would be at {entry_point}")
    factory = _deploy_through_proxy(funder, contracts.account_factory().creation(entry_point))
    paymaster = _deploy_paymaster(funder, sponsor, entry_point)
    held = _deposit_of(chain, entry_point, paymaster)
    if held < deposit:
        call = contracts.entry_point().abi.call("depositTo", paymaster)
        funder.execute(entry_point, call, gas=DEPOSIT_GAS, value=deposit - held)
    return Deployment(entry_point, factory, paymaster)


def deploy_token(owner: TransactionSender, deployment: Deployment, symbol: str) -> ChecksumAddress:
    """An ERC-20 token that ``owner`` can mint; its address."""
    creation = contracts.token().creation(deployment.factory, symbol, deployment.entry_point)
    created = owner.execute(None, creation, gas=CREATION_GAS).contract_address
    if created is None:
        raise UsageError("the chain's receipt of a creation names no contract")
    return created


def mint(
    owner: TransactionSender, token: ChecksumAddress, to: ChecksumAddress, amount: int
) -> None:
    """Make ``amount`` of the token's smallest units for ``to``."""
    owner.execute(token, contracts.token().abi.call("mintTokens", to, amount), gas=DEPOSIT_GAS)


def _deploy_proxy(funder: TransactionSender) -> None:
    chain = funder.chain
    if chain.code(PROXY):
        return
    signer = to_checksum_address(Account.recover_transaction(PROXY_TRANSACTION))
    if (missing := PROXY_COST - chain.balance(signer)) > 0:
        funder.pay(signer, missing)
    funder.wait(chain.send_raw(PROXY_TRANSACTION))


def _deploy_through_proxy(funder: TransactionSender, creation: bytes) -> ChecksumAddress:
    # CREATE2 (EIP-1014).
    parts = b"\xff" + to_canonical_address(PROXY) + SALT + keccak(creation)
    address = to_checksum_address(keccak(parts)[12:])
    if not funder.chain.code(address):
        funder.execute(PROXY, SALT + creation, gas=CREATION_GAS)
    return address


def _deploy_paymaster(
    funder: TransactionSender, sponsor: LocalAccount, entry_point: ChecksumAddress
) -> ChecksumAddress:
    chain = funder.chain
    # CREATE by an account's first transaction: RLP of its address and nonce 0.
    address = to_checksum_address(
        keccak(b"\xd6\x94" + to_canonical_address(sponsor.address) + b"\x80")[12:]
    )
    if chain.code(address):
        return address
    if chain.transaction_count(sponsor.address):
        raise UsageError("the sponsor's account has sent transactions, none of which made it one")
    cost = CREATION_GAS * chain.fees().maximum
    if (missing := cost - chain.balance(sponsor.address)) > 0:
        funder.pay(sponsor.address, missing)
    creation = contracts.paymaster().creation(entry_point, sponsor.address)
    TransactionSender(chain, sponsor).execute(None, creation, gas=CREATION_GAS)
    return address


def _deposit_of(chain: Chain, entry_point: ChecksumAddress, account: ChecksumAddress) -> int:
    held: int = contracts.entry_point().abi.view(chain, entry_point, "balanceOf", account)
    return held
