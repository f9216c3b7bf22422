"""The front door and the widget's Python side."""

import re
import sys

import pytest

from mpcsim.errors import UsageError

LINK = {"a": "client", "b": "gateway"}


def tell(explorer, **command):
    explorer.widget._handle_custom_msg({"id": 7, **command}, [])
    assert explorer.widget.answered == 7
    return explorer.widget.problem


def test_a_figure_where_widgets_cannot_run(explorer):
    bundle = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == repr(explorer)
    html = bundle["text/html"]
    assert "data:image/svg+xml" in html
    assert "Party 1 receives Offer from party 3" in html
    assert "<script" not in html
    explorer.edit(3, 1, "Respond", "R_i", "+ G")
    html = explorer._repr_html_()
    assert "altered: party 3 to party 1: Respond.R_i: + G" in html
    assert "opening does not match the earlier commitment" in html
    assert "blames party 3" in html


@pytest.mark.soak
def test_a_figure_in_a_page_that_nobody_has_open():
    """As `jupyter nbconvert --execute --to html` makes it: widgets come first there."""
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter
    from nbformat.v4 import new_code_cell, new_notebook

    cell = new_code_cell(
        "from mpcsim import Simulation\n"
        "from mpcsim.lab.explorer import Explorer\n"
        "from mpcsim.sim import Network\n"
        "wallet = Simulation(Network.star(10.0))\n"
        "wallet.generate('ed25519')\n"
        "Explorer.live(wallet, 'sign')"
    )
    notebook = new_notebook(cells=[cell])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert re.search(r'<img [^>]*src="data:image/svg\+xml', page.partition("</head>")[2])


def test_without_anywidget(explorer, monkeypatch):
    monkeypatch.delitem(sys.modules, "mpcsim.lab.explorer.widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    bundle = explorer._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    with pytest.raises(UsageError, match="install mpcsim"):
        _ = explorer.widget


def test_the_widget_does_what_it_is_told(explorer):
    widget = explorer.widget
    assert widget.view["verdict"] == "completed valid"
    edit = {"sender": 3, "receiver": 1, "kind": "Respond", "path": "R_i", "operation": "+ G"}
    assert tell(explorer, do="edit", **edit) == ""
    assert widget.view["aborts"][0]["reason"] == "COMMITMENT_OPENING"
    assert tell(explorer, do="edit", **{**edit, "operation": "replace", "argument": "02"}) == ""
    assert len(widget.view["edits"]) == 2
    assert tell(explorer, do="undo") == ""
    assert len(widget.view["edits"]) == 1
    assert tell(explorer, do="reset") == ""
    assert widget.view["verdict"] == "completed valid"
    assert tell(explorer, do="link", **LINK, what="one_way_ms", value="80") == ""
    assert widget.view["finished_ms"] > widget.view["at_first_ms"]


def test_what_is_refused_is_said(explorer):
    edit = {"do": "edit", "sender": 3, "receiver": 1, "kind": "Respond", "path": "R_i"}
    assert "cannot 'sing'" in tell(explorer, **edit, operation="sing")
    assert "hexadecimal" in tell(explorer, **edit, operation="replace", argument="xy")
    where = {"do": "link", "what": "one_way_ms"}
    assert "no link" in tell(explorer, **where, a="client", b="operator", value=1)
    assert tell(explorer, **where, **LINK, value="soon") == (
        "link client - gateway: latency: 'soon' is not a number (like 0.5)"
    )
    assert "bandwidth: ''" in tell(explorer, do="link", **LINK, what="mbit_per_s", value="")
    assert "loss is 200 %" in tell(explorer, do="link", **LINK, what="loss", value=2)
    assert tell(explorer, do="link", **LINK, what="colour", value=2)
    assert tell(explorer, do="seed", value="1.5") == ("seed: '1.5' is not a whole number (like 7)")
    assert "from 0 to" in tell(explorer, do="seed", value="-1")
    assert "unknown command" in tell(explorer, do="dance")
    assert tell(explorer, do="edit")
    assert explorer.view.good
    assert tell(explorer, do="reset") == ""


def test_loss_bandwidth_and_seed_by_the_widget(explorer):
    widget, at_first = explorer.widget, explorer.view
    assert tell(explorer, do="link", **LINK, what="loss", value=0.1) == ""
    assert tell(explorer, do="link", **LINK, what="mbit_per_s", value="2.5") == ""
    assert tell(explorer, do="seed", value="7") == ""
    now = widget.view["links"][0]["now"]
    assert (now["loss"], now["mbit_per_s"], widget.view["seed"]) == (0.1, 2.5, 7)
    assert any(m["recovery_ms"] for m in widget.view["messages"])
    assert tell(explorer, do="restore") == ""
    assert explorer.view == at_first
