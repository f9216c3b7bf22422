"""What is wrong with a file, in which line, and what was understood of it."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.reading import FORMATS, read
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent
NAMES = [name for name in make.FILES if name != "network.toml"]

REPLY = "64 bytes from 192.0.2.1: icmp_seq={} ttl=54 time={} ms\n"


def refusal(path: Path, **how: str) -> str:
    with pytest.raises(UsageError) as refused:
        read(path, **how)
    assert str(refused.value).startswith(str(path))
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " is empty"),
        ("hello\nworld\n", " is in no format that is known (har, iperf3"),
        ("host,colour\nx,red\n", "a CSV file has headings"),
        ("rtt_ms\n20\nz\n", ", line 3: 'z' is not a number (lost ones are empty, -1 or timeout)"),
        ("rtt_ms\n20\n-2\n", ", line 3: a round trip of -2 ms cannot be"),
        ("rtt_ms\n20\ninf\n", ", line 3: a round trip of inf ms cannot be"),
        ("rtt\n20\n90000\n", ", line 3: a round trip of 90000 ms is longer than a minute: is it"),
        ("rtt_ms\n0\n0\n", ": read as CSV of round trips, but there is no round trip in it, only"),
        ("rtt_ms\n\n*\nlost\n", "no round trip in it; 2 probes without an answer"),
        ("20,30\n40,50\n", ", line 1: 2 columns without headings"),
        ("from,to,rtt\nx,y,20\nx\n", ", line 3: 1 cells, but 3 headings"),
        ("from,to,rtt\nx,y,20\n,x,20\n", ", line 3: a site has no name"),
        (REPLY.format(1, 20) + REPLY.format(2, "x"), ", line 2: time=x is not a number"),
        (REPLY.format(1, -20), ", line 1: a round trip of -20 ms cannot be (read as ping"),
        ("x,a,b\na,,x\nb,3,\n", ", line 2: column b: 'x' is not a number"),
        ("x,a,a,b\na,,1,2\n", ": two columns are called 'a'"),
        ("x,a,b\na,,3,4\nb,1,2\n", ", line 2: 3 cells for 2 regions"),
        ('{"start": {}, "intervals": [}', ", line 1: not JSON: "),
        ('{\n"report": {"hubs": [', "line 2: not JSON: Expecting value (the text ends too early)"),
        ('{\n"report": {"hubs": []}}', "line 2: report.hubs: no hop in the report"),
        ('{"report": {"hubs": 3}}', "line 1: report.hubs: is not a list"),
        ('{"error": "no route", "start": 1, "intervals": 1}', "error: iperf3 says: no route"),
        ("time_connect: 0.03\ntime_appconnect: 0.02\ntime_total: 1\n", ", line 2: time_appconnect"),
        ("time_connect: 0.03\ntime_starttransfer: x\n", ", line 2: time_starttransfer is 'x', not"),
        ("time_connect: -0.03\ntime_total: 1\ntime_starttransfer: 1\n", ", line 1: time_connect i"),
        ("time_namelookup: 0\ntime_starttransfer: 1\nconnect:\n", "time_connect is missing"),
        ("time_connect: 2100\ntime_starttransfer: 4400\n", "are these milliseconds?"),
        ("seq 0: tcp response from x\n", ", line 1: 'seq 0: tcp response from x' is not as tcppin"),
        ("HPING x (eth0 192.0.2.1)\nrtt=3\n", ", line 2: 'rtt=3' is not as hping3 writes it"),
    ],
)
def test_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "measured"
    path.write_text(text)
    assert message in refusal(path)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("iperf3.json", '"TCP"', '"UDP"', "start.test_start: a test over UDP has no round trips"),
        ("iperf3.json", '"rtt"', '"rt"', "no interval has the sender's rtt"),
        ("iperf3.json", '"rtt": 3', '"rtt": -3', "line 19: a round trip of -32.606 ms cannot be"),
        ("calls.har", '"wait": 4', '"wait": -4', "line 24: log.entries[0].timings.wait: -43.593"),
        ("calls.har", '"url": "https://', '"url": "', "'gateway.example/v3/wallet/sign' is no"),
        ("mtr.json", '"Best": 27', '"Best": 57', "line 34: report.hubs[2]: Best 57.928, Avg"),
        ("mtr.json", '"Avg"', '"Av"', "line 12: report.hubs[0]: 'Avg' is missing"),
    ],
)
def test_what_is_wrong_in_a_report(
    name: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    text = (FOLDER / name).read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert message in refusal(path)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("rtt\n0.02\n0.03\n", "no unit is said: taken for milliseconds; if they are seconds, that"),
        ("rtt\n20\n0\n30\n", "0 ms is no round trip (in line 3): left out"),
        ("rtt\n20\n21\n22\n2000\n", "1 round trip of more than 10 times the median of 21.5 ms (in"),
        ("rtt\n21000\n22000\n", "the median is 21.5 s: slower than a geostationary satellite"),
        ("time,rtt\nnoon,20\n", "is read without times: 'noon' in line 2 is no time (seconds, or"),
        ("time,rtt\n1,20\n2,21\n1.5,22\n", "time goes backwards in line 4"),
        ("rtt\n9\n0\n0\n9\n", "(in lines 3, 4)"),
        ("rtt\n" + "9\n0\n" * 7, "(in lines 3, 5, 7, 9, 11 and 2 more)"),
        ("time,rtt\n1,20\n2,21\n3,22\n30,20\n", "gaps in time before what stands in line 5"),
        (REPLY.format(1, 20) + REPLY.format(3, 20), "ping's statistics are missing"),
        (REPLY.format(1, 20) + "From 192.0.2.9 icmp_seq=2 Time to live exceeded\n", "line 2: 192"),
        ("time_connect: 0.02\ntime_starttransfer: 0.05\n", "looking up the name is in the round"),
    ],
)
def test_what_is_odd(text: str, warning: str, tmp_path: Path) -> None:
    path = tmp_path / "measured"
    path.write_text(text)
    assert warning in "\n".join(read(path).series[0].warnings)


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
