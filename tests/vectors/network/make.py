"""Make the files in this folder: synthetic measurements, the same ones every time.

    python -m tests.vectors.network.make

Nothing here was measured: a generator draws the round trips, and what follows writes them down as
the programs do.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpcsim.sim.network.measured.assembly import assemble
from mpcsim.sim.network.measured.fit import fit
from mpcsim.sim.network.measured.reading import read

HERE: Final = Path(__file__).parent
SEED: Final = 20260108
BEGIN_S: Final = 1_760_000_000.0
"""Of times of day: some moment in October 2025."""
ADDRESS: Final = "192.0.2.1"
HOST: Final = "gateway.example"

Times = NDArray[np.float64]


def series(n: int, floor: float, median: float, sigma: float, memory: float, *, of: int) -> Times:
    """Round trips in ms: a floor and a log-normal part, whose logarithms remember each other.

    Args:
        memory: correlation of neighbours' logarithms, from 0 on and below 1.
        of: which series it is; each has a generator of its own.
    """
    steps = np.random.default_rng([SEED, of]).standard_normal(n)
    logs = np.empty(n)
    logs[0] = steps[0]
    for at in range(1, n):
        logs[at] = memory * logs[at - 1] + np.sqrt(1 - memory**2) * steps[at]
    return np.asarray(floor + (median - floor) * np.exp(sigma * logs))


def losses(n: int, share: float, *, of: int) -> NDArray[np.bool_]:
    """Which of so many probes get lost."""
    return np.asarray(np.random.default_rng([SEED, of, 1]).random(n) < share)


def ping_linux() -> str:
    """``ping -D -c 600`` of iputils, with losses, an answer that comes twice, and statistics."""
    times, lost = series(600, 27, 31, 0.7, 0.8, of=1), losses(600, 0.01, of=1)
    lines = [f"PING {HOST} ({ADDRESS}) 56(84) bytes of data."]
    for seq, (ms, gone) in enumerate(zip(times, lost, strict=True), 1):
        if gone:
            continue
        at = BEGIN_S + 1.001 * seq
        reply = f"[{at:.6f}] 64 bytes from {ADDRESS}: icmp_seq={seq} ttl=54 time={_three(ms)} ms"
        lines.append(reply)
        if seq == 300:
            lines.append(f"{reply} (DUP!)")
    got = times[~lost]
    share = 100 * lost.sum() / len(times)
    lines += [
        "",
        f"--- {HOST} ping statistics ---",
        f"600 packets transmitted, {len(got)} received, +1 duplicates, {share:.6g}% packet loss, "
        "time 599940ms",
        f"rtt min/avg/max/mdev = {got.min():.3f}/{got.mean():.3f}/{got.max():.3f}/"
        f"{got.std():.3f} ms",
    ]
    return _text(lines)


def ping_macos() -> str:
    """``ping -c 60`` of macOS, with timeouts."""
    times, lost = series(60, 9, 11, 0.5, 0.0, of=2), losses(60, 0.05, of=2)
    lines = [f"PING {HOST} ({ADDRESS}): 56 data bytes"]
    for seq, (ms, gone) in enumerate(zip(times, lost, strict=True)):
        reply = f"64 bytes from {ADDRESS}: icmp_seq={seq} ttl=54 time={ms:.3f} ms"
        lines.append(f"Request timeout for icmp_seq {seq}" if gone else reply)
    got = times[~lost]
    lines += [
        "",
        f"--- {HOST} ping statistics ---",
        f"60 packets transmitted, {len(got)} packets received, {100 * lost.mean():.1f}% packet "
        "loss",
        f"round-trip min/avg/max/stddev = {got.min():.3f}/{got.mean():.3f}/{got.max():.3f}/"
        f"{got.std():.3f} ms",
    ]
    return _text(lines)


def hping3() -> str:
    """``hping3 -S -p 443 -c 200``."""
    times, lost = series(200, 28, 33, 0.6, 0.0, of=3), losses(200, 0.02, of=3)
    lines = [f"HPING {HOST} (eth0 {ADDRESS}): S set, 40 headers + 0 data bytes"]
    lines += [
        f"len=44 ip={ADDRESS} ttl=54 DF id=0 sport=443 flags=SA seq={seq} win=64240 rtt={ms:.1f} ms"
        for seq, (ms, gone) in enumerate(zip(times, lost, strict=True))
        if not gone
    ]
    got = times[~lost]
    lines += [
        "",
        f"--- {HOST} hping statistic ---",
        f"200 packets tramitted, {len(got)} packets received, {round(100 * lost.mean())}% packet "
        "loss",
        f"round-trip min/avg/max = {got.min():.1f}/{got.mean():.1f}/{got.max():.1f} ms",
    ]
    return _text(lines)


def tcpping() -> str:
    """``tcpping -x 100 host 443``."""
    times, lost = series(100, 28, 33, 0.6, 0.0, of=4), losses(100, 0.03, of=4)
    return _text(
        f"seq {seq}: no response (timeout)"
        if gone
        else f"seq {seq}: tcp response from {HOST} ({ADDRESS}) [open]  {ms:.3f} ms"
        for seq, (ms, gone) in enumerate(zip(times, lost, strict=True))
    )


def mtr() -> str:
    """``mtr --json -c 100``, of version 0.95."""
    hubs = []
    for count, (host, floor, share) in enumerate(
        (("192.0.2.254", 0.4, 0.0), ("198.51.100.7", 8, 0.3), (ADDRESS, 27, 0.01)), 1
    ):
        times = series(100, floor, 1.15 * floor, 0.6, 0.0, of=10 + count)
        hub: dict[str, Any] = {"count": count, "host": host, "Loss%": 100 * share, "Snt": 100}
        hub |= {"Last": times[-1], "Avg": times.mean(), "Best": times.min(), "Wrst": times.max()}
        hub["StDev"] = times.std()
        hubs.append({key: _rounded(value) for key, value in hub.items()})
    about = {"src": "caller", "dst": HOST, "tos": 0, "tests": 100, "psize": "64"}
    return _json({"report": {"mtr": {**about, "bitpattern": "0x00"}, "hubs": hubs}})


def iperf3() -> str:
    """``iperf3 --json -t 20``."""
    times = series(20, 29, 36, 0.4, 0.6, of=5)
    again = np.random.default_rng([SEED, 5, 2]).poisson(2.0, 20)
    rate, blocks = 43.7e6, []
    for at, (ms, retransmits) in enumerate(zip(times, again, strict=True)):
        stream = {
            "socket": 5,
            "start": at,
            "end": at + 1,
            "seconds": 1,
            "bytes": round(rate / 8),
            "bits_per_second": rate,
            "retransmits": int(retransmits),
            "snd_cwnd": 205616,
            "rtt": round(ms * 1000),
            "rttvar": 900,
            "pmtu": 1500,
            "omitted": False,
            "sender": True,
        }
        total = {"start": at, "end": at + 1, "bits_per_second": rate, "sender": True}
        blocks.append({"streams": [stream], "sum": total})
    sent = {"bytes": round(20 * rate / 8), "bits_per_second": rate, "retransmits": int(again.sum())}
    start = {
        "version": "iperf 3.16",
        "connecting_to": {"host": HOST, "port": 5201},
        "tcp_mss_default": 1448,
        "test_start": {"protocol": "TCP", "num_streams": 1, "duration": 20, "reverse": 0},
    }
    end = {"sum_sent": sent, "sum_received": {"bytes": sent["bytes"], "bits_per_second": 43.1e6}}
    return _json({"start": start, "intervals": blocks, "end": end})


def har() -> str:
    """40 calls to a node in a browser's log: every other one over a connection that was there."""
    round_trips = series(120, 28, 33, 0.3, 0.0, of=6).reshape(40, 3)
    entries = []
    for at, (connect, tls, wait) in enumerate(round_trips):
        new = at % 2 == 0
        timings = {"blocked": 1.2, "dns": -1, "connect": -1, "ssl": -1}
        if new:
            timings |= {"connect": connect + tls + 2.0, "ssl": tls + 2.0}
        timings |= {"send": 0.1, "wait": wait + 12.0, "receive": 0.4}
        header = {"name": "Server-Timing", "value": "total;dur=12.0"}
        entries.append(
            {
                "startedDateTime": f"2025-10-09T10:{at:02}:00.000Z",
                "request": {"method": "POST", "url": f"https://{HOST}/v3/wallet/sign"},
                "response": {"status": 200, "headers": [header]},
                "timings": {key: _rounded(value) for key, value in timings.items()},
            }
        )
    creator = {"name": "tests/vectors/network/make.py", "version": "1"}
    return _json({"log": {"version": "1.2", "creator": creator, "entries": entries}})


