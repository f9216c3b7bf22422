"""Limits of what one caller may cost the others, or the sponsor."""

from dataclasses import replace
from pathlib import Path

import pytest
from eth_utils.address import to_checksum_address

from mpcsim.crypto.rng import SeededRng
from mpcsim.service.smart_account import errors, setup
from mpcsim.service.smart_account.chain.chain import Fees
from mpcsim.service.smart_account.client.client import ServiceTransport, SmartAccountClient
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.operation import gas, limits
from mpcsim.service.smart_account.operation.operation import UserOperation
from tests.helpers.reviewed import check_calls

SOMEBODY = to_checksum_address("0x" + "11" * 20)
FEES = Fees(base_fee=101, priority=10)  # maximum: 212
OPERATION = UserOperation(SOMEBODY, 0, b"", b"", 1, 10, 100, 200, 20, b"", b"")


def test_bounds_of_fees():
    def fees(fee, priority):
        changed = {"max_fee_per_gas": fee, "max_priority_fee_per_gas": priority}
        limits.check_fees(replace(OPERATION, **changed), FEES)

    copy = Path(__file__).with_name("wrong_fees.txt")
    check_calls(copy, refusal=errors.BadRequest, fees=fees)


def test_the_most_that_a_sponsored_operation_costs():
    """EntryPoint v0.6, ``_getRequiredPrefund``: verification counts three times."""
    assert limits.most_cost(OPERATION) == (1 + 3 * 10 + 100) * 200


def test_a_budget_is_a_users_and_a_days_and_what_is_given_back_can_be_spent_again():
    now = 10.5 * limits.DAY_S
    budget = limits.Budget(100, lambda: now)
    budget.give_back("alice", 60, budget.spend("alice", 100))
    day = budget.spend("alice", 60)
    with pytest.raises(errors.BudgetSpent, match="up to 1 wei, and 0 of 100 wei a day") as refused:
        budget.spend("alice", 1)
    assert refused.value.wait_s == limits.DAY_S // 2
    budget.spend("bob", 100)
    now += limits.DAY_S / 2
    budget.spend("alice", 100)
    budget.give_back("alice", 60, day)  # of yesterday
    for back_s in (0, limits.DAY_S):  # a clock that steps back gives nothing
        now -= back_s
        with pytest.raises(errors.BudgetSpent):
            budget.spend("alice", 1)


@pytest.mark.parametrize(
    "change",
    [{"success": False, "logs": ()}, {"gas_used": 5_000_000}],
    ids=["a transaction that fails", "an operation that pays too little"],
)
def test_what_the_bundler_loses_in_a_day_is_bounded_by_user(monkeypatch, change, new_owner):
    """What is lost stays taken; an operation that pays for its transaction costs nothing."""
    service = setup.over_embedded_chain(rng=SeededRng("a bundler's losses"))
    client, owner = SmartAccountClient(ServiceTransport(service)), new_owner("an owner")

    def operation():
        return client.run(client.begin(owner.address, to=SOMEBODY, sponsored=True), owner.sign)

    assert operation()["status"] == "included"
    monkeypatch.setattr(service._risk, "wei", 6 * 10**14)
    lost = []
    for _ in range(3):  # each may cost most of it, and is paid back once, when the next one is sent
        assert operation()["status"] == "included"
        (latest,) = (known for known in service._known.of("") if known.at_risk)
        lost.append(service._risk._spent[""] - latest.at_risk)
    assert 2 * lost[0] < lost[2] < 3.3 * lost[0]  # what each has cost, once
    receipt = service.chain.receipt
    monkeypatch.setattr(service.chain, "receipt", lambda h: replace(receipt(h), **change))
    with pytest.raises(Exception, match=r"bundler: it would cost up to \d+ wei, and -?\d+ of 6"):
        operation()


