"""Tables and pictures of operations, balances and receipts."""

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.smart_account.client import figures, tables
from mpcsim.service.smart_account.client.tables import View, ether

ETHER = 10**18


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
