"""Chains to run the flow on: the embedded one, and a real node where it is installed."""

from dataclasses import dataclass, field

import pytest
from eth_typing import ChecksumAddress
from eth_utils.address import to_checksum_address

from mpcsim.crypto.rng import SeededRng
from mpcsim.service.smart_account import setup
from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.client.client import ServiceTransport, SmartAccountClient
from mpcsim.service.smart_account.deployment import deploy_token, mint
from mpcsim.service.smart_account.service import SmartAccountService
from tests.helpers.anvil import ANVIL_KEY, anvil
from tests.helpers.coroutines import pytest_pyfunc_call  # noqa: F401

ETHER = 10**18


class PlainOwner:
    """An owner with a whole key: shares sign in the gateway's tests of the flow."""

    def __init__(self, name):
        self._key = setup.account(SeededRng(name).bytes(32))
        self.address = self._key.address

    def sign(self, message_hash):
        return bytes(self._key.unsafe_sign_hash(message_hash).signature)


@dataclass
class World:
    """A service on a chain, a token there, and a client."""

    name: str
    service: SmartAccountService
    token: ChecksumAddress
    client: SmartAccountClient = field(init=False)
    strangers: int = 0

    def __post_init__(self):
        self.client = SmartAccountClient(
            ServiceTransport(self.service), chain_id=self.service.chain.chain_id
        )

    @property
    def chain(self):
        return self.service.chain

    def stranger(self):
        """An address that nothing has happened to."""
        self.strangers += 1
        return to_checksum_address(SeededRng(f"stranger {self.strangers}").bytes(20))

    def account(self, owner):
        return self.service.owner_account(owner.address)

    def fund(self, address, amount=ETHER):
        self.service.bundler.pay(address, amount)

    def mint(self, to, amount):
        mint(self.service.bundler, self.token, to, amount)

    def view(self, address, abi, function, *args):
        """What a contract's view function returns, from the EVM itself."""
        return abi.result(function, self.chain.call(address, abi.call(function, *args)))

    def tokens(self, address):
        return self.view(self.token, contracts.token().abi, "balanceOf", address)

    def entry_point(self, function, *args):
        abi = contracts.entry_point().abi
        return self.view(self.service.deployment.entry_point, abi, function, *args)

    def deposit(self, address):
        return self.entry_point("balanceOf", address)

    def nonce(self, address):
        return self.entry_point("getNonce", address, 0)

    def state(self, *addresses):
        """All that an operation could change about the parties to it."""
        deployment = self.service.deployment
        looks = (self.chain.balance, self.chain.transaction_count, self.deposit, self.nonce)
        return [
            (*(look(address) for look in (*looks, self.tokens)), len(self.chain.code(address)))
            for address in (*addresses, self.service.bundler.address, deployment.paymaster)
        ]

    def run(self, owner, **wish):
        """A whole operation, signed by key shares."""
        flow = self.client.begin(owner.address, **wish)
        self.client.run(flow, owner.sign)
        return flow

    def until_send(self, owner, **wish):
        """An operation that is signed and not sent."""
        flow = self.client.begin(owner.address, **wish)
        while "signature" not in flow.fields:
            self.client.step(flow, owner.sign)
        return flow


def world(name, service):
    return World(name, service, deploy_token(service.bundler, service.deployment, "TST"))


@pytest.fixture(scope="session")
def anvil_url():
    """The address of a local node of its own."""
    with anvil() as url:
        yield url


@pytest.fixture(scope="session")
def embedded():
    """The chain in this process, the same in every run."""
    return world("embedded", setup.over_embedded_chain(rng=SeededRng("embedded chain")))


@pytest.fixture(scope="session")
def over_rpc(anvil_url):
    """A real node behind JSON-RPC."""
    service = setup.over_rpc(anvil_url, ANVIL_KEY)
    yield world("over_rpc", service)
    service.chain.close()


@pytest.fixture(params=["embedded", pytest.param("over_rpc", marks=pytest.mark.soak)])
def on(request):
    """Both chains, one after the other; the embedded one alone among the fast tests."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def new_owner():
    """Makes owners: the service does not see how a signature is made."""
    return PlainOwner


@pytest.fixture
def owner(request, new_owner):
    """A new owner for every test."""
    return new_owner(request.node.name)
