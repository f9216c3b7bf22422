"""The compromise matrix: every row of the table, every attack that is known, as documented."""

import json
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from coincurve import PrivateKey
from nacl.signing import SigningKey

from mpcsim.attacks.service import report
from mpcsim.attacks.service.attack_environment import WANTED, check_forgery
from mpcsim.attacks.service.builds import PRODUCT
from mpcsim.attacks.service.catalogue import CELLS, ENTRIES, FAMILIES, NAMED, uncovered
from mpcsim.attacks.service.findings import Finding, Refusal, Verdict
from mpcsim.attacks.service.model import Cell, run_cell
from mpcsim.attacks.service.table import COLUMNS, ROWS, Goal
from tests.attacks.findings import FOUND, run_noted
from tests.helpers.repo import ROOT
from tests.helpers.reviewed import check_reviewed

COPY = Path(__file__).with_name("service_report.txt")
REPORTED = ("second key", "a stranger's suspension", "two of three")
REFUSED = [entry for entry in ENTRIES if entry.research is not None]


def named(entry):
    return entry.id


@pytest.mark.parametrize("entry", ENTRIES, ids=named)
def test_the_service_as_it_is(entry):
    cell, name, found = run_noted(entry)
    assert cell.as_expected, cell
    assert found == FOUND[name]


@pytest.mark.few(24)  # notebook 9 runs all of them, in CI too
@pytest.mark.parametrize("entry", REFUSED, ids=named)
def test_without_the_check_the_attack_succeeds(entry):
    build = entry.research()
    cell, name, found = run_noted(entry, build)
    assert cell.as_expected, cell
    assert found == FOUND[name]
    assert repr(build).startswith("RESEARCH: ")
    assert cell.build is not PRODUCT


def test_a_forgery_is_judged_by_its_curve():
    ed, ec = SigningKey(bytes(32)), PrivateKey(b"k" * 32)
    recoverable = ec.sign_recoverable(WANTED, hasher=None)
    forged = {
        "ed25519": (bytes(ed.verify_key), ed.sign(WANTED).signature),
        "secp256k1": (ec.public_key.format(), recoverable[:64] + bytes([recoverable[64] + 27])),
    }
    for curve, (key, signature) in forged.items():
        assert check_forgery(curve, key.hex(), signature, "x").verdict is Verdict.POSSIBLE
        with pytest.raises(Refusal, match="does not verify"):
            check_forgery(curve, key.hex(), signature[::-1], "x")


# ---------------------------------------------------------------------- completeness


def test_a_refusal_is_expected_in_words_of_its_own():
    assert [entry.id for entry in ENTRIES if bool(entry.check) != bool(entry.says)] == []


def test_every_cell_of_the_table_is_executed():
    assert uncovered() == []
    assert {cell for entry in ENTRIES for cell in entry.cells} <= {
        *CELLS,
        *((row.id, goal) for row in ROWS for goal in (Goal.D, Goal.X)),
    }


def test_a_cell_without_an_entry_is_noticed():
    fewer = [entry for entry in ENTRIES if ("database", Goal.P) not in entry.cells]
    assert uncovered(fewer) == ["database: P"]


def test_every_named_attack_has_an_entry():
    covered = {name for family in FAMILIES.values() for entry in family for name in entry.covers}
    assert covered == set(NAMED)


def test_entries_say_what_the_table_says():
    """Where the table says no, every attack is refused; where it says yes, one succeeds."""
    for row in ROWS:
        for goal in COLUMNS:
            entries = [entry for entry in ENTRIES if (row.id, goal) in entry.cells]
            if row.refuses(goal):
                assert all(entry.refused for entry in entries), (row.id, goal)
            else:
                assert any(not entry.refused for entry in entries), (row.id, goal)
    for entry in ENTRIES:
        if any(goal in (Goal.D, Goal.X) for _, goal in entry.cells):
            assert entry.refused, entry.id


def test_what_a_research_build_replaces_is_its_own():
    """The product refuses as before, after all that."""
    for entry in REFUSED[:1]:
        assert run_cell(entry, entry.research()).as_expected
        assert run_cell(entry).as_expected


# ---------------------------------------------------------------------- the report


def as_promised():
    """All runs, as if everything had come out right."""
    cells = []
    for entry in ENTRIES:
        refused = Finding(Verdict.REFUSED, entry.says)
        possible = Finding(Verdict.POSSIBLE, "x*G is the public key")
        cells.append(Cell(entry, PRODUCT, (refused if entry.refused else possible,)))
        if entry.research is not None:
            cells.append(Cell(entry, entry.research(), (possible,)))
    return cells


def test_a_missing_run_is_missed():
    cells = as_promised()
    gone = cells.pop(5)
    matrix = report.collect(cells)
    assert not matrix.complete
    assert [gone.entry.id in text for text in matrix.missing] == [True]


@pytest.mark.parametrize(
    "found",
    [
        Finding(Verdict.POSSIBLE, "x*G is the public key"),
        Finding(Verdict.REFUSED, "by something else"),
        Finding(Verdict.ERROR, "KeyError: 'x'"),
    ],
    ids=str,
)
def test_a_refusal_that_does_not_come_or_comes_from_elsewhere_is_not_as_documented(found):
    cells = as_promised()
    at = next(i for i, cell in enumerate(cells) if cell.entry.refused and cell.as_it_is)
    cells[at] = replace(cells[at], findings=(*cells[at].findings, found))
    assert cells[at].observed == found
    matrix = report.collect(cells)
    assert not matrix.complete
    assert matrix.expected_count == len(cells) - 1
    assert "NOT AS DOCUMENTED" in report.line(cells[at])
    assert "**NOT AS DOCUMENTED**" in report.table(matrix)


def test_an_entry_that_raises_is_a_cell():
    def fails(env):
        raise KeyError("oops")

    cell = run_cell(replace(ENTRIES[0], run=fails))
    assert cell.observed.verdict is Verdict.ERROR
    assert not cell.as_expected


def test_the_document_has_the_table_that_the_command_prints():
    document = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert report.table(report.collect(as_promised())) in document


def everything(folder: Path) -> str:
    """A run of three entries: what it prints, and what it writes of them."""
    files = folder / "matrix.json", folder / "matrix.md"
    few = [entry for entry in ENTRIES if entry.id in REPORTED]
    with redirect_stdout(StringIO()) as out:
        assert report.perform(SimpleNamespace(json=files[0], markdown=files[1]), few) == 1
    found = json.loads(files[0].read_text(encoding="utf-8"))
    entries, missing = found.pop("entries"), found.pop("missing")
    assert out.getvalue().count(", ".join(missing)) == 1
    lines = [out.getvalue().replace(", ".join(missing), f"{len(missing)}")]
    lines += [f"{name}: {json.dumps(value)}" for name, value in found.items()]
    lines += [json.dumps(entry) for entry in entries if entry["runs"]]
    table = files[1].read_text(encoding="utf-8").splitlines()
    return "\n".join([*lines, *(line for line in table if not line.endswith("|  |  |"))]) + "\n"


def test_reports_are_as_written_down(tmp_path):
    check_reviewed(everything(tmp_path), COPY)
