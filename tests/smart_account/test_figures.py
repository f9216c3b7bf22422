"""Pictures of operations: what is written in them, that it fits, and that it does not change."""

import pytest
from matplotlib.text import Text

from mpcsim.errors import UsageError
from mpcsim.sim.figures import svg
from mpcsim.smart_account import figures

RECIPIENT = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@pytest.fixture
def owner(request, new_plain_owner):
    return new_plain_owner(request.node.name)


def texts(figure):
    return [text for text in figure.findobj(Text) if text.get_text().strip()]


def written(figure):
    return [text.get_text() for text in texts(figure)]


def check(figure):
    """Every text is inside the picture, and the picture is the same every time."""
    figure.draw_without_rendering()
    frame = figure.bbox.padded(1)
    for text in texts(figure):
        box = text.get_window_extent()
        assert frame.contains(box.x0, box.y0), text.get_text()
        assert frame.contains(box.x1, box.y1), text.get_text()
    assert svg(figure) == svg(figure)


@pytest.mark.parametrize("separately", [False, True])
def test_the_steps(embedded, owner, separately):
    embedded.fund(embedded.account(owner))
    flow = embedded.run(owner, to=RECIPIENT, separately=separately)
    figure = figures.steps_diagram(flow)
    said = written(figure)
    check(figure)
    numbers = [text for text in said if text.isdigit()]
    assert numbers == [str(step.number) for step in flow.steps]
    for text in (
        "execute calldata query: POST /calldata/execute",
        "gas info query: POST /gas/info",
        "gas limits and fees, result",
        "personal_sign: 32 bytes",
        "r, s, v: 65 bytes",
        "receipt: included",
    ):
        assert text in said


def test_the_gas(embedded, owner):
    embedded.fund(embedded.account(owner))
    flows = {
        "first": embedded.run(owner, to=RECIPIENT, sponsored=True),
        "second": embedded.run(owner, to=RECIPIENT, value=1),
    }
    figure = figures.gas_chart(flows)
    said = written(figure)
    check(figure)
    assert "gas (thousands)" in said
    for flow, payer in zip(flows.values(), ("paymaster", "account"), strict=True):
        used = int(flow.receipt["actual_gas_used"], 16)
        (line,) = [text for text in said if text.startswith(f"charged {used:,}: ")]
        assert line.endswith(f"mETH, by the {payer}")
        widths = [bar.get_width() for bar in figure.axes[0].patches]
        assert used - flow.operation.pre_verification_gas in widths
    pending = embedded.until_send(owner, to=RECIPIENT, sponsored=True)
    with pytest.raises(UsageError, match="in no block yet"):
        figures.gas_chart({"pending": pending})
