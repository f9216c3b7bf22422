"""Files as people have them: what is right for each, by the program's own source or manual."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from mpcsim.cli import main
from mpcsim.sim.network.measured.fit import fit
from mpcsim.sim.network.measured.programs.windows_ping import _reply
from mpcsim.sim.network.measured.reading import Reading, read
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent / "reports"


class Right(NamedTuple):
    """One pair of a file: round trips, their mean, losses, and what must be said."""

    pair: str
    round_trips: int
    mean: float
    lost: str
    said: str


def table(name: str) -> list[tuple[str, str, list[Right]]]:
    """Return what a table has: kinds of files, their texts, and what is right (``-``: nothing)."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    kinds = []
    for kind, of_it, rows in re.findall(r"^## (.+)\n([\s\S]*?)((?:^=> .+\n)+)", text, re.MULTILINE):
        expected = []
        for row in rows.splitlines():
            pair, count, mean, *more = row.removeprefix("=> ").split(" | ")
            lost, said = ("" if cell == "-" else cell for cell in more)
            expected.append(Right(pair, int(count), float(mean), lost, said))
        kinds.append((kind, of_it, expected))
    assert len(kinds) == text.count("## ")
    return kinds


def check(reading: Reading, expected: list[Right]) -> None:
    """Compare all pairs of a file."""
    assert [f"{each.a} - {each.b}" for each in reading.series] == [each.pair for each in expected]
    for series, right in zip(reading.series, expected, strict=True):
        moments = series.moments
        assert moments.count == right.round_trips
        assert moments.mean_ms == pytest.approx(right.mean, abs=1e-3)
        if right.lost:
            assert f"{series.lost}/{series.sent}" == right.lost
        every = (*reading.summary, *series.understood, *series.warnings)
        assert right.said in "\n".join(every)
        assert fit(series).chosen is not None


# Sources: iputils 20240905 ping_common.c; Windows ping.exe; fping 5.1 src/fping.c; hping3
# waitpacket.c; mtr 0.95 ui/report.c; iperf 3.19 src/iperf_api.c; HAR 1.2 and its writers, as
# har_writers.py names them; README.md of the folder for tables that nobody's program writes.
@pytest.mark.parametrize(("name", "_", "expected"), table("reports.txt"))
def test_files_of_public_reports(name: str, _: str, expected: list[Right]) -> None:
    check(read(FOLDER / name), expected)


def test_a_json_matrix_is_that_of_a_csv(tmp_path: Path) -> None:
    found = read(FOLDER / "matrix.json").series
    means = {frozenset((each.a, each.b)): each.moments.mean_ms for each in found}
    assert len(means) == 6
    assert means[frozenset(("seoul", "frankfurt"))] == pytest.approx(234.0)
    (tmp_path / "nested.json").write_text(
        '{"unit": "ms", "data": ' + (FOLDER / "matrix.json").read_text() + "}"
    )
    assert [each.rtt_ms for each in read(tmp_path / "nested.json").series] == [
        each.rtt_ms for each in found
    ]


@pytest.mark.parametrize(("_", "text", "expected"), table("kinds.txt"))
def test_kinds(_: str, text: str, expected: list[Right], tmp_path: Path) -> None:
    path = tmp_path / "measured"
    path.write_text(text.replace("\\ufeff", "\ufeff").replace("\\t", "\t"), encoding="utf-8")
    check(read(path), expected)


def har(creator: str, *calls: tuple[float, float], scheme: str = "https") -> str:
    """Return a log of calls with these times of connect and ssl."""
    entries = ", ".join(
        f'{{"request": {{"url": "{scheme}://a/"}}, '
        f'"timings": {{"connect": {connect}, "ssl": {ssl}}}}}'
        for connect, ssl in calls
    )
    return f'{{"log": {{"creator": {{"name": "{creator}"}}, "entries": [{entries}]}}}}'


@pytest.mark.parametrize(
    ("text", "mean", "said"),
    [
        (har("WebInspector", (70, 40)), 30, "connect has ssl inside, as WebInspector"),
        (har("mitmproxy har_dump", (52, 40)), 52, "beside it, as mitmproxy"),
        (har("Firefox", (70, 40)), 30, "inside, as HAR 1.2 says: beside it, a TLS handshake"),
        (har("Firefox", (31, 30)), 31, "beside it, as Firefox"),
        (har("x", (31, 62), (30, 33)), 30.5, "beside it: ssl is 1.55 times"),
        (har("x", (50, -1), scheme="http"), 50, "no connection has an ssl phase"),
        (har("WebInspector", (70, 40), (-7, 3)), 30, "1 entry left out"),
        (har("WebInspector", (70, 40), (50, -1)), 30, "connect may hold the TLS handshake: left"),
    ],
)
def test_what_connect_means(text: str, mean: float, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log.har"
    path.write_text(text)
    reading = read(path)
    assert reading.series[0].moments.mean_ms == pytest.approx(mean)
    assert said in "\n".join((*reading.summary, *reading.series[0].warnings))


def test_one_of_several_hosts_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network", "fit", str(FOLDER / "target_column.csv")]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    first = lines.index(f"{FOLDER / 'target_column.csv'}: read as CSV of round trips")
    assert lines[first + 1 : first + 3] == [
        "2 pairs: client - sin, client - fra (one: --site=client --site=sin)",
        "unit: ms, as the heading says",
    ]
    itself = ["network", "fit", str(FOLDER / "pair_with_itself.csv"), "--site=a", "--site=a"]
    assert main(itself) == 0
    assert "a - a: 30 round trips" in capsys.readouterr().out
    options = ["--site=client", "--site=fra"]
    assert main(["network", "fit", str(FOLDER / "target_column.csv"), *options]) == 0
    assert "client - fra: 20 round trips" in (said := capsys.readouterr().out)
    assert "sin" not in said


@pytest.mark.parametrize(
    ("line", "is_reply"),
    [
        ("Reply from 10.0.0.1: bytes=32 time=5ms TTL=54", True),
        ("Reply from 10.0.0.1: time<1ms", True),
        ("Reply from 10.0.0.1: time=5ms", False),
        ("Reply from fe80::1: time=5ms", True),
    ],
)
def test_windows_tells_the_ttl_of_version_4_alone(line: str, is_reply: bool) -> None:
    assert (_reply(line) is not None) == is_reply


def test_windows_text_in_its_own_code_page(tmp_path: Path) -> None:
    """Redirected by cmd.exe, German text is in code page 850, not in UTF-8."""
    text = (FOLDER / "ping_windows_german.txt").read_text()
    (tmp_path / "ping.txt").write_bytes(text.encode("cp850"))
    assert read(tmp_path / "ping.txt").series[0].sent == 10
