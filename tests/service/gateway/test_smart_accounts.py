"""The six steps of a user operation, over the gateway's endpoints, with a key that no one holds."""

import asyncio
import threading
from contextlib import ExitStack, contextmanager
from unittest.mock import AsyncMock, Mock

import httpx
import pytest

from mpcsim.service.gateway.api.openapi import describe_gateway
from mpcsim.service.gateway.api.smart_accounts import SmartAccounts, over_rpc
from mpcsim.service.operations.supervisor import free_port
from mpcsim.service.smart_account.client.client import HttpTransport, SmartAccountClient
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import ChainTimeout
from mpcsim.service.smart_account.operation.fields import UNPRICED
from mpcsim.service.vault import Argon2Cost
from node.local import LocalService
from tests.helpers.anvil import ANVIL_KEY, anvil
from tests.helpers.documented import Documented
from tests.helpers.tiers import fast_few
from tests.service.smart_account.conftest import PlainOwner

CURVE = "secp256k1"
RECIPIENT = "0x000000000000000000000000000000000000bEEF"


@pytest.fixture(scope="module")
def service():
    with LocalService(cost=Argon2Cost(1, 8)) as opened:
        yield opened


DOCUMENTED = Documented(describe_gateway("", []))


def as_documented(answer):
    """Whatever the flow is answered is as the gateway's own document says."""
    answer.read()
    DOCUMENTED.check(answer)


class Owner:
    """A user with a key, who signs through the node."""

    def __init__(self, service, name):
        self.node = service.user(name)
        gateway = service.gateway_user(name)
        gateway.event_hooks["response"].append(as_documented)
        self.flow = SmartAccountClient(HttpTransport(gateway))
        body = {"curve": CURVE, "password": "correct horse"}
        self.share = self.node.post("/v3/wallet/generate", json=body).json()
        wallets = self.node.get("/v3/wallet").json()["wallets"]
        self.address = wallets[0]["address"]["evm"]

    def sign(self, message_hash):
        body = {**self.share, "message": message_hash.hex()}
        answer = self.node.post("/v3/wallet/sign", json=body)
        assert answer.status_code == 200, answer.text
        return bytes.fromhex(answer.json()["signature"])


def test_operations_of_a_shared_key(service):
    alice = Owner(service, "alice")
    chain = service.gateway.smart_accounts.service()
    account = chain.owner_account(alice.address)
    chain.bundler.pay(account, 10**18)
    for n, sponsored in enumerate([True, False, True]):
        flow = alice.flow.begin(alice.address, to=RECIPIENT, value=10**15, sponsored=sponsored)
        alice.flow.run(flow, alice.sign)
        assert flow.receipt is not None
        assert flow.receipt["status"] == "included"
        assert flow.receipt["sender"] == account
        assert chain.chain.balance(RECIPIENT) == (n + 1) * 10**15
    assert len(DOCUMENTED.seen) >= 6


# ---------------------------------------------------------------------- a chain begun anew


@contextmanager
def on_node(url):
    """A service whose chain is that node's."""
    chain = over_rpc(url, ANVIL_KEY.hex())
    with LocalService(smart_accounts=chain, clock="real") as service:
        yield service


def ask(client, endpoint, **request):
    body = request if endpoint.method == "POST" else None
    return client.request(endpoint.method, endpoint.path.format(**request), json=body)


def operation(client, chain_id=31337):
    """A whole sponsored operation; its receipt."""
    flow_client, owner = (
        SmartAccountClient(HttpTransport(client), chain_id=chain_id),
        PlainOwner("payer"),
    )
    flow = flow_client.begin(owner.address, to=RECIPIENT, sponsored=True)
    return dict(flow_client.run(flow, owner.sign))


@pytest.mark.few(2)
@pytest.mark.parametrize("first", fast_few((e for e in Endpoint if e is not Endpoint.EXECUTE), 3))
def test_a_chain_that_lost_its_contracts_gets_them_again(first):
    with anvil() as url, on_node(url) as service:
        client = service.gateway_user("alice")
        flow_client, owner = SmartAccountClient(HttpTransport(client)), PlainOwner("payer")
        flow = flow_client.begin(owner.address, to=RECIPIENT, sponsored=True)
        while "signature" not in flow.fields:
            flow_client.step(flow, owner.sign)
        fields, of_owner = flow._body(), {"address": owner.address}
        unpriced = {name: fields[name] for name in UNPRICED}
        requests = {
            Endpoint.ADDRESS: of_owner,
            Endpoint.INFO: of_owner,
            Endpoint.NONCE: of_owner,
            Endpoint.INIT: {"owner": owner.address},
            Endpoint.GAS: unpriced,
            Endpoint.SPONSOR: unpriced,
            Endpoint.DIGEST: {name: fields[name] for name in fields if name != "signature"},
            Endpoint.SEND: fields,
            Endpoint.RECEIPT: {"result": flow.result},
        }
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "anvil_reset", "params": []}
        assert httpx.post(url, json=rpc).json()["result"] is None

        answer = ask(client, first, **requests[first])

        if first in (Endpoint.SEND, Endpoint.RECEIPT):
            # The operation was one of the old chain; a new one may ask for more than it pays.
            assert answer.status_code == 404 or "max_fee_per_gas" in answer.text, answer.text
            assert list(answer.json()) == ["error"]
        elif first is not Endpoint.DIGEST:  # the operation's digest is the same on any such chain
            assert answer.status_code == 200, answer.text
        assert operation(client)["status"] == "included"


def test_a_node_that_comes_back_as_another_chain():
    port = free_port()
    with ExitStack() as gateway:
        with anvil(port=port) as url:
            client = gateway.enter_context(on_node(url)).gateway_user("alice")
            assert [operation(client)["nonce"] for _ in range(2)] == ["0x0", "0x1"]
        answer = ask(client, Endpoint.NONCE, address=RECIPIENT)
        assert (answer.status_code, list(answer.json())) == (502, ["error"])
        with anvil("--chain-id", "4242", port=port):
            assert operation(client, chain_id=4242)["nonce"] == "0x0"


def test_a_service_that_cannot_be_made_is_tried_once_for_all_who_wait():
    tried, failing = [], threading.Event()

    def make():
        tried.append(True)
        failing.wait(60)
        raise ChainTimeout("the chain's node did not answer")

    accounts = SmartAccounts(make)
    (attempt,) = {accounts._current_attempt() for _ in range(4)}
    failing.set()
    assert isinstance(attempt.exception(60), ChainTimeout)
    assert len(tried) == 1
    with pytest.raises(ChainTimeout):
        accounts.service()
    assert len(tried) == 2, "a later request tries again"


async def test_whoever_comes_first_gets_the_router_that_holds_the_users_places():
    mount = SmartAccounts(None).route(None).app
    mount._load = Mock(side_effect=AsyncMock)
    await asyncio.gather(*(mount({}, None, None) for _ in range(2)))
    assert mount._load.call_count == 1
