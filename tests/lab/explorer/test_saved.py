"""A session as one HTML file: what is in it, and what is not."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from mpcsim.errors import UsageError
from mpcsim.lab.explorer import Explorer
from mpcsim.lab.explorer.model.model import as_json
from tests.lab.explorer.wallets import NASTY, nasty_explorer, simulation


class Elements(HTMLParser):
    """The elements of a page as a browser sees them: names, attributes, and what scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_endtag(self, tag):
        self.found.append((f"/{tag}", {}))
        self.texts.append("")

    def handle_data(self, data):
        if self.texts:
            self.texts[-1] += data

    def text(self, tag, **attributes):
        [at] = [
            n
            for n, (name, given) in enumerate(self.found)
            if name == tag and attributes.items() <= given.items()
        ]
        return self.texts[at]


def session(page):
    return json.loads(Elements(page).text("script", id="session"))


def saved(explorer, folder, **options):
    path = explorer.export_html(folder / "session.html", **options)
    assert path == folder / "session.html"
    return path.read_text(encoding="utf-8")


def test_it_holds_what_the_explorer_shows(explorer, tmp_path):
    explorer.edit(3, 1, "Respond", "R_i", "+ G")
    explorer.set_link("client", "gateway", loss=0.1)
    page = saved(explorer, tmp_path)
    held, view = session(page), as_json(explorer.view)
    off = held["view"]["frozen"]
    assert "needs Python" in off
    assert held["view"] == {**view, "frozen": off, "fixed_times": off}
    assert held["details"] == {key: as_json(d) for key, d in explorer.details.items()}
    assert (held["step"], held["selected"]) == (0, "")
    assert len(page.encode()) < 2_000_000


def secrets(explorer):
    """Every secret text that an explorer with ``reveal`` shows, but points: those are opened."""
    values = [g.value for s in explorer.view.steps for g in s.gained if g.kind == "own secret"]

    def hidden(fields):
        for field in fields:
            if field.receiver_only:
                yield field.value
            yield from hidden(field.fields)

    values += [v for d in explorer.details.values() for v in hidden(d.fields)]
    parts = {part for value in values if value for part in value.split(" … ")}
    return {part for part in parts if len(part) > 16 and len(part) != 66}


def test_secrets_are_left_out_unless_asked_for_and_then_it_says_so(wallet, tmp_path):
    explorer = Explorer.live(wallet, "sign", signers=(1, 3), reveal=True)
    found = secrets(explorer)
    assert len(found) > 20
    plain = saved(explorer, tmp_path)
    assert [value for value in found if value in plain] == []
    # The script tells of secrets in both; the page itself in one.
    assert Elements(plain).text("title") == "sign secp256k1: completed valid"
    assert ("p", {"class": "warning", "role": "alert"}) not in Elements(plain).found
    loud = saved(explorer, tmp_path, reveal=True)
    assert [value for value in found if value not in loud] == []
    assert Elements(loud).text("title").startswith("SECRETS: ")
    assert ("p", {"class": "warning", "role": "alert"}) in Elements(loud).found
    assert explorer.view.revealed, "the explorer itself stays as it is"
    closed = Explorer.live(wallet, "sign", signers=(1, 3))
    assert saved(closed, tmp_path) == plain
    with pytest.raises(UsageError, match="shows no secret values"):
        closed.export_html(tmp_path / "none.html", reveal=True)
    assert not (tmp_path / "none.html").exists()


def test_names_are_texts_whatever_they_are(tmp_path):
    explorer = nasty_explorer()
    plain = Explorer.live(simulation("ed25519"), "sign", signers=(1, 2))
    page = saved(explorer, tmp_path)
    tags = [tag for tag, _ in Elements(page).found]
    assert tags == [tag for tag, _ in Elements(saved(plain, tmp_path)).found]
    assert session(page)["view"]["network"] == NASTY
    assert "pwned=1<" not in page


def test_it_runs_its_own_script_and_loads_nothing(wallet, tmp_path):
    page = saved(Explorer(wallet.sign(signers=(1, 3))), tmp_path)
    elements = Elements(page)
    [policy] = [given["content"] for _, given in elements.found if "http-equiv" in given]
    script = elements.text("script", type="module")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
    )
    assert not {"src", "href"} & {name for _, given in elements.found for name in given}
    assert not re.search(r"@import|url\((?!#)", elements.text("style"))


def test_the_widget_sends_it(wallet):
    explorer, sent = Explorer.live(wallet, "sign", signers=(1, 3)), []
    explorer.widget.send = lambda content, buffers=None: sent.append(content)
    explorer.widget._handle_custom_msg({"id": 1, "do": "save"}, [])
    assert explorer.widget.problem == ""
    [message] = sent
    assert message["file"] == "sign-secp256k1.html"
    assert session(message["page"])["view"]["verdict"] == "completed valid"
    explorer.widget._handle_custom_msg({"id": 2, "do": "save", "reveal": True}, [])
    assert "shows no secret values" in explorer.widget.problem
    assert len(sent) == 1
