"""The matrix as text, JSON and Markdown; its exit status and its last line."""

import json
from dataclasses import replace

import pytest

from mpcsim.attacks import report
from mpcsim.attacks.catalogue import ATTACKS, NOT_APPLICABLE
from mpcsim.attacks.model import Cell, Effect, Finding, Verdict, broken, harmless, observe
from mpcsim.errors import InRound

FEW = tuple(attack for attack in ATTACKS if attack.id in ("D1", "P4"))


def as_promised():
    """All cells, as if everything had been run and had come out right."""
    return [
        Cell(attack, check_on, attack.expected_on if check_on else attack.expected_off)
        for attack in ATTACKS
        for check_on in report.MODES
    ]


def test_a_complete_matrix():
    matrix = report.collect(as_promised())
    assert matrix.complete
    assert matrix.missing == ()
    count = 2 * len(ATTACKS)
    assert matrix.summary() == f"{count} of {count} cells are as they must be"
    assert report.as_text(matrix).splitlines()[-1] == matrix.summary()


def test_a_missing_cell_is_missed():
    cells = as_promised()
    gone = cells.pop(5)
    matrix = report.collect(cells)
    assert not matrix.complete
    mode = "on" if gone.check_on else "off"
    assert matrix.missing == (f"{gone.attack.id} (check {mode})",)
    assert matrix.total == 2 * len(ATTACKS) == matrix.good + 1
    assert "Missing cells" in report.as_text(matrix)


def test_a_row_that_nothing_covers_is_two_missing_cells(monkeypatch):
    fewer = {row: why for row, why in NOT_APPLICABLE.items() if row != "S14"}
    monkeypatch.setattr(report, "uncovered", lambda: ["S14"])
    monkeypatch.setattr(report, "NOT_APPLICABLE", fewer)
    matrix = report.collect(as_promised())
    assert matrix.missing == ("S14 (check on)", "S14 (check off)")
    assert not matrix.complete


@pytest.mark.parametrize(
    "found",
    [
        harmless(),
        broken(Effect.LEAK),
        Finding(Verdict.ERROR, shown="KeyError: 'x'"),
    ],
    ids=str,
)
def test_an_unexpected_cell_is_shown_with_what_was_expected(found):
    cells = as_promised()
    cells[1] = replace(cells[1], observed=found)
    matrix = report.collect(cells)
    assert not matrix.complete
    assert matrix.good == matrix.total - 1
    text = report.line(cells[1])
    assert "UNEXPECTED" in text
    assert str(found) in text
    assert f"expected: {cells[1].expected}" in text
    assert "**unexpected**" in report.as_markdown(matrix)


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


def test_an_entry_that_raises_is_an_unexpected_cell():
    def fails(build):
        raise KeyError("oops")

    cell = observe(replace(FEW[0], play=fails), check_on=True)
    assert cell.observed.verdict is Verdict.ERROR
    assert "KeyError" in cell.observed.shown
    assert not cell.as_expected


def test_files_and_status(tmp_path, capsys):
    """A run of two entries only: their cells are right, all others are missing."""
    data, table = tmp_path / "matrix.json", tmp_path / "matrix.md"
    parser = report.argparse.ArgumentParser()
    report.declare(parser)
    options = parser.parse_args(["--json", str(data), "--markdown", str(table)])
    assert report.perform(options, FEW) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == f"4 of {2 * len(ATTACKS)} cells are as they must be"
    assert any(line.startswith("D1   rogue key") for line in out)
    found = json.loads(data.read_text())
    assert [entry["id"] for entry in found["entries"]] == ["D1", "P4"]
    assert found["cells_as_they_must_be"] == 4
    assert found["cells"] == 2 * len(ATTACKS)
    assert found["not_applicable"] == NOT_APPLICABLE
    rogue = found["entries"][0]
    assert rogue["check_on"]["as_expected"]
    assert rogue["check_on"]["observed"]["reason"] == "COMMITMENT_OPENING"
    assert rogue["check_on"]["observed"]["culprits"] == [2]
    assert rogue["check_off"]["observed"]["effect"] == "CHOSEN_KEY"
    text = table.read_text()
    assert "| D1 | rogue key |" in text
    assert text.rstrip().splitlines()[-1] == f"{out[-1]}."


def test_tables_have_as_many_columns_in_every_line():
    lines = report.as_markdown(report.collect(as_promised())).splitlines()
    width = None
    for line in lines:
        if not line.startswith("|"):
            width = None
            continue
        columns = line.replace("\\|", "").count("|")
        assert width in (None, columns), line
        width = columns


def test_a_file_in_no_directory_is_a_usage_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        report.main(["--json", str(tmp_path / "nowhere" / "x.json")])
    assert stopped.value.code == 2
    assert "no such directory" in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_command(capsys):
    assert report.main([]) == 0
    count = 2 * len(ATTACKS)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{count} of {count} cells are as they must be"
