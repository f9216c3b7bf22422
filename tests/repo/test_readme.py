"""The README's Python runs as it stands."""

import re

import pytest

from tests.helpers.repo import ROOT


@pytest.mark.soak  # the CI runs it beside the notebooks
def test_the_examples_run(capsys, tmp_path, monkeypatch):
    """In their order, in one namespace; what stands behind a print is what it prints."""
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    printed = []
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
        printed.append(capsys.readouterr().out.splitlines())
    simulated, key, stepped = (
        next(n for n, block in enumerate(blocks) if said in block)
        for said in ("trace.summary()", "ecdsa.party(", "local.deliver()")
    )
    assert printed[simulated][0] == "completed valid"
    assert [len(line) for line in printed[key]] == [130]
    said = [line.split("# ")[1] for line in blocks[stepped].splitlines() if line[:5] == "print"]
    assert len(said) == len(printed[stepped]) == 4
    for expected, line in zip(said, printed[stepped], strict=True):
        pattern = re.escape(expected).replace(r"\.\.\.", ".+")
        assert re.fullmatch(pattern, line), (expected, line)


def test_links_within_it_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
    used = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert len(used) > 5
    assert used <= anchors
