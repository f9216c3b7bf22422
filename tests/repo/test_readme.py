"""The README's Python runs as it stands."""

import re

from tests.helpers.repo import ROOT


def test_the_examples_run(capsys):
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    said = [line.split("# ")[1] for line in blocks[1].splitlines() if line.startswith("print(")]
    said.append("completed valid")
    assert len(printed[0]) == 130
    for expected, line in zip(said, printed[1:], strict=False):
        pattern = re.escape(expected).replace(r"\.\.\.", ".+")
        assert re.fullmatch(pattern, line), (expected, line)
