"""Links within the README lead somewhere; its examples run with the guides'."""

import re

from tests.helpers.repo import ROOT


def test_links_within_it_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
    used = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert len(used) >= 5
    assert used <= anchors
