"""Each reader against the grammar of its format, with noise: it reads right, or refuses.

A writer turns runs of probes into a text, as the program writes it; noise adds what stands in such
files by the way, or makes one number unreadable. Never is there a time that was not written, and
never one less without a word about it. Sources of the forms: the docstrings of the readers.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.reading import Reading, read
from mpcsim.sim.network.measured.series import ICMP_WARNING

Run = tuple[str, list[float | None]]
"""A host, and the time of each probe in ms; None: it got lost."""

HOSTS = {"a.example": "192.0.2.1", "b.example": "2001:db8::7", "c.example": "::7"}
JUNK = ("", "  ", "^C", "$ date", "some message: 12", "ssh: connection shared")
SITES = st.sampled_from(sorted(HOSTS))
TIMES = st.one_of(st.none(), st.integers(1, 9999).map(lambda tenths: tenths / 10))
RUNS = st.lists(st.tuples(SITES, st.lists(TIMES, min_size=1, max_size=6)), min_size=1, max_size=3)


def answered(times: Sequence[float | None]) -> list[float]:
    return [ms for ms in times if ms is not None]


def statistics(host: str, times: Sequence[float | None], word: str = "received") -> str:
    got = answered(times)
    share = 100 - 100 * len(got) // len(times)
    text = f"\n--- {host} ping statistics ---\n{len(times)} packets transmitted, "
    text += f"{len(got)} {word}, {share}% packet loss, time 9ms\n"
    if got:
        text += f"rtt min/avg/max/mdev = {min(got)}/{sum(got) / len(got):.3f}/{max(got)}/1.0 ms\n"
    return text + "\n"


def ping(runs: Sequence[Run]) -> str:
    text = ""
    for host, times in runs:
        address = HOSTS[host]
        text += f"PING {host}({address}) 56 data bytes\n"
        for seq, ms in enumerate(times, 1):
            if ms is not None:
                text += f"64 bytes from {address}: icmp_seq={seq} ttl=57 time={ms} ms\n"
        text += statistics(host, times)
    return text


def ping_macos(runs: Sequence[Run]) -> str:
    text = ""
    for host, times in runs:
        text += f"PING {host} (192.0.2.1): 56 data bytes\n"
        for seq, ms in enumerate(times):
            if ms is None:
                text += f"Request timeout for icmp_seq {seq}\n"
            else:
                text += f"64 bytes from 192.0.2.1: icmp_seq={seq} ttl=57 time={ms:.3f} ms\n"
        text += statistics(host, times, "packets received")
    return text


def ping_german(runs: Sequence[Run]) -> str:
    text = ping(runs)
    for english, german in (
        ("bytes from", "Bytes von"),
        ("time=", "Zeit="),
        ("packets transmitted", "Pakete übertragen"),
        ("received", "empfangen"),
        ("% packet loss", "% Paketverlust"),
        ("ping statistics", "Ping-Statistiken"),
    ):
        text = text.replace(english, german)
    return text


def ping_windows(runs: Sequence[Run]) -> str:
    text = ""
    for host, times in runs:
        address = HOSTS[host]
        text += f"\nPing wird ausgeführt für {host} [{address}] mit 32 Bytes Daten:\n"
        for ms in times:
            if ms is None:
                text += "Zeitüberschreitung der Anforderung.\n"
            elif ":" in address:
                text += f"Antwort von {address}: Zeit={int(ms) + 1}ms\n"
            else:
                text += f"Antwort von {address}: Bytes=32 Zeit={int(ms) + 1}ms TTL=57\n"
        got = len(answered(times))
        text += f"\nPing-Statistik für {address}:\n    Pakete: Gesendet = {len(times)}, "
        text += f"Empfangen = {got}, Verloren = {len(times) - got}\n    "
        text += f"({100 - 100 * got // len(times)}% Verlust),\n"
    return text


def fping(runs: Sequence[Run]) -> str:
    lines = []
    for seq in range(max(len(times) for _, times in runs)):
        for host, times in runs:
            if seq < len(times):
                ms = times[seq]
                what = "timed out" if ms is None else f"64 bytes, {ms} ms"
                lines.append(f"{host} : [{seq}], {what} (1.0 avg, 0% loss)")
    return "\n".join(lines) + "\n"


def fping_all(runs: Sequence[Run]) -> str:
    return "".join(
        f"{host:12} : {' '.join('-' if ms is None else str(ms) for ms in times)}\n"
        for host, times in runs
    )


def hping3(runs: Sequence[Run], verbose: bool = False) -> str:
    text = ""
    for host, times in runs:
        text += f"HPING {host} (eth0 192.0.2.1): S set, 40 headers + 0 data bytes\n"
        for seq, ms in enumerate(times):
            if ms is not None:
                text += "len=44 ip=192.0.2.1 ttl=57 DF id=0 "
                text += "tos=0 iplen=44\n" if verbose else ""
                text += f"sport=443 flags=SA seq={seq} win=29200 rtt={ms:.1f} ms\n"
                text += "seq=1234567 ack=987654 sum=ab12 urp=0\n\n" if verbose else ""
        text += f"\n--- {host} hping statistic ---\n{len(times)} packets tramitted, "
        text += f"{len(answered(times))} packets received, 0% packet loss\n"
    return text


def hping3_verbose(runs: Sequence[Run]) -> str:
    return hping3(runs, verbose=True)


def tcpping(runs: Sequence[Run]) -> str:
    text = ""
    for host, times in runs:
        for seq, ms in enumerate(times):
            what = f"tcp response from {host} (192.0.2.1) [open]  {ms} ms"
            text += f"seq {seq}: {'no response (timeout)' if ms is None else what}\n"
    return text


def rows(runs: Sequence[Run], lost: str) -> list[tuple[str, str]]:
    return [(host, lost if ms is None else str(ms)) for host, times in runs for ms in times]


def csv_of_targets(runs: Sequence[Run]) -> str:
    return "target,rtt_ms\n" + "".join(f"{host},{ms}\n" for host, ms in rows(runs, "-1"))


def csv_german(runs: Sequence[Run]) -> str:
    lines = "".join(f"{host};{ms.replace('.', ',')};\n" for host, ms in rows(runs, "timeout"))
    return "\ufeffhost;rtt;\n" + lines


def csv_with_units(runs: Sequence[Run]) -> str:
    return "when,dst,ping\n" + "".join(
        f"2026-01-01T00:00:00Z,{host},{f'{ms} ms' * (ms != '')}\n" for host, ms in rows(runs, "")
    )


def markdown(runs: Sequence[Run]) -> str:
    return "| host | rtt (ms) |\n|---|---:|\n" + "".join(
        f"| {host} | {ms} |\n" for host, ms in rows(runs, "*")
    )


def json_rows(runs: Sequence[Run]) -> str:
    found = [{"to": host, "rtt_ms": ms} for host, times in runs for ms in times]
    return json.dumps(found, indent=1)


def iperf3_stream(runs: Sequence[Run]) -> str:
    events = []
    for host, times in runs:
        start = {"connecting_to": {"host": host}, "test_start": {"protocol": "TCP", "reverse": 0}}
        events.append({"event": "start", "data": start})
        for ms in answered(times):
            stream = {"rtt": round(ms * 1000), "bytes": 9}
            events.append({"event": "interval", "data": {"streams": [stream]}})
        sums = {"sum_sent": {"retransmits": 0}, "sum_received": {"bits_per_second": 1e6}}
        events.append({"event": "end", "data": sums})
    return "".join(json.dumps(each) + "\n" for each in events)


def har(runs: Sequence[Run], key_path: bool = True) -> str:
    entries = [
        {
            "request": {"url": f"https://{host}/"},
            "timings": {
                "connect": -1 if ms is None else 2 * ms if key_path else ms,
                "ssl": -1 if ms is None else ms,
            },
        }
        for host, times in runs
        for ms in times
    ]
    creator = {"name": "WebInspector" if key_path else "Firefox", "version": "1"}
    return json.dumps({"log": {"creator": creator, "entries": entries}}, indent=1)


def har_firefox(runs: Sequence[Run]) -> str:
    return har(runs, key_path=False)


LINES = (ping, ping_macos, ping_german, ping_windows, fping, hping3, hping3_verbose, tcpping)
COUNTED: tuple[Callable[[Sequence[Run]], str], ...] = (*LINES, fping_all)
TABLES = (csv_of_targets, csv_german, csv_with_units, markdown, json_rows)
CALLS = (iperf3_stream, har, har_firefox)
WRITERS = (*COUNTED, *TABLES, *CALLS)


def found(text: str, newline: str = "\n") -> Reading:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "measured")
        path.write_text(text, encoding="utf-8", newline=newline)
        return read(path)


def truth(writer: Callable[..., str], runs: Sequence[Run]) -> dict[str, tuple[list[float], int]]:
    """Return the times of every host that answered, and how many probes it lost."""
    right: dict[str, tuple[list[float], int]] = {}
    by_host = defaultdict(list)
    for host, times in runs:
        by_host[host] += times
    for host, times in by_host.items():
        whole = [float(int(ms) + 1) for ms in answered(times)]
        got = whole if writer is ping_windows else answered(times)
        if got:
            right[host] = got, len(times) - len(got)
    if len(by_host) == 1 and writer in (*COUNTED, iperf3_stream):
        return dict(zip(("gateway",), right.values(), strict=False))
    return right


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=20)
@given(runs=RUNS, data=st.data())
def test_it_reads_right(writer: Callable[[Sequence[Run]], str], runs: list[Run], data) -> None:
    if writer in (fping, fping_all, *CALLS):
        runs = list({host: (host, times) for host, times in runs}.values())
    if writer in (iperf3_stream, tcpping):  # which name no host that is silent
        runs = [(host, times) for host, times in runs if answered(times)]
    right = truth(writer, runs)
    if not runs:
        return
    lines = writer(runs).split("\n")
    if writer in LINES and writer is not ping_windows:
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(lines)))
            lines.insert(at, data.draw(st.sampled_from(JUNK)))
    newline = data.draw(st.sampled_from(("\n", "\r\n")))
    try:
        reading = found("\n".join(lines), newline)
    except UsageError:
        assert not right
        return
    assert {each.b: pytest.approx(each.rtt_ms) for each in reading.series} == {
        host: times for host, (times, _) in right.items()
    }
    if writer not in CALLS:
        assert {each.b: each.lost for each in reading.series} == {
            host: lost for host, (_, lost) in right.items()
        }


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=20)
@given(runs=RUNS, data=st.data())
def test_a_damaged_number_is_no_time(
    writer: Callable[[Sequence[Run]], str], runs: list[Run], data
) -> None:
    """A letter in the place of a digit: refused, or said, and no other time in its place."""
    text = writer(runs)
    digits = [at for at, letter in enumerate(text) if letter.isdigit()]
    assume(digits)
    at = data.draw(st.sampled_from(digits))
    damaged = text[:at] + data.draw(st.sampled_from("zZ?;é")) + text[at + 1 :]
    try:
        reading = found(damaged)
        whole = found(text)
    except UsageError:
        return
    before = sorted(round(ms, 6) for each in whole.series for ms in each.rtt_ms)
    after = sorted(round(ms, 6) for each in reading.series for ms in each.rtt_ms)
    missing = list(before)
    for ms in after:
        assert ms in missing, (ms, damaged)
        missing.remove(ms)
    if missing:
        said = [
            text
            for each in reading.series
            for text in (*each.warnings, *each.understood)
            if text != ICMP_WARNING
        ]
        assert said or sum(each.lost for each in reading.series) > 0
