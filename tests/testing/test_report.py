"""What somebody reads whose test has failed under the plugin: the story first, and no secret."""

from pathlib import Path

import pytest

from tests.helpers.processes import pytest_with_the_kit

pytestmark = pytest.mark.soak  # Whole runs of the kit: seconds each.

TESTS = Path(__file__).with_name("failing_tests.txt").read_text(encoding="utf-8")
"""A file of tests of a service with mistakes."""


def pytest_in(folder: Path, *options: str) -> str:
    """What pytest prints with the plugin."""
    (folder / "test_ours.py").write_text(TESTS)
    done = pytest_with_the_kit(folder, *options)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def section(output: str, title: str) -> list[str]:
    """The lines of one test's report."""
    lines = output.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.strip("_ ").startswith(title))
    after = lines[begin + 1 :]
    end = next(n for n, line in enumerate(after) if line.startswith(("____", "====")))
    return [line for line in after[:end] if not line.startswith("[gw")]  # of pytest-xdist


def test_the_story_comes_first(tmp_path):
    output = pytest_in(
        tmp_path, "--wallet-seed", "3", "--wallet-examples=40", "-k", "drawn or hand"
    )

    drawn = section(output, "test_drawn")
    assert drawn[0].startswith("Every error is {")
    assert drawn[1:4] == ["[error_is_as_specified]", "", "  1. alice generated an ed25519 key"]
    assert drawn[4].startswith("  2. alice ")
    assert any("answered 422" in line for line in drawn[4:6])
    seed = drawn.index("seed 3 (40 runs, 12 rules each)")
    again = drawn[seed + 1]
    assert again.strip().startswith("pytest -p mpcsim.testing.plugin")
    assert again.endswith("-k 'test_drawn[Echoes]' --wallet-examples=40 --wallet-seed=3")
    assert again.count("--wallet-seed") == again.count("--wallet-examples") == 1
    assert "    api = ApiRun(target)" in drawn
    assert len(drawn) < 30, drawn
    assert any("left out; --full-trace shows" in line for line in drawn)

    by_hand = section(output, "test_by_hand")
    assert by_hand[0] == drawn[0]
    assert "  2. alice signed with the ed25519 share, giving no message:" in by_hand
    assert 20 < sum(line == "many lines" for line in by_hand) <= 40
    line = 1 + next(n for n, text in enumerate(TESTS.splitlines()) if '"no message"' in text)
    assert f"test_ours.py:{line}: ErrorIsAsSpecified" in by_hand

    for kit in ("invariants.py", "api_steps/base.py", "machine.py", "hypothesis/"):
        assert kit not in "\n".join(drawn + by_hand)
    summary = next(
        line for line in output.splitlines() if line.startswith("FAILED") and "hand" in line
    )
    assert "error_is_as_specified: alice signed with the ed25519 share, giving" in summary

    secrets = set((tmp_path / "secrets.txt").read_text().split("\n")) - {"", "not.a.token", "x"}
    assert len(secrets) > 10
    # What was drawn by the kit and is needed to see it again may be in the code, not outside it.
    read = "\n".join(line for line in output.splitlines() if not line.startswith("    api."))
    assert not [secret for secret in secrets if secret[-40:] in read]


@pytest.mark.soak
def test_the_story_gets_through_from_workers(tmp_path):
    output = pytest_in(tmp_path, "-k", "by_hand", "-n1")
    assert section(output, "test_by_hand")[1] == "[error_is_as_specified]"
    assert "error_is_as_specified: alice signed" in output.partition("short test summary")[2]


def test_an_exception_out_of_a_protocol_keeps_its_traceback(tmp_path):
    output = pytest_in(tmp_path, "-k", "protocol or something")
    lines = section(output, "test_protocol")
    assert lines[0] == "No party raises, whatever it receives: runs end in outcomes."
    raised = lines.index("Raised by:")
    assert any("implementations.py" in line for line in lines[raised:])
    assert any("KeyError" in line for line in lines[raised:])
    assert any("assert [1] == [2]" in line for line in section(output, "test_something_else"))


def test_the_whole_traceback_on_demand(tmp_path):
    output = pytest_in(tmp_path, "-k", "by_hand", "--full-trace")
    assert "api_steps/base.py" in output