def curl_calls() -> list[dict[str, float]]:
    """Seconds since the start of each of 50 calls; one SYN gets lost."""
    calls = []
    for at, (connect, tls, wait) in enumerate(series(150, 28, 33, 0.3, 0.0, of=7).reshape(50, 3)):
        looked_up = 2.0
        connected = looked_up + connect + (1000.0 if at == 17 else 0.0)
        secured = connected + tls + 3.0
        first = secured + 0.2 + wait + 15.0
        calls.append(
            {
                "time_namelookup": looked_up / 1000,
                "time_connect": connected / 1000,
                "time_appconnect": secured / 1000,
                "time_pretransfer": (secured + 0.2) / 1000,
                "time_starttransfer": first / 1000,
                "time_total": (first + 0.3) / 1000,
            }
        )
    return calls


def curl_lines() -> str:
    """Lines of a name and a time, as of ``curl -w @format``."""
    return _text(
        "\n".join([*(f"{name:>20}: {value:.6f}s" for name, value in call.items()), ""])
        for call in curl_calls()
    )


def curl_json() -> str:
    """``curl -w '%{json}\\n'``, with fewer names than curl writes."""
    return _text(
        json.dumps(
            {"http_code": 200, "num_connects": 1}
            | {name: round(value, 6) for name, value in call.items()}
        )
        for call in curl_calls()
    )


