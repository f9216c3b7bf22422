"""Pictures of operations: what is written in them, and that it fits."""

import pytest

from mpcsim.errors import UsageError
from mpcsim.service.smart_account.client import figures, tables
from tests.helpers.pictures import check_texts, hues, written

RECIPIENT = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@pytest.fixture
def new_owner(new_plain_owner):
    return new_plain_owner


def checked(figure):
    """What is written in a figure, all of which fits, in greys alone."""
    check_texts(figure)
    assert not hues(figure)
    return written(figure)


def test_the_steps_so_far_and_all(embedded, owner):
    embedded.fund(embedded.account(owner))
    flow = embedded.client.begin(owner.address, to=RECIPIENT)
    embedded.client.step(flow, owner.sign)
    said = written(figures.steps_diagram(flow))
    assert "sender, nonce, init_code" in said
    assert "execute calldata query: POST /calldata/execute" not in said
    embedded.client.run(flow, owner.sign)
    said = checked(figures.steps_diagram(flow))
    assert [text for text in said if text.isdigit()] == [str(step.number) for step in flow.steps]
    assert {"execute calldata query: POST /calldata/execute", "receipt: included"} <= set(said)


def test_the_digest_byte_by_byte(embedded, owner):
    flow = embedded.until_send(owner, to=RECIPIENT, sponsored=True)
    cells = [text for text in written(figures.digest_anatomy(flow)) if len(text) == 2]
    words = flow.entry_point[2:].lower().rjust(64, "0"), f"{flow.chain_id:064x}"
    shown = flow.packed.hex() + flow.inner_hash.hex() + "".join(words)
    assert "".join(cells) == shown + flow.signed_message.hex() + flow.message_hash.hex()


def test_the_gas(embedded, owner):
    embedded.fund(embedded.account(owner))
    flows = {
        "first": embedded.run(owner, to=RECIPIENT, sponsored=True),
        "second": embedded.run(owner, to=RECIPIENT, value=1),
    }
    figure = figures.gas_chart(flows)
    said = checked(figure)
    assert "gas (thousands)" in said
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    for flow, payer in zip(flows.values(), ("paymaster", "account"), strict=True):
        used = int(flow.receipt["actual_gas_used"], 16)
        (line,) = [text for text in said if text.startswith(f"charged {used:,}: ")]
        assert line.endswith(f"mETH, by the {payer}")
        assert used - flow.operation.pre_verification_gas in widths


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
