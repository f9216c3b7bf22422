"""What is wrong with a file, in which line, and what was understood of it."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.reading import FORMATS, read
from tests.helpers.reviewed import check_answers
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent
NAMES = [name for name in make.FILES if name != "network.toml"]


def refusal(path: Path, **how: str) -> str:
    with pytest.raises(UsageError) as refused:
        read(path, **how)
    assert str(refused.value).startswith(str(path))
    return str(refused.value)


def test_what_is_wrong(tmp_path: Path) -> None:
    """In files of public reports, too; ``\\n`` in a text is the end of a line."""

    def refused(text: str) -> str:
        path = FOLDER / text if text.startswith("reports/") else tmp_path / "measured"
        if path.parent == tmp_path:
            path.write_text(text.replace("\\n", "\n"))
        return refusal(path).removeprefix(str(path))

    check_answers(refused, Path(__file__).with_name("wrong.txt"))


def test_what_is_wrong_in_a_report(tmp_path: Path) -> None:
    """``file: text => another``: in the file, the text is another one."""

    def refused(question: str) -> str:
        name, _, change = question.partition(": ")
        old, new = change.split(" => ")
        text = (FOLDER / name).read_text()
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new))
        return refusal(tmp_path / name).removeprefix(str(tmp_path / name))

    check_answers(refused, Path(__file__).with_name("wrong_reports.txt"))


def test_what_is_odd(tmp_path: Path) -> None:
    def warnings(text: str) -> str:
        (tmp_path / "measured").write_text(text.replace("\\n", "\n"))
        return " | ".join(read(tmp_path / "measured").series[0].warnings)

    check_answers(warnings, Path(__file__).with_name("odd.txt"))


def test_the_wrong_format(tmp_path: Path) -> None:
    path = FOLDER / "ping_linux.txt"
    assert "it does not look like iperf3. It looks like ping." in refusal(
        path, format_name="iperf3"
    )
    assert "which says the unit of its times itself" in refusal(path, unit="s")
    assert "no columns to choose from" in refusal(path, format_name="ping", column="rtt")
    with pytest.raises(UsageError, match="unknown format 'pong'; did you mean ping"):
        read(path, "pong")


def test_what_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "measured"
    assert "No such file" in refusal(path)
    assert "Is a directory" in refusal(tmp_path)
    path.write_bytes(b"rtt\n20\n\xff\n")
    assert "line 3: not text in UTF-8" in refusal(path)
    path.write_bytes(b"rtt\0")
    assert "not text" in refusal(path)
    path.write_bytes("rtt_ms\n20\n".encode("utf-16"))  # as PowerShell redirects it
    assert read(path).series[0].rtt_ms == (20.0,)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", NAMES)
def test_no_damage_makes_a_traceback(name: str, tmp_path: Path) -> None:
    """Cut, with characters changed, and lines twice: read, or refused in a sentence."""
    chance = random.Random(name)
    text = (FOLDER / name).read_text()[:6000]
    path = tmp_path / "measured"
    for turn in range(60):
        damaged = list(text)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.choice('0-9x,;:{}[]"\n .eE\0é')
        whole = "".join(damaged)
        if turn % 3 == 0:
            whole = whole[: chance.randrange(len(whole))]
        path.write_text(whole)
        for format_name in (None, chance.choice(list(FORMATS))):
            with suppress(UsageError):
                read(path, format_name)
