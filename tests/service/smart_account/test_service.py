"""What the service answers, and what it refuses; a refusal changes nothing."""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from eth_abi import encode
from eth_account.typed_transactions import TypedTransaction
from hexbytes import HexBytes

from mpcsim.crypto.rng import SeededRng
from mpcsim.service.smart_account import errors, setup
from mpcsim.service.smart_account.chain import contracts, transactions
from mpcsim.service.smart_account.chain.chain import Fees
from mpcsim.service.smart_account.chain.jsonrpc import JsonRpcError
from mpcsim.service.smart_account.client import client as clients
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.operation import gas
from mpcsim.service.smart_account.operation.fields import FIELDS, GAS, SIGNED, supplied_by
from mpcsim.service.smart_account.operation.operation import UserOperation
from tests.helpers.reviewed import check_answers

ETHER = 10**18
SOMEBODY = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def transfer(to, amount):
    return contracts.token().abi.call("transfer", to, amount)


def ask(on, endpoint, **request):
    return on.service.answer(endpoint, request)


def drafted(on, owner, **wish):
    """A flow before its gas step, and what that step takes."""
    flow = on.client.begin(owner.address, **{"to": on.stranger(), **wish})
    while "call_data" not in flow.fields:
        on.client.step(flow, owner.sign)
    return flow._body()


# --- what each endpoint answers ------------------------------------------------------------------


def test_info_is_address_nonce_and_init_calldata_in_one(embedded, owner):
    on, account = embedded, embedded.account(owner)
    info = ask(on, Endpoint.INFO, address=owner.address)
    assert info == {
        **ask(on, Endpoint.ADDRESS, address=owner.address.lower()),
        **ask(on, Endpoint.NONCE, address=owner.address),
        **ask(on, Endpoint.INIT, owner=owner.address),
    }
    assert info["sender"] == account
    assert info["nonce"] == "0x0"
    factory = on.service.deployment.factory
    create = contracts.account_factory().abi.call("createAccount", owner.address, 0)
    assert info["init_code"] == factory.lower() + create.hex()

    on.run(owner, to=on.stranger(), sponsored=True)

    later = {"sender": account, "nonce": "0x1", "init_code": "0x"}
    assert ask(on, Endpoint.INFO, address=owner.address) == later
    assert ask(on, Endpoint.INIT, owner=owner.address) == {"init_code": "0x"}


def test_pre_verification_gas_by_the_usual_formula(embedded, owner):
    """Counted by hand for an operation whose encoding is easy to see."""
    operation = UserOperation(SOMEBODY, 0, b"", b"", 0, 0, 0, 0, 0)
    # One offset and eleven words of head; a length for each of the three empty byte fields; the
    # signature's length and three words. Not zero: the offsets (0x20, 0x160, 0x180, 0x1a0, 0x1c0:
    # 1 + 4 * 2, but 0x180's and its like have both bytes set), the 20 of the sender, 21000's two,
    # the signature's length and its 65.
    words = 1 + 11 + 3 + 1 + 3
    nonzero = 1 + 4 * 2 + 20 + 2 + 1 + 65
    calldata = 16 * nonzero + 4 * (32 * words - nonzero)
    assert gas.pre_verification_gas(operation) == 21_000 + 18_300 + 4 * words + calldata


def test_the_callers_own_gas_values_are_kept(on, owner):
    body = drafted(on, owner)
    found = ask(on, Endpoint.SPONSOR, **body)
    more = zip(GAS, (1, 2, 300, 4, 5), strict=True)
    own = {name: int(found[FIELDS[name].camel], 16) + by for name, by in more}
    reply = ask(on, Endpoint.SPONSOR, **body, **own)
    assert {FIELDS[name].camel: hex(value) for name, value in own.items()}.items() <= reply.items()


# --- consistency ---------------------------------------------------------------------------------


def other_value(name):
    match FIELDS[name].abi_type:
        case "address":
            return SOMEBODY
        case "bytes":
            return "0x" + "11" * 30
    return 12345