def test_what_a_chain_of_our_own_remembers_of_a_day_is_bounded_by_user(new_owner):
    """By the gas that was used: all that is kept of a transaction has cost some."""
    service = setup.over_embedded_chain(rng=SeededRng("a chain's memory"))
    client, owner = SmartAccountClient(ServiceTransport(service)), new_owner("an owner")

    def operation():
        return client.run(client.begin(owner.address, to=SOMEBODY, sponsored=True), owner.sign)

    deployed = int(operation()["receipt"]["gas_used"], 16)
    budget = service._gas_budget
    operation()
    assert budget._spent[""] > deployed  # with the most that the latest may use
    budget.wei = 2 * budget._spent[""] - deployed
    with pytest.raises(
        Exception, match=r"chain: it would cost up to \d+ gas, and \d+ of \d+ gas a"
    ):
        for _ in range(9):
            operation()
    taken = dict(service._risk._spent)
    with pytest.raises(Exception, match="chain"):
        operation()
    assert service._risk._spent == taken  # nothing was sent


def test_a_long_signature_is_paid_for(embedded, new_owner):
    """No hash binds a signature: what the gas step has priced, send must not exceed."""
    flow = embedded.until_send(new_owner("who signs at length"), to=SOMEBODY, sponsored=True)
    body = flow._body()
    for size in (3_000, 65_536):
        with pytest.raises(errors.BadRequest, match="pre_verification_gas: below"):
            embedded.service.answer(Endpoint.SEND, {**body, "signature": "0x" + "ff" * size})
    embedded.service.answer(Endpoint.SEND, body)


@pytest.mark.parametrize(("byte", "least"), [("00", 10), ("ff", 40)])
def test_calldata_costs_what_the_chain_asks_for_it_at_least(byte, least):
    """EIP-7623: 10 gas a token, of which a byte is one or four, beside the transaction's 21,000."""
    size = 65_536
    priced = gas.pre_verification_gas(replace(OPERATION, call_data=bytes.fromhex(byte * size)))
    assert priced >= 21_000 + least * size
    assert gas.pre_verification_gas(OPERATION) < 60_000


def test_one_user_pushes_out_nobody_elses_operations(monkeypatch):
    known = limits.KnownOperations()
    known.put("alice", b"a", OPERATION)
    for n in range(2 * limits.REMEMBERED_OF_USER):
        known.put("mallory", n.to_bytes(2, "big"), OPERATION)
    assert len(list(known.of("mallory"))) == limits.REMEMBERED_OF_USER
    assert known.get("alice", b"a") is not None
    oldest = next(known.of("mallory"))
    oldest.digested = True
    known.put("mallory", (64).to_bytes(2, "big"), OPERATION)  # is known, and the latest again
    assert [*known.of("mallory")][-1] is oldest
    assert len(list(known.of("mallory"))) == limits.REMEMBERED_OF_USER
    monkeypatch.setattr(limits, "REMEMBERED", limits.REMEMBERED_OF_USER + 1)
    known.put("alice", b"a", OPERATION)
    assert len(list(known.of("mallory"))) == limits.REMEMBERED_OF_USER
    for n in range(10):  # beyond the bound over all, whoever has most makes room
        known.put(f"user {n}", b"x", OPERATION)
    assert all(known.get(f"user {n}", b"x") for n in range(10))
    assert known.get("alice", b"a") is not None
    assert len(list(known.of("mallory"))) == limits.REMEMBERED_OF_USER - 10


def test_another_users_operation_is_neither_shown_nor_sent(embedded, new_owner):
    """Sender and nonce are the same: for its user that is a 409 with the differences."""
    owner = new_owner("of alice")
    flow = embedded.until_send(owner, to=SOMEBODY, sponsored=True)
    wire = flow.operation.to_request(signed=False)
    altered = {**wire, "call_data": "0x"}
    with pytest.raises(errors.Inconsistent, match="call_data"):
        embedded.service.answer(Endpoint.DIGEST, altered)
    for endpoint, request in (
        (Endpoint.DIGEST, altered),
        (Endpoint.DIGEST, wire),
        (Endpoint.SEND, {**wire, "signature": "0x" + "11" * 65}),
        (Endpoint.RECEIPT, {"result": flow.result}),
    ):
        with pytest.raises(errors.UnknownOperation) as refused:
            embedded.service.answer(endpoint, request, "mallory")
        assert wire["call_data"][2:] not in str(refused.value)
    assert embedded.client.run(flow, owner.sign)["status"] == "included"