def pairs() -> str:
    """A CSV of the wallet's three links, a sample every 10 s, with losses."""
    rows: list[Sequence[object]] = [("time", "from", "to", "rtt_ms")]
    links = (
        ("client", series(400, 27, 31, 0.7, 0.8, of=8), losses(400, 0.004, of=8)),
        ("operator", series(400, 0.7, 0.8, 0.4, 0.0, of=9), losses(400, 0.0, of=9)),
        ("institution", series(400, 228, 231, 0.5, 0.5, of=10), losses(400, 0.001, of=10)),
    )
    for at in range(400):
        for site, times, lost in links:
            cell = "" if lost[at] else f"{times[at]:.3f}"
            rows.append((f"{BEGIN_S + 10 * at:.1f}", site, "gateway", cell))
    return _csv(rows)


def regions() -> str:
    """A matrix of four regions; both directions differ a little."""
    names = ("seoul", "tokyo", "frankfurt", "virginia")
    known = {(0, 1): 36, (0, 2): 231, (0, 3): 180, (1, 2): 227, (1, 3): 150, (2, 3): 93}
    jitter = np.random.default_rng([SEED, 11]).uniform(-0.6, 0.6, (4, 4))
    rows: list[Sequence[object]] = [("rtt_ms", *names)]
    for i, name in enumerate(names):
        cells = [
            known.get((min(i, j), max(i, j)), 0.9) + (jitter[i, j] if i != j else 0)
            for j in range(4)
        ]
        rows.append((name, *(f"{cell:.1f}" for cell in cells)))
    return _csv(rows)


def network() -> str:
    """What ``mpcsim network fit pairs.csv --output network.toml`` writes."""
    path = HERE / "pairs.csv"
    made = assemble([fit(each) for each in read(path).series], name="measured (synthetic)")
    out = HERE / "network.toml"
    made.network.save(out, made.note(path.name))
    return out.read_text(encoding="utf-8")


FILES: Final = {
    "ping_linux.txt": ping_linux,
    "ping_macos.txt": ping_macos,
    "hping3.txt": hping3,
    "tcpping.txt": tcpping,
    "mtr.json": mtr,
    "iperf3.json": iperf3,
    "calls.har": har,
    "curl.txt": curl_lines,
    "curl.jsonl": curl_json,
    "pairs.csv": pairs,
    "regions.csv": regions,
    "network.toml": network,
}


def _three(ms: float) -> str:
    """Three digits, as iputils has it."""
    return f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def _rounded(value: Any) -> Any:
    return round(float(value), 3) if isinstance(value, float) else value


def _text(lines: Any) -> str:
    return "\n".join(lines) + "\n"


def _json(value: object) -> str:
    return json.dumps(value, indent=1) + "\n"


def _csv(rows: Sequence[Sequence[object]]) -> str:
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


if __name__ == "__main__":
    for name, make in FILES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
