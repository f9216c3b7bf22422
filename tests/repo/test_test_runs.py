"""Commands about tests: which a change affects, and what a soak run may be asked for."""

import time

import pytest

from tests import affected
from tests.helpers.repo import ROOT
from tests.soak import __main__ as soak
from tests.soak.areas import AREAS, Area
from tests.soak.record import Record


def test_a_change_affects_whoever_imports_it_however_far_away():
    tests = affected.importers(["mpcsim/crypto/ot/base.py"], ("mpcsim/crypto", "tests/crypto"))
    assert "tests/crypto/mta/test_ot.py" in tests  # directly
    assert "tests/crypto/mta/test_schemes.py" in tests  # through the multiplication
    assert "tests/crypto/test_bip32.py" not in tests


@pytest.mark.parametrize("path", ["pyproject.toml", "tests/conftest.py"])
def test_a_change_of_the_basis_affects_every_test(path):
    assert len(affected.affected_tests([path])) == len(list((ROOT / "tests").rglob("test_*.py")))


def test_an_unknown_commit_is_named(capsys):
    assert affected.main(["--since", "no-such-commit"]) == 2
    assert "no-such-commit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--area", "gatway"], "no area is called 'gatway'; there are crypto, protocols,"),
        (["--minutes", "0"], "SOAK_MINUTES is '0'; a number of minutes above 0"),
        (["--minutes", "soon"], "SOAK_MINUTES is 'soon'"),
        (["--minutes", "nan"], "SOAK_MINUTES is 'nan'"),
        (["--seed", "x"], "SOAK_SEED is 'x'; a whole number"),
    ],
)
def test_a_wrong_soak_request_is_one_sentence(arguments, said, capsys):
    assert soak.main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_every_folder_of_tests_is_in_an_area():
    covered = tuple(path for area in AREAS.values() for path in area.paths)
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    own = ("tests/mutation/",)
    assert not [path for path in files if not path.startswith(covered + own)]
    assert all((ROOT / path).exists() for path in covered)


def test_a_round_goes_on_where_it_stopped_and_failures_run_again(tmp_path):
    path = tmp_path / "area.jsonl"
    record = Record(path)
    record.add("a", "passed", 1.5, "7")
    record.add("b", "failed", 2.0, "7")
    size = record.size()
    with path.open("a") as file:
        file.write('{"test": "half a li')  # killed while writing
    assert Record(path).done() == {"a"}
    assert Record(path).seconds() == {"a": 1.5, "b": 2.0}
    path.write_bytes(path.read_bytes()[:size])
    record.end_round()
    assert Record(path).done() == set()
    assert [row.test for row in record.since(0)] == ["a", "b"]


@pytest.mark.soak
def test_an_area_runs_its_tests_and_records_them(tmp_path, monkeypatch):
    """The whole command in a process of its own: what else would notice that it starts nothing?"""
    monkeypatch.setattr(soak, "FOLDER", tmp_path)
    area = Area(("tests/crypto/test_zero_share.py",))
    outcome = soak.run_area("crypto", area, time.time() + 100, 7, "0")
    assert not outcome.failed
    assert outcome.finished
    assert {row.outcome for row in outcome.ran} == {"passed"}