@pytest.mark.parametrize("sponsored", [False, True])
def test_other_data_than_the_step_before_had_are_refused(embedded, owner, sponsored):
    """In the digest query, and when it is sent; whichever field is another one."""
    flow = embedded.client.begin(owner.address, to=SOMEBODY, sponsored=sponsored)
    while flow.result is None:
        embedded.client.step(flow, owner.sign)
    for endpoint, here, there in (
        (Endpoint.DIGEST, "the digest query", "the gas step"),
        (Endpoint.SEND, "send", "the digest query"),
    ):
        body = {"paymaster_and_data": "0x", **flow._body()}
        for name in SIGNED:
            mine, theirs = other_value(name), re.escape(body[name][:34])
            shown = hex(mine) if mine == 12345 else mine
            said = f"^{name}: {shown} in {here}, {theirs}.* in {there}$"
            with pytest.raises(errors.Inconsistent, match=said):
                ask(embedded, endpoint, **{**body, name: mine})
        while "signature" not in flow.fields:
            embedded.client.step(flow, owner.sign)
    assert embedded.nonce(flow.operation.sender) == 0


def gas_names():
    return [entry.name for entry in supplied_by(Endpoint.GAS)]


def test_a_digest_needs_a_gas_step_and_sending_a_digest(embedded, owner, new_owner):
    body = {**drafted(embedded, owner), **dict.fromkeys(gas_names(), 1), "nonce": 7}
    with pytest.raises(errors.UnknownOperation, match=r"no gas step has answered .* nonce 0x7"):
        ask(embedded, Endpoint.DIGEST, **body)
    flow = embedded.until_send(owner, to=SOMEBODY, sponsored=True)
    fresh = ask(embedded, Endpoint.GAS, **drafted(embedded, owner))
    assert fresh["result"] != flow.result
    other = new_owner("who asks for no digest")
    body = drafted(embedded, other)
    reply = ask(embedded, Endpoint.GAS, **body)
    full = {**body, **{name: reply[FIELDS[name].camel] for name in gas_names()}}
    with pytest.raises(errors.UnknownOperation, match="no digest was queried for sender 0x"):
        ask(embedded, Endpoint.SEND, **full, signature="0x" + "11" * 65)


# --- refusals ------------------------------------------------------------------------------------


def test_malformed_requests_are_refused_as_written_down(embedded):
    def said(question):
        name, _, request = question.partition(" ")
        with pytest.raises(errors.BadRequest) as refused:
            ask(embedded, Endpoint[name], **json.loads(request))
        return refused.value

    check_answers(said, Path(__file__).with_name("malformed.txt"))


def gas_refusals(on, owner, new_owner):
    """Request, kind and text of what the gas step refuses, for an account not yet deployed."""
    body, reverts = drafted(on, owner), "call_data: the call reverts"
    execute = partial(contracts.account().abi.call, "execute")
    too_much = execute(on.token, 0, transfer(SOMEBODY, 10**30))
    unknown = execute(on.service.deployment.entry_point, 1, b"\1" * 4)
    refused = [
        ("nonce", 1, "AA25 invalid account nonce"),
        ("init_code", "0x", "AA20 account not deployed"),
        ("init_code", body["init_code"][:42] + "12345678", "AA13 initCode failed or OOG"),
        (
            "sender",
            on.account(new_owner("nobody in particular")),
            "AA14 initCode must return sender",
        ),
        ("call_data", "0x12345678", reverts),
        ("call_data", "0x" + too_much.hex(), f"{reverts}: ERC20: transfer amount exceeds balance"),
        ("call_data", "0x" + execute(SOMEBODY, 10**30, b"").hex(), reverts),
        ("call_data", "0x" + unknown.hex(), reverts),
        ("verification_gas_limit", 1000, "verification_gas_limit: too low: "),
    ]
    bounds = {
        "verification_gas_limit": {"above": [10**9]},
        "call_gas_limit": {"above": [10**9], "below": [10]},
        "pre_verification_gas": {"above": [10**6, 3 * 10**11], "below": [10]},
        "max_fee_per_gas": {"above": [10**12], "below": [0]},
        "max_priority_fee_per_gas": {"above": [10**15], "below": [0]},
        "signature": {"unknown field": ["0x"]},
    }
    for name, value, says in refused:
        yield {**body, name: value}, errors.Refused, says
    for name, values in bounds.items():
        for says, wrong in values.items():
            for value in wrong:
                yield {**body, name: value}, errors.BadRequest, f"{name}: {says}"


