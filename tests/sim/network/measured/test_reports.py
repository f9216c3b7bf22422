"""Files as people have them: what is right for each, by the program's own source or manual."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from mpcsim.cli import main
from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.fit import fit
from mpcsim.sim.network.measured.programs.windows_ping import _reply
from mpcsim.sim.network.measured.reading import Reading, read
from tests.vectors.network import make

FOLDER = Path(make.__file__).parent / "reports"


class Right(NamedTuple):
    """One pair of a file: round trips, their mean, losses, and what must be said."""

    b: str
    round_trips: int
    mean: float
    lost: str = ""
    said: str = ""
    a: str = "client"


def check(reading: Reading, expected: list[Right]) -> None:
    """Compare all pairs of a file."""
    pairs = [(each.a, each.b) for each in reading.series]
    assert pairs == [(each.a, each.b) for each in expected]
    for series, right in zip(reading.series, expected, strict=True):
        moments = series.moments
        assert moments.count == right.round_trips
        assert moments.mean_ms == pytest.approx(right.mean, abs=1e-3)
        if right.lost:
            assert f"{series.lost}/{series.sent}" == right.lost
        every = (*reading.summary, *series.understood, *series.warnings)
        assert right.said in "\n".join(every)
        assert fit(series).chosen is not None


GATEWAY = "gateway"


# Sources: iputils 20240905 ping_common.c; Windows ping.exe; fping 5.1 src/fping.c; hping3
# waitpacket.c; mtr 0.95 ui/report.c; iperf 3.19 src/iperf_api.c; HAR 1.2 and its writers, as
# har_writers.py names them; README.md of the folder for tables that nobody's program writes.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "ping_three_runs.txt",
            [Right(GATEWAY, 30, 30.9, "0/30", "3 runs: 10 round trips, mean 20.9 ms; 10")],
        ),
        ("ping_ipv6.txt", [Right(GATEWAY, 20, 19.9)]),
        ("ping_quiet.txt", [Right(GATEWAY, 98, 12.417, "2/100", "no single round trip: min")]),
        ("ping_windows.txt", [Right(GATEWAY, 9, 13, "1/10", "unit: whole milliseconds")]),
        ("ping_windows_german.txt", [Right(GATEWAY, 10, 22.9, "0/10", "whole milliseconds")]),
        ("fping.txt", [Right(GATEWAY, 20, 15.15, "0/20", "read as fping")]),
        ("hping3_verbose.txt", [Right(GATEWAY, 20, 26.05, "0/20", "read as hping3")]),
        ("firefox.har", [Right("api.example", 10, 31, said="ssl beside it: ssl is 2.00 times")]),
        ("mitmproxy.har", [Right("api.example", 10, 52.5, said="beside it, as mitmproxy 10.1.0")]),
        (
            "one_odd_entry.har",
            [Right("api.example", 10, 30, said="2 entries left out: line 219 (log.entries[10])")],
        ),
        ("starttime.csv", [Right(GATEWAY, 30, 34, said="unit: ms, as the heading says")]),
        (
            "target_column.csv",
            [Right("sin", 20, 230, said="2 pairs: client - sin, cl"), Right("fra", 20, 90)],
        ),
        ("pair_with_itself.csv", [Right("a", 30, 0.5, a="a"), Right("b", 30, 41.4333, a="a")]),
        ("unparsable_time.csv", [Right("b", 30, 41.4333, said="'yesterday' in line 2", a="a")]),
        ("lost_as_minus_one.csv", [Right("b", 36, 41.4444, "4/40", a="a")]),
        (
            "min_avg_max.csv",
            [
                Right("frankfurt", 0, 233.9, said="as limits: 231.2 to 251 ms", a="seoul"),
                Right("virginia", 0, 182.2, said="as limits: 181 to 190.4 ms", a="seoul"),
            ],
        ),
        (
            "matrix.md",
            [
                Right("seoul", 1, 2, a="seoul"),
                Right("frankfurt", 1, 234, said="unit: ms, as the cells say", a="seoul"),
                Right("frankfurt", 1, 1, a="frankfurt"),
            ],
        ),
        ("mtr_report.txt", [Right(GATEWAY, 20, 31.9, "0/20", "the last is a.example")]),
        ("mtr.csv", [Right(GATEWAY, 20, 31.92, "0/20", "taken for a.example")]),
        ("iperf3_json_stream.txt", [Right(GATEWAY, 5, 21.2, said="95 Mbit/s from the client")]),
    ],
)
def test_files_of_public_reports(name: str, expected: list[Right]) -> None:
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


PING = "64 bytes from {}: icmp_seq={} ttl=57 time={} ms\n"
HOP = "{:3}.|-- {:24} {:5.1f}%    20    0.4  {:5.1f}  {:5.1f}  {:5.1f}   0.2\n"
HOPS = "HOST: me                       Loss%   Snt   Last   Avg  Best  Wrst StDev\n"
BIDIR = (
    '{{"start": {{"test_start": {{"protocol": "TCP", "reverse": 0}}}}, "intervals": [{{"streams": '
    '[{{"rtt": 20000, "bytes": 9}}]}}], "end": {{"sum_sent": {{"bytes": 1448000}}, '
    '"sum_received": {{"bits_per_second": 1e7}}, "sum_sent{0}": {{"bytes": 1, "retransmits": 0}}, '
    '"sum_received{0}": {{"bits_per_second": 4e7}}}}}}'
)
SERVER = (
    '{"start": {"test_start": {"protocol": "TCP", "reverse": 1}}, "intervals": [{"streams": [{}]}],'
    ' "end": {"sum_received": {"bits_per_second": 1e7}}, "server_output_json": {"intervals": '
    '[{"streams": [{"rtt": 33000}]}]}}'
)
RAW = "h 0 192.0.2.254\nx 0 1\np 0 400 1\n" + "".join(
    f"x 1 {seq}\nh 1 192.0.2.9\np 1 {31000 + seq} {seq}\n" for seq in range(2, 6)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Without headers: numbers begin anew; hosts are told apart (iputils, grep'ed).
        (
            "".join(PING.format("192.0.2.1", n, 20) for n in (5, 6, 8, 7, 9, 1, 2, 3)),
            [Right(GATEWAY, 8, 20, "0/8", "2 runs: 5 round trips")],
        ),
        (
            PING.format("192.0.2.1", 1, 20) + PING.format("::1", 1, 30) + PING.format("::1", 3, 30),
            [Right("192.0.2.1", 1, 20), Right("::1", 2, 30, "1/3", "2 pairs")],
        ),
        # They begin anew after 65535, too.
        (
            "".join(PING.format("h", n % 65536, 20) for n in range(65530, 65545) if n != 65540),
            [Right(GATEWAY, 14, 20, "1/15")],
        ),
        # An answer that comes twice counts once, with the first one's time, marked or not.
        (
            "PING h (192.0.2.1) 56(84) bytes of data.\n"
            + PING.format("h", 1, 10)
            + PING.format("h", 1, 90).replace("\n", " (DUP!)\n")
            + PING.format("h", 2, 20)
            + PING.format("h", 2, 80)
            + PING.format("h", 4, 40)
            + "--- h ping statistics ---\n4 packets transmitted, 3 received, +2 duplicates\n",
            [Right(GATEWAY, 3, 70 / 3, "1/4")],
        ),
        # iputils counts otherwise than its lines; that holds.
        (
            "PING a (192.0.2.1) 56(84) bytes of data.\n"
            + PING.format("192.0.2.1", 9, 20)
            + "--- a ping statistics ---\n9 packets transmitted, 8 received, 11% packet loss\n",
            [Right(GATEWAY, 1, 20, "1/9", "ping itself counts 8 answers of 9, and 1 stand in")],
        ),
        # Solaris 10 (usr.sbin/ping/ping.c) and BusyBox 1.36 (networking/ping.c), quiet, too.
        (
            "PING h: 56 data bytes\n64 bytes from h (192.0.2.1): icmp_seq=0. time=10. ms\n"
            "----h PING Statistics----\n2 packets transmitted, 1 packets received, 50% packet "
            "loss\n"
            "round-trip (ms)  min/avg/max = 10/10/10\n",
            [Right(GATEWAY, 1, 10, "1/2", "Solaris")],
        ),
        (
            "PING h (192.0.2.1): 56 data bytes\n"
            "64 bytes from 192.0.2.1: seq=0 ttl=42 time=1.331 ms\n",
            [Right(GATEWAY, 1, 1.331, said="BusyBox")],
        ),
        (
            "--- h ping statistics ---\n9 packets transmitted, 9 packets received, 0% packet loss\n"
            "round-trip min/avg/max = 1.281/1.345/1.408 ms\n",
            [Right(GATEWAY, 9, 1.345, "0/9", "there is no deviation in the file")],
        ),
        # macOS 14 (ping.c) leaves duplicates unmarked where a broadcast is answered.
        (
            "PING h (192.0.2.255): 56 data bytes\n"
            + PING.format("192.0.2.1", 0, 2)
            + PING.format("192.0.2.2", 0, 9)
            + "--- h ping statistics ---\n"
            "1 packets transmitted, 1 packets received, +1 duplicates, 0.0% packet loss\n",
            [Right(GATEWAY, 1, 2, "0/1", "1 answer came twice")],
        ),
        # Windows in French, Spanish and Chinese (danielzzz/node-ping 72 and 110).
        (
            "Réponse de 192.0.2.1 : octets=32 temps=22 ms TTL=127\n"
            "Respuesta desde 192.0.2.1: bytes=32 tiempo<1m TTL=128\n",
            [Right(GATEWAY, 2, 11.25, said="1 answer within less than 1 ms: taken for 0.5 ms")],
        ),
        (
            "正在 Ping 192.0.2.1 具有 32 字节的数据:\n"
            "来自 192.0.2.1 的回复: 字节=32 时间=44ms TTL=117\n"
            "来自 192.0.2.9 的回复: 无法访问目标主机。\n\n192.0.2.1 的 Ping 统计信息:\n"
            "    数据包: 已发送 = 2，已接收 = 2，丢失 = 0 (0% 丢失)，\n",
            [Right(GATEWAY, 1, 44, "1/2", "taken for a lost probe")],
        ),
        (
            "Pinging h [192.0.2.1] with 32 bytes of data:\n"
            "    Packets: Sent = 9, Received = 9, Lost = 0 (0% loss),\n"
            "    Minimum = 12ms, Maximum = 12ms, Average = 12ms\n",
            [Right(GATEWAY, 9, 12, "0/9", "statistics alone")],
        ),
        # fping -c of two hosts (schweikert/fping 295), -C -q, and -e.
        (
            "192.0.2.8 : [0], 64 bytes, 74.9 ms (74.9 avg, 0% loss)\n"
            "192.0.2.7 : [0], timed out (NaN avg, 100% loss)\n"
            "192.0.2.8 : xmt/rcv/%loss = 1/1/0%, min/avg/max = 74.9/74.9/74.9\n",
            [Right("192.0.2.8", 1, 74.9, "0/1", "nothing came from 192.0.2.7")],
        ),
        ("a.example is alive (14.2 ms)\n", [Right(GATEWAY, 1, 14.2)]),
        (
            "a : xmt/rcv/%loss = 8/7/12%, min/avg/max = 500/501/512\n",
            [Right(GATEWAY, 7, 501, "1/8", "statistics alone")],
        ),
        # mtr: no StDev, IPv6, two reports; --raw (ui/raw.c).
        (
            HOPS.replace(" StDev", "")
            + "  1.|-- 2001:db8::9    5.0%   20  12.1  12.9  11.8  19.7\n",
            [Right(GATEWAY, 19, 12.9, "1/20", "StDev is not in the report")],
        ),
        (
            (HOPS + HOP.format(1, "a", 0, 30, 29, 40)) * 2,
            [Right(GATEWAY, 40, 30, "0/40", "2 runs")],
        ),
        (RAW, [Right(GATEWAY, 4, 31.0035, "0/4", "the last is 192.0.2.9")]),
        # iperf3 --bidir up to 3.10 and from 3.11 on (esnet/iperf 1196); server's; text before.
        *(
            (BIDIR.format(name), [Right(GATEWAY, 1, 20, said="40 Mbit/s to the client")])
            for name in ("", "_bidir_reverse")
        ),
        ("warning: x\n" + SERVER, [Right(GATEWAY, 1, 33, said="text before the report")]),
        # CSV: units in cells, decimal commas, a BOM, trailing separators, a column a target.
        ("rtt\n35 ms\n0.036 s\n", [Right(GATEWAY, 2, 35.5, said="unit: s, as the cells")]),
        ("\ufefffrom;to;rtt_ms;\na;b;20,5;\na;b;;\n", [Right("b", 1, 20.5, "1/2", a="a")]),
        ("rtt_ms\n20,5\n21,5\n", [Right(GATEWAY, 2, 21)]),
        ("20\n30\n", [Right(GATEWAY, 2, 25)]),
        ("\ufeffPing (s)\n0.02\n", [Right(GATEWAY, 1, 20)]),
        ("rtt_ms,rate\n20,7\n", [Right(GATEWAY, 1, 20)]),
        ("delay_ms\n20\n", [Right(GATEWAY, 1, 20)]),
        ("owd_ms\n10\n", [Right(GATEWAY, 1, 20)]),
        (
            "src\tdst\trtt\nx\ty\t20\nx\tz\t30\n",
            [Right("y", 1, 20, a="x"), Right("z", 1, 30, a="x")],
        ),
        ("sep=;\nhost;rtt_us\na;1.234,5\na;timed out\n", [Right("a", 1, 1.2345, "1/2")]),
        (
            "time,fra,sin\n1,90,230\n2,*,231\n",
            [Right("fra", 1, 90, "1/2", "each column is of the target"), Right("sin", 2, 230.5)],
        ),
        ("rtt_fra_ms,rtt_sin_ms\n90,230\n", [Right("fra", 1, 90), Right("sin", 1, 230)]),
        (
            "host,min_ms,avg_ms,max_ms,std_ms,sent,received\na,10,20,40,5,100,98\n",
            [Right("a", 98, 20, "2/100", "their deviation")],
        ),
        (
            "# Latency\nby | hand\n\n|ms|a|b|\n|--|--|--|\n|a|-|20|\n|b|22|-|\n",
            [Right("b", 1, 21, a="a")],
        ),
        (
            '{"sites": ["a", "b"], "rtt_us": [[null, 20000], [22000, 0]]}',
            [Right("b", 1, 21, a="a")],
        ),
        ("n,fra,sin\n1,90,lost\n2,92,230\n", [Right("fra", 2, 91), Right("sin", 1, 230, "1/2")]),
        # curl -w '%{json}' of two servers.
        (
            "".join(
                f'{{"url": "https://{host}/", "time_namelookup": 0.001, "time_connect": {at}}}\n'
                for host, at in (("a", 0.021), ("b", 0.031))
            ),
            [Right("a", 1, 20), Right("b", 1, 30)],
        ),
        # RIPE Atlas (Measurement Result Format 5000), an object a line; a unit beside a matrix.
        (
            '{"dst_name": "b", "src_addr": "a", "rcvd": 2, "sent": 3, "min": 31.4, "avg": 31.6, '
            '"max": 31.9}\n',
            [Right("b", 2, 31.6, "1/3", a="a")],
        ),
        (
            '{"unit": "us", "data": {"a": {"b": 20000}, "b": {"a": 21000}}}',
            [Right("b", 1, 20.5, said="unit: us, as the corner says", a="a")],
        ),
        # Nokia SR OS (networktocode/ntc-templates 768).
        (
            "PING 192.0.2.1 56 data bytes\n"
            "64 bytes from 192.0.2.1: icmp_seq=1 ttl=61 time=8.56ms.\n"
            "---- 192.0.2.1 PING Statistics ----\n"
            "1 packets transmitted, 1 packets received, 0.00% packet loss\n",
            [Right(GATEWAY, 1, 8.56, "0/1")],
        ),
    ],
)
def test_kinds(text: str, expected: list[Right], tmp_path: Path) -> None:
    path = tmp_path / "measured"
    path.write_text(text, encoding="utf-8")
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


HALF_AN_HOUR = HOPS + HOP.format(1, "192.0.2.9", 0, 30, 29, 40)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ((FOLDER / "starttransfer.csv").read_text(), "'starttransfer' may be curl's time to the f"),
        ((FOLDER / "arrivals_ms.csv").read_text(), "a time may be when something was, or how long"),
        ((FOLDER / "http_without_ssl_phase.har").read_text(), "in lines 20, 41, 62, 83, 104 and 5"),
        (har("x", (-1, -1)), "only a call that opens one shows a round trip"),
        (har("x", (-7, 3)), "there is no call over a network in it; 1 entry left out"),
        (har("x", (50, 47)), "the median of ssl is 0.94 of connect: inside or beside it"),
        ("starttls\n5\n6\n", "'starttls' may be the time of a TLS handshake"),
        ("rtt_tcp,rtt_icmp,n\n1,2,3\n", "which of the columns 'rtt_tcp', 'rtt_icmp', 'n' has"),
        ("time,upload,download\n1,2,3\n", "which of the columns 'time', 'upload', 'download' has"),
        ("id,ping_count\n1,2\n", "which of the columns 'id', 'ping_count' has the round trips?"),
        ("region,host,rtt\nx,a,1\nx,b,2\n", "which column is the end, 'region' or 'host'?"),
        ('rtt\n"1,234"\n"5,678"\n', "line 2: '1,234': a decimal comma, or thousands?"),
        ("rtt_ms\n0.02 s\n", "line 2: a number in s, under a heading (or --unit) of another"),
        ("host,rtt\na,20,5\n", "line 2: 3 cells, but 2 headings: is there a decimal comma?"),
        ("host;rtt;\na;1;,5;\n", "line 2: 3 cells, but 2 headings"),
        ("b : 1.5\na : 1.5 2z.5\n", "line 2: 'a : 1.5 2z.5' is not as fping writes it"),
        ("from,min_ms,avg_ms,max_ms\na,20,10,30\n", "line 2: minimum 20, mean 10 and maximum 30"),
        (HALF_AN_HOUR + HOP.format(2, "???", 100, 0, 0, 0), "line 3: the target (last hop) never"),
        (
            '{"report": {"mtr": {"dst": "192.0.2.1"}, "hubs": [{"host": "192.0.2.9", "Loss%": 0, '
            '"Snt": 9, "Avg": 3, "Best": 2, "Wrst": 4}]}}',
            "the last hop, 192.0.2.9, is not the target, 192.0.2.1, which never answered",
        ),
        (RAW + "x 2 7\n" * 1 + "x 2 8\nx 2 9\n", "the target never answered: beyond hop 2"),
        ("MTR.0.86,1,OK,a,1,192.0.2.1,0.00\n", "line 1: there are no headings above it"),
        ("0\n0\n1\n1\n2\n3\n", "a link trace of mahimahi: a rate over time, 24 Mbit/s on average"),
        ('{"start": {}, "intervals": [], "end": {}, "error": "busy"}', "iperf3 says: busy; run it"),
        ("192.0.2.7 : xmt/rcv/%loss = 3/0/100%\n", "no round trip in it; 3 probes without an answ"),
        ("ad,123ms\nae,456ms\n", "line 1: 2 columns without headings"),
        ("PING a:443 (/):\nconnected to 192.0.2.1:443, seq=0 time= 84.97 ms\n", "it is httping"),
        ("Probing 192.0.2.1:443/tcp - Port is open - time=12.3ms\n", "it is tcping, which has no"),
        ("| Host - % | Sent | Recv | Best | Avrg |\n|--|--|\n", "it is WinMTR, which has no reade"),
        ("traceroute to a (192.0.2.9), 30 hops max\n", "it is traceroute, which has no reader"),
        ("PING h (192.0.2.1) 56(84) bytes of data.\n", "Give the file as the program printed it"),
    ],
)
def test_refusals_name_line_text_and_remedy(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "measured"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        read(path)
    assert message in str(refused.value)


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
