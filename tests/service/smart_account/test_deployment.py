"""The contracts are the canonical ones, where they are everywhere."""

import pytest

from mpcsim.crypto.rng import SeededRng
from mpcsim.errors import UsageError
from mpcsim.service.smart_account import deployment, setup
from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.embedded import EmbeddedChain
from mpcsim.service.smart_account.chain.transactions import TransactionSender
from mpcsim.service.smart_account.errors import Refused


def test_the_entry_point_is_the_canonical_one(on):
    assert on.service.deployment.entry_point == "0x5FF137D4b0FDCD49DcA30c7CF57E578a026d2789"
    assert on.service.deployment.factory == "0x9406Cc6185a346906296840746125a0E44976454"


def test_the_paymaster_belongs_to_its_signer_and_has_its_deposit(embedded):
    paymaster, abi = embedded.service.deployment.paymaster, contracts.paymaster().abi
    signer = embedded.view(paymaster, abi, "verifyingSigner")
    assert embedded.view(paymaster, abi, "owner") == signer
    assert embedded.deposit(paymaster) > 0


def test_what_is_there_is_not_deployed_again(on):
    sender = on.service.bundler
    before = on.chain.transaction_count(sender.address)
    again = setup.account(SeededRng("another sponsor").bytes(32))
    first = deployment.deploy(sender, again, deposit=1)
    # The fresh sponsor's paymaster, funding and deposit; nothing else.
    assert on.chain.transaction_count(sender.address) == before + 2
    assert deployment.deploy(sender, again, deposit=1) == first
    assert on.chain.transaction_count(sender.address) == before + 2
    assert deployment.deploy(sender, again, deposit=5) == first
    assert on.deposit(first.paymaster) == 5


def test_a_sponsor_that_has_sent_something_else_is_refused(embedded):
    used = setup.account(SeededRng("used sponsor").bytes(32))
    embedded.fund(used.address)
    TransactionSender(embedded.chain, used).pay(embedded.stranger(), 1)
    with pytest.raises(UsageError, match="has sent transactions"):
        deployment.deploy(embedded.service.bundler, used)


def test_a_transaction_that_reverts_is_refused(embedded):
    entry_point = embedded.service.deployment.entry_point
    with pytest.raises(Refused, match="reverted"):
        embedded.service.bundler.execute(entry_point, b"\x12\x34\x56\x78", gas=100_000)


def test_missing_contracts_are_explained(tmp_path, monkeypatch):
    monkeypatch.setattr(contracts, "INSTALLED", tmp_path)
    monkeypatch.setattr(contracts, "artifact", contracts.artifact.__wrapped__)
    with pytest.raises(UsageError, match=r"python -m mpcsim\.service\.smart_account\.install"):
        contracts.artifact("EntryPoint")


def test_another_version_is_not_taken_for_the_entry_point(monkeypatch):
    monkeypatch.setattr(contracts, "entry_point", lambda: contracts.artifact("SenderCreator"))
    key = setup.account(SeededRng("bundler").bytes(32))
    chain = EmbeddedChain({key.address: 10**24})
    with pytest.raises(UsageError, match=r"not v0\.6"):
        deployment.deploy(TransactionSender(chain, key), key)


@pytest.mark.parametrize("key", [b"", bytes(32), b"\xff" * 32, b"\x11" * 31])
def test_what_is_no_key_is_refused_without_showing_it(key):
    with pytest.raises(UsageError, match=r"^not a secp256k1 private key") as refused:
        setup.account(key)
    assert refused.value.__cause__ is None
