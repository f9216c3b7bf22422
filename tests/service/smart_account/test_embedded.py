"""The chain in this process."""

from types import SimpleNamespace

import pytest

from mpcsim.crypto.rng import SeededRng
from mpcsim.service.smart_account import setup
from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.chain.chain import Reverted
from mpcsim.service.smart_account.chain.embedded import GENESIS_TIME, EmbeddedChain
from mpcsim.service.smart_account.chain.transactions import PATIENCE_S, TransactionSender
from mpcsim.service.smart_account.errors import ChainUnavailable, NoContract, Refused

RICH = setup.account(SeededRng("rich").bytes(32))
SOMEBODY = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def chain(**options):
    return EmbeddedChain({RICH.address: 10**18}, **options)


def deployed(sender, runtime):
    """A contract of that runtime code."""
    # PUSH1 length, PUSH1 12, PUSH1 0, CODECOPY, PUSH1 length, PUSH1 0, RETURN
    creation = bytes([0x60, len(runtime), 0x60, 12, 0x60, 0, 0x39, 0x60, len(runtime), 0x60, 0])
    return sender.execute(None, creation + b"\xf3" + runtime, gas=200_000).contract_address


def test_time_is_a_second_a_block_or_the_clocks():
    still = chain()
    assert still.timestamp() == GENESIS_TIME + 1
    TransactionSender(still, RICH).pay(SOMEBODY, 1)
    assert still.timestamp() == GENESIS_TIME + 2

    now = [GENESIS_TIME + 100.7]
    clocked = chain(clock=lambda: now[0])
    assert clocked.timestamp() == GENESIS_TIME + 100
    TransactionSender(clocked, RICH).pay(SOMEBODY, 1)
    assert clocked.timestamp() == GENESIS_TIME + 101  # later than its parent, whatever the clock
    now[0] = 0.0
    assert clocked.timestamp() == GENESIS_TIME + 101
    now[0] = GENESIS_TIME + 500.0
    assert clocked.timestamp() == GENESIS_TIME + 500


@pytest.mark.parametrize("runtime", ["60006000fd", "60006000f3"], ids=["reverts", "says nothing"])
def test_a_contract_that_is_another_one(runtime):
    sender = TransactionSender(chain(), RICH)
    address = deployed(sender, bytes.fromhex(runtime))
    with pytest.raises(NoContract):
        contracts.account().abi.view(sender.chain, address, "owner")


INVALID = [
    ({"nonce": 5}, "nonce"),
    ({"value": 10**19}, "balance|afford"),
    ({"gas": 20_000}, "gas"),
    ({"gas": 10**9}, "gas"),
    ({"maxFeePerGas": 1, "maxPriorityFeePerGas": 1}, "base fee"),
    ({"chainId": 1}, "chain"),
]


@pytest.mark.parametrize(("change", "says"), INVALID)
def test_invalid_transactions_are_refused(change, says):
    on = chain()
    transaction = {"type": 2, "chainId": on.chain_id, "nonce": 0, "to": SOMEBODY, "value": 1}
    transaction |= {"data": b"", "gas": 21_000, "maxFeePerGas": 10**10, "maxPriorityFeePerGas": 1}
    transaction |= change
    with pytest.raises(ChainUnavailable, match=says):
        on.send_raw(RICH.sign_transaction(transaction).raw_transaction)
    assert on.transaction_count(RICH.address) == 0
    assert on.balance(SOMEBODY) == 0


def test_what_a_check_refuses_did_not_happen():
    on = chain()
    sender = TransactionSender(on, RICH)
    contract = deployed(sender, bytes.fromhex("5f5fa000"))  # an event without topics or data
    before = on.balance(RICH.address), on.transaction_count(RICH.address), on.timestamp()
    seen = []

    def check(outcome):
        seen.append(outcome)
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        sender.send(contract, b"", gas=100_000, check=check)
    assert seen[0].success
    assert [event.address for event in seen[0].events] == [contract]
    after = on.balance(RICH.address), on.transaction_count(RICH.address), on.timestamp()
    assert after == before
    assert on.logs(contract, ()) == []

    receipt = sender.wait(sender.send(contract, b"", gas=100_000, check=seen.append))
    assert on.logs(contract, ()) == list(receipt.logs)
    assert on.logs(SOMEBODY, ()) == []


@pytest.mark.parametrize("most", [None, (3, 2), (10**20, 10**20)])
def test_a_transaction_pays_no_more_than_it_may(most):
    on, sent = chain(), []
    signer = SimpleNamespace(address=RICH.address, sign_transaction=sent.append)
    with pytest.raises(AttributeError):
        TransactionSender(on, signer).send(SOMEBODY, b"", gas=100_000, most_fees=most)
    fees, most = on.fees(), most or (10**20, 10**20)
    assert sent[0]["maxFeePerGas"] == min(fees.maximum, most[0])
    assert sent[0]["maxPriorityFeePerGas"] == min(fees.priority, most[1])


def test_a_block_is_waited_for_so_long():
    pauses = []
    sender = TransactionSender(chain(), RICH, sleep=pauses.append)
    with pytest.raises(ChainUnavailable, match="no block holds"):
        sender.wait(bytes(32))
    assert PATIENCE_S <= sum(pauses) <= PATIENCE_S + pauses[-1]


def test_halts_are_reverts_without_data():
    on = chain()
    contract = deployed(TransactionSender(on, RICH), b"\xfe")  # INVALID
    with pytest.raises(Reverted) as reverted:
        on.call(contract, b"")
    assert reverted.value.data == b""


def test_calls_that_nest_too_deeply_are_refused_and_nothing_breaks():
    """A contract that calls itself until the gas is gone: hundreds of levels."""
    on = chain()
    sender = TransactionSender(on, RICH)
    contract = deployed(sender, bytes.fromhex("5f5f5f5f5f305af100"))
    before = on.balance(RICH.address), on.transaction_count(RICH.address)
    with pytest.raises(Refused, match="nest too deeply"):
        on.call(contract, b"")
    with pytest.raises(Refused, match="nest too deeply"):
        sender.send(contract, b"", gas=15_000_000)
    assert (on.balance(RICH.address), on.transaction_count(RICH.address)) == before
    assert sender.pay(SOMEBODY, 1).success
    # A few dozen levels are fine.
    assert sender.execute(contract, b"", gas=60_000).success
