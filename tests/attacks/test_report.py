"""The matrix as text, JSON and Markdown; its exit status and its last line."""

import json
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from mpcsim.attacks import report
from mpcsim.attacks.catalogue import ATTACKS
from mpcsim.attacks.model import Cell, Finding, Verdict
from mpcsim.cli import main
from mpcsim.errors import InRound, Reason
from tests.helpers.reviewed import check_reviewed


def as_promised():
    """All cells, as if everything had been run and had come out right."""
    return [
        Cell(attack, check_on, attack.expected_on if check_on else attack.expected_off)
        for attack in ATTACKS
        for check_on in report.MODES
    ]


COPY = Path(__file__).with_name("report.txt")
"""Reports of two entries, and of cells that are not as they must be."""
UNLIKE = [
    replace(as_promised()[at], observed=found)
    for at, found in (
        (3, Finding.waiting({3, 1}, "for two")),
        (4, Finding.aborted(Reason.ECHO_MISMATCH, InRound(4, "end"), {3, 2}, {4, 1})),
        (5, Finding(Verdict.ERROR, shown="KeyError: 'a|b*c**d'")),
    )
]


def test_a_missing_cell_is_missed():
    cells = as_promised()
    gone = cells.pop(5)
    matrix = report.collect(cells)
    assert not matrix.complete
    mode = "on" if gone.check_on else "off"
    assert matrix.missing == (f"{gone.attack.id} (check {mode})",)
    assert matrix.total == 2 * len(ATTACKS) == matrix.expected_count + 1
    assert "Missing cells" in report.footer(matrix)


def test_an_aborted_cell_counts_only_with_the_right_culprit_step_and_consequence():
    (rogue,) = [a for a in ATTACKS if a.id == "D1"]
    right = rogue.expected_on
    for change in (
        {"culprits": frozenset({3})},
        {"where": InRound(4, "finish")},
        {"consequence": None},
        {"suspects": frozenset({3})},
        {"reason": None},
    ):
        assert not Cell(rogue, True, replace(right, **change)).as_expected
    assert Cell(rogue, True, replace(right, shown="whatever")).as_expected


def everything(folder: Path) -> str:
    """A run of two entries, by name in words and by row, and a matrix with cells unlike them."""
    files = folder / "matrix.json", folder / "matrix.md"
    options = "--json", f"{files[0]}", "--markdown", f"{files[1]}"
    with redirect_stdout(StringIO()) as out:
        assert main(["attacks", "--only", "Rogue key,p4", *options]) == 0
    whole = report.Matrix((*as_promised()[:1], *UNLIKE), ("P9 (check off)",))
    texts = [out.getvalue(), *(file.read_text(encoding="utf-8") for file in files)]
    texts += [*map(report.line, UNLIKE), report.footer(whole), report.as_markdown(whole)]
    texts += [f"{name}: {json.dumps(value)}" for name, value in report.as_json(whole).items()]
    return "\n".join(texts) + "\n"


def test_reports_are_as_written_down(tmp_path):
    check_reviewed(everything(tmp_path), COPY)


# ---------------------------------------------------------------------- some of them, and one's own


OWN = """
from dataclasses import replace
from mpcsim.attacks.gallery.frost import cheating_signer, signer
from mpcsim.attacks.model import Attack, Finding
from mpcsim.attacks.harness import CHEATER, finding_of
from mpcsim.errors import InRound, Reason
from mpcsim.protocols import run
from mpcsim.sim import Adversary, alter_kind

def doubled(build):
    twice = alter_kind("SignatureShare", lambda sent: replace(sent, share=sent.share + sent.share))
    run([honest := signer(build, 1), Adversary(cheating_signer(), twice)])
    return finding_of(honest)

NAMED = Finding.aborted(Reason.SIGNATURE_SHARE_INVALID, InRound(3, "aggregate"), {CHEATER})
MINE = Attack(id="twice", name="a doubled share", run=doubled, expected_on=NAMED)
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "my_attacks.py"
    path.write_text(OWN)
    return path


def test_an_attack_of_ones_own(own, capsys, tmp_path):
    data = tmp_path / "matrix.json"
    assert main(["attacks", "--from", str(own), "--json", str(data)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "twice a doubled share"
    assert out[1].startswith("twice on  ok         aborted in round 3 (aggregate)")
    assert out[-1] == "1 of 1 cells are as they must be"
    (entry,) = json.loads(data.read_text())["entries"]
    assert entry.keys() >= {"id", "check_on"}
    assert "check_off" not in entry
    assert main(["attacks", "--from", str(own), "--only", "twice,D1"]) == 0
    assert capsys.readouterr().out.endswith("3 of 3 cells are as they must be\n")


def test_an_attack_of_ones_own_that_comes_out_otherwise(own, capsys):
    own.write_text(OWN.replace("{CHEATER})", "{1})"))
    assert main(["attacks", "--from", str(own)]) == 1
    out = capsys.readouterr().out
    assert "UNEXPECTED" in out
    assert "expected: aborted" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no Attack"),
        ("import nothing_like_it", "my_attacks.py, line 1: ModuleNotFoundError"),
        ("\n\n1 / 0", "my_attacks.py, line 3: ZeroDivisionError"),
        ("def f(:", "my_attacks.py: SyntaxError"),
        ("from mpcsim.attacks.catalogue import ATTACKS", "has no Attack"),
        (OWN.replace('id="twice"', 'id="d1"'), "attack d1 is there twice"),
        (OWN.replace("run=doubled", "run=doubled, research=1"), "belong together"),
    ],
)
def test_a_file_that_is_of_no_use(own, monkeypatch, capsys, text, message):
    own.write_text(text)
    monkeypatch.chdir(own.parent)
    assert main(["attacks", "--from", own.name]) == 2
    assert message in capsys.readouterr().err
