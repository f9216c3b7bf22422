"""Whole operations on both chains; the EVM says what came of them."""

import re

import pytest

from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.client.anatomy import alter_field, refusal_reason
from mpcsim.service.smart_account.client.client import RequestRefused
from mpcsim.service.smart_account.endpoints import Endpoint
from mpcsim.service.smart_account.errors import Refused
from mpcsim.service.smart_account.operation.limits import KnownOperations


def cost(receipt):
    return int(receipt["actual_gas_cost"], 16)


def test_the_first_operation_deploys_the_account_and_the_sponsor_pays(on, owner):
    account, recipient = on.account(owner), on.stranger()
    on.fund(account, 5)
    deposit = on.deposit(on.service.deployment.paymaster)
    assert on.chain.code(account) == b""

    flow = on.run(owner, to=recipient, value=3, sponsored=True)

    assert flow.receipt["status"] == "included"
    assert flow.receipt["success"] is True
    assert flow.receipt["sender"] == account
    assert flow.receipt["paymaster"] == on.service.deployment.paymaster
    assert flow.receipt["user_op_hash"] == flow.user_op_hash == "0x" + flow.digest.hex()
    assert flow.receipt["result"] == flow.result
    assert flow.receipt["receipt"]["status"] == "0x1"
    assert on.chain.code(account) != b""
    assert on.view(account, contracts.account().abi, "owner") == owner.address.lower()
    assert (on.chain.balance(account), on.chain.balance(recipient)) == (2, 3)
    assert on.nonce(account) == 1
    assert on.deposit(on.service.deployment.paymaster) == deposit - cost(flow.receipt)
    assert on.deposit(account) == 0


def test_a_receipt_outlives_the_services_memory(on, owner, monkeypatch):
    flow = on.run(owner, to=on.stranger(), sponsored=True)
    monkeypatch.setattr(on.service, "_known", KnownOperations())  # as after a restart
    again = on.service.answer(Endpoint.RECEIPT, {"result": flow.user_op_hash})
    assert again == flow.receipt


def test_the_bundler_does_not_pay_for_others(on, owner):
    """What the operation pays covers its transaction to within a percent or two."""
    flow = on.run(owner, to=on.stranger(), sponsored=True)
    used = int(flow.receipt["receipt"]["gas_used"], 16)
    charged = int(flow.receipt["actual_gas_used"], 16)
    assert used <= charged * 1.02
    assert charged <= used * 1.1


CODES = {"sender": "AA14", "nonce": "AA25", "init_code": "AA14", "paymaster_and_data": "AA34|AA33"}
"""Everything else leaves the owner's signature over another digest: AA24 (AA34 or AA21 for what
the paymaster, or the prefund, sees first)."""


@pytest.mark.few(1)
@pytest.mark.parametrize("sponsored", [False, True])
def test_a_tampered_field_is_refused_by_the_contracts_themselves(on, owner, sponsored):
    """The service's own checks are bypassed: the operation goes straight into a bundle."""
    account = on.account(owner)
    on.fund(account)
    flow = on.until_send(owner, to=on.stranger(), value=1, sponsored=sponsored)
    before = on.state(account)
    for name, value in flow.operation.items():
        if name == "signature" or (not value and name == "paymaster_and_data"):
            continue
        changed = alter_field(flow.operation, name)
        code = CODES.get(name, "AA24|AA34")
        with pytest.raises(Refused, match=code):
            on.service._bundle(changed)
        assert re.match(code, refusal_reason(on.service, changed))
        assert on.state(account) == before, name
    assert refusal_reason(on.service, flow.operation) is None
    on.service.bundler.wait(on.service._bundle(flow.operation))
    assert on.nonce(account) == 1
    assert refusal_reason(on.service, flow.operation) is not None


def test_the_signature_over_the_bare_digest_is_not_enough(on, owner):
    """``personal_sign``: the account wants the EIP-191 prefix."""
    flow = on.until_send(owner, to=on.stranger(), sponsored=True)
    flow.fields["signature"] = owner.sign(flow.digest)
    with pytest.raises(RequestRefused, match="AA24"):
        on.client.run(flow, owner.sign)