@pytest.mark.few(1)
@pytest.mark.parametrize("endpoint", [Endpoint.SPONSOR, Endpoint.GAS])
def test_what_the_gas_step_refuses(on, owner, new_owner, endpoint):
    """Where it names a bound, it takes a value that stands there."""
    before = on.state(on.account(owner))
    for body, kind, says in gas_refusals(on, owner, new_owner):
        with pytest.raises(kind, match=f"^({says})") as caught:
            ask(on, endpoint, **body)
        if bound := re.match(r"(\w+): (above|below) (\d+),", str(caught.value)):
            name, value = bound[1], int(bound[3])
            both = bound[2] == "above" and name.startswith("max_")  # neither fee above the other
            again = body | dict.fromkeys(("max_fee_per_gas", name) if both else (name,), value)
            assert ask(on, endpoint, **again)[FIELDS[name].camel] == hex(value)
    assert on.state(on.account(owner)) == before


def test_paymaster_data_is_for_the_sponsor_to_make(embedded, owner):
    body = {**drafted(embedded, owner), "paymaster_and_data": "0x"}
    with pytest.raises(errors.BadRequest, match=r"^paymaster_and_data: unknown field"):
        ask(embedded, Endpoint.SPONSOR, **body)
    nobody = {**body, "paymaster_and_data": SOMEBODY}
    with pytest.raises(errors.Refused, match="AA30 paymaster not deployed"):
        ask(embedded, Endpoint.GAS, **nobody)


def test_what_is_left_after_the_prefund_must_do_for_the_call(on, owner):
    account = on.account(owner)
    on.fund(account)
    flow = on.until_send(owner, to=on.stranger(), value=ETHER)
    before = on.state(account)
    with pytest.raises(
        clients.RequestRefused, match=r"call_data: the call reverts.*balance is \d+ wei"
    ):
        on.client.run(flow, owner.sign)
    assert on.state(account) == before


def test_a_sponsorship_expires(owner):
    now = [1_800_000_000.0]
    service = setup.over_embedded_chain(rng=SeededRng("expiry"), clock=lambda: now[0])
    now[0] += 100
    assert service.chain.timestamp() == now[0]
    body = sponsored_by(service, owner)
    now[0] += 3601
    with pytest.raises(errors.Refused, match="AA32 paymaster expired or not due"):
        service.answer(Endpoint.SEND, body)
    now[0] -= 3600
    with pytest.raises(errors.Refused, match="AA24"):
        service.answer(Endpoint.SEND, {**body, "signature": "0x" + owner.sign(b"1" * 32).hex()})
    service.answer(Endpoint.SEND, body)


def sponsored_by(service, owner):
    """A signed operation of ``owner``, sponsored by ``service``, as send takes it."""
    client = clients.SmartAccountClient(clients.ServiceTransport(service))
    flow = client.begin(owner.address, to=SOMEBODY, sponsored=True)
    while "signature" not in flow.fields:
        client.step(flow, owner.sign)
    return flow._body()


def test_a_base_fee_that_has_outgrown_the_offer_is_refused(embedded, owner, monkeypatch):
    flow = embedded.until_send(owner, to=SOMEBODY, sponsored=True)
    monkeypatch.setattr(embedded.chain, "fees", lambda: Fees(10**12, 1))
    with pytest.raises(errors.BadRequest, match=r"^max_fee_per_gas: below 1250000000001, what the"):
        ask(embedded, Endpoint.SEND, **flow._body())


