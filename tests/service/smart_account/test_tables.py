"""Tables and pictures of operations, balances and receipts."""

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.smart_account.chain import contracts
from mpcsim.service.smart_account.client import figures, tables
from mpcsim.service.smart_account.client.tables import Balance, View, ether
from mpcsim.service.smart_account.operation.fields import SIGNED

ETHER = 10**18


def rows(view):
    return {row[0]: row[1:] for row in view.rows}


AMOUNTS = [
    (0, "0"),
    (1, "0.000000000000000001"),
    (ETHER, "1"),
    (-ETHER // 10, "-0.1"),
    (12 * ETHER + ETHER // 4, "12.25"),
]


@pytest.mark.parametrize(("wei", "text"), AMOUNTS)
def test_ether_shows_every_digit_that_counts(wei, text):
    assert ether(wei) == text


def test_a_view_shows_itself_and_a_long_text_keeps_its_ends():
    view = View(("a", "b"), [("1", "<2>")], frozenset({"a"}))
    assert repr(view) == "a  b\n1  <2>"
    assert "&lt;2&gt;" in view._repr_html_()
    assert [tables.brief(text, 9) for text in ("0x1234567", "0x12345678")] == [
        "0x1234567",
        "0x123...5678",
    ]


@pytest.mark.parametrize("sponsored", [False, True])
def test_the_views_of_a_transfer(embedded, owner, sponsored):
    account, friend = embedded.account(owner), embedded.stranger()
    embedded.fund(account)
    embedded.mint(account, 9)
    who = {"account": account, "friend": friend}
    before = tables.balances(embedded.service, who, embedded.token)
    assert before == {"account": Balance(ETHER, 0, 9), "friend": Balance(0, 0, 0)}
    call = contracts.token().abi.call("transfer", friend, 5)
    flow = embedded.run(owner, to=embedded.token, data=call, sponsored=sponsored)
    after = tables.balances(embedded.service, who, embedded.token)
    lines = [row[:2] + row[4:] for row in tables.balances_view(before, after).rows]
    assert ("friend", "tokens (units)", "+5") in lines
    names = {account: "account", friend: "friend", embedded.token: "token"}
    assert ("token", "Transfer", "account, friend, 5") in tables.events_view(flow, names).rows
    found = rows(tables.fields_view(flow))
    assert set(found) == {*SIGNED, "signature"}
    assert found["sender"] == (flow.operation.sender, "", "info query")
    found = rows(tables.receipt_view(flow))
    assert found["gas charged"] == (f"{int(flow.receipt['actual_gas_used'], 16):,}",)
    paymaster = embedded.service.deployment.paymaster
    assert found["paid by"] == (f"paymaster {paymaster}" if sponsored else "the account itself",)
    flow.receipt.update(status="failed", reason="ERC20: no")
    assert rows(tables.receipt_view(flow))["reason"] == ("ERC20: no",)


# ---------------------------------------------------------------------- pictures


RECIPIENT = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def test_nothing_is_drawn_or_listed_before_it_is_known(embedded, owner):
    flow = embedded.client.begin(owner.address, to=RECIPIENT)
    for show, why in [
        (figures.digest_anatomy, "digest is not known yet"),
        (lambda flow: flow.operation, "not known yet: sender, nonce"),
        (lambda flow: flow.take_signature(bytes(65)), f"due, but: .*: GET .*{owner.address}"),
        (tables.receipt_view, "in no block yet"),
        (lambda flow: tables.events_view(flow, {}), "in no block yet"),
        (lambda flow: figures.gas_chart({"pending": flow}), "in no block yet"),
    ]:
        with pytest.raises(UsageError, match=why):
            show(flow)
