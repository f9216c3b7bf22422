"""The six steps of a user operation, over the gateway's endpoints, with a key that no one holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mpcsim.errors import UsageError
from mpcsim.gateway.smart_accounts import over_rpc
from mpcsim.smart_account.client import HttpTransport, RequestRefused, SmartAccountClient
from mpcsim.vault import Argon2Cost
from node.local import LocalService

CURVE = "secp256k1"
RECIPIENT = "0x000000000000000000000000000000000000bEEF"


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with LocalService(cost=Argon2Cost(1, 8)) as opened:
        yield opened


class Owner:
    """A user with a key, who signs through the node."""

    def __init__(self, service: LocalService, name: str) -> None:
        self.node = service.user(name)
        self.flow = SmartAccountClient(HttpTransport(service.gateway_user(name)))
        body = {"curve": CURVE, "password": "correct horse"}
        self.share: dict[str, str] = self.node.post("/v3/wallet/generate", json=body).json()
        wallets: list[Any] = self.node.get("/v3/wallet").json()["wallets"]
        self.address = wallets[0]["address"]["evm"]

    def sign(self, message_hash: bytes) -> bytes:
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


def test_somebody_elses_signature_is_refused_by_the_contract(service):
    bob, mallory = Owner(service, "bob"), Owner(service, "mallory")
    flow = bob.flow.begin(bob.address, to=RECIPIENT, value=0, sponsored=True)
    with pytest.raises(RequestRefused, match="AA24"):
        bob.flow.run(flow, mallory.sign)


def test_a_token_is_needed(service):
    info = f"/core/evm/v2/erc4337/{RECIPIENT}/info"
    client = service.gateway_user("alice")
    assert client.get(info).status_code == 200
    answer = client.get(info, headers={"Authorization": "Bearer nonsense"})
    assert (answer.status_code, answer.json()["code"]) == (401, 756)
    answer = client.get("/core/evm/v2/erc4337/0x12/info")
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


def test_a_chain_that_cannot_be_reached():
    nobody = over_rpc("http://127.0.0.1:9", "0x" + "11" * 32)
    with LocalService(smart_accounts=nobody, clock="real") as service:
        answer = service.gateway_user("alice").get(f"/core/evm/v2/erc4337/{RECIPIENT}/nonce")
    assert answer.status_code == 502
    assert "did not answer" in answer.json()["error"]


@pytest.mark.parametrize("key", ["", "0x12", "zz" * 32])
def test_a_bundlers_key_that_is_none(key):
    with pytest.raises(UsageError, match="bundler"):
        over_rpc("http://127.0.0.1:9", key)