NOT_SENT = [errors.BadRequest("no"), errors.Refused("no"), JsonRpcError("send", {})]


@pytest.mark.parametrize("failure", NOT_SENT)
def test_what_is_not_sent_costs_nothing_of_what_a_user_may_spend(
    embedded, owner, monkeypatch, failure
):
    flow, service = embedded.until_send(owner, to=SOMEBODY, sponsored=True), embedded.service
    monkeypatch.setattr(service, "_bundle", Mock(side_effect=failure))
    before = [Counter(budget._spent) for budget in (service._risk, service._gas_budget)]
    with pytest.raises(type(failure)):
        ask(embedded, Endpoint.SEND, **flow._body())
    assert [Counter(budget._spent) for budget in (service._risk, service._gas_budget)] == before


def test_a_bundle_pays_no_more_a_unit_of_gas_than_the_operation(embedded, owner, monkeypatch):
    sent = []
    flow = embedded.until_send(owner, to=SOMEBODY, sponsored=True)
    offered = flow.operation.max_fee_per_gas, flow.operation.max_priority_fee_per_gas
    now = Fees((offered[0] - offered[1]) * 3 // 4, offered[1])
    assert now.maximum > offered[0]
    monkeypatch.setattr(embedded.chain, "fees", lambda: now)
    monkeypatch.setattr(embedded.chain, "send_raw", lambda raw, _: sent.append(raw) or bytes(32))
    ask(embedded, Endpoint.SEND, **flow._body())
    paid = TypedTransaction.from_bytes(HexBytes(sent[0])).as_dict()
    assert (paid["maxFeePerGas"], paid["maxPriorityFeePerGas"]) == offered


def test_a_reason_that_is_no_text_is_shown_in_hex():
    odd = (encode(("bytes",), (b"\xff\xfe",)), bytes(31) + b"\x20" + b"\xff" * 32, b"")
    for data in odd:
        said = bytes.fromhex("08c379a0") + data
        assert contracts.account().abi.reason(said) == f"reverted with 0x{said.hex()}"


def test_gas_is_estimated_at_the_operations_own_price(embedded, owner, monkeypatch):
    """A contract may ask for it."""
    prices, simulate = [], gas.simulate

    def noted(chain, entry_point, operation, **options):
        prices.append(operation.max_fee_per_gas)
        return simulate(chain, entry_point, operation, **options)

    monkeypatch.setattr(gas, "simulate", noted)
    flow = embedded.until_send(owner, to=SOMEBODY)
    assert {*prices} == {flow.operation.max_fee_per_gas}


# --- several at a time ---------------------------------------------------------------------------


def test_an_operation_is_sent_once_however_often_at_once(on, owner):
    fields = on.until_send(owner, to=SOMEBODY, sponsored=True)._body()
    before = on.chain.transaction_count(on.service.bundler.address)

    def send(_):
        try:
            return ask(on, Endpoint.SEND, **fields)["user_op_hash"]
        except (errors.Inconsistent, errors.Refused) as refused:
            return type(refused)

    with ThreadPoolExecutor(4) as pool:
        sent = list(pool.map(send, range(4)))
    assert len([answer for answer in sent if isinstance(answer, str)]) == 1, sent
    assert on.chain.transaction_count(on.service.bundler.address) == before + 1


def test_a_turn_to_send_is_not_waited_for_without_end(embedded, monkeypatch):
    monkeypatch.setattr(transactions, "TURN_S", 0.05)
    with embedded.service.bundler.exclusive(), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(embedded.service.bundler.pay, SOMEBODY, 1)
        with pytest.raises(errors.ChainTimeout, match="other transactions are still waiting"):
            waiting.result(30)
        embedded.service.bundler.pay(SOMEBODY, 1)
