"""Readers of programs that time SYN and SYN-ACK: ``hping3 -S`` and ``tcpping``.

What they look like::

    HPING host (eth0 192.0.2.1): S set, 40 headers + 0 data bytes
    len=44 ip=192.0.2.1 ttl=57 DF id=0 sport=443 flags=SA seq=0 win=29200 rtt=12.3 ms
    DUP! len=44 ip=192.0.2.1 ttl=57 DF id=0 sport=443 flags=SA seq=0 win=0 rtt=712.4 ms
    --- host hping statistic ---
    2 packets transmitted, 1 packets received, 50% packet loss      # hping3 writes "tramitted"

    len=44 ip=192.0.2.1 ttl=57 DF id=0 tos=0 iplen=44               # -V: three lines an answer
    sport=443 flags=SA seq=0 win=29200 rtt=12.3 ms
    seq=1234567 ack=987654 sum=ab12 urp=0

    seq 0: tcp response from host (192.0.2.1) [open]  12.345 ms
    seq 1: no response (timeout)

Source: hping3 3.a2 (``waitpacket.c``: ``log_ip``, ``log_tcp``; ``statistics.c``); tcpping 2.6
(tcptraceroute).
"""

from __future__ import annotations

import re
from typing import Final

from mpcsim.sim.network.measured.programs.probe_runs import ProbeRuns, Reply, Run
from mpcsim.sim.network.measured.series import Probe, Series, Summary
from mpcsim.sim.rich_display import counted

_HPING_HEAD: Final = re.compile(r"HPING (?P<host>\S+) \(")
_HPING_IP: Final = re.compile(r"(?P<twice>DUP! )?len=\d+ ip=(?P<host>\S+) ")
_HPING_RTT: Final = re.compile(
    r"(?:flags=(?P<flags>\S+) )?.*?\bseq=(?P<seq>\d+).*\brtt=(?P<ms>\S+) ms"
)
_HPING_ICMP: Final = re.compile(r"(?P<flags>)icmp_seq=(?P<seq>\d+).*\brtt=(?P<ms>\S+) ms")
_HPING_SENT: Final = re.compile(r"(?P<sent>\d+) packets tra\w+, (?P<got>\d+) packets received")
_HPING_STATISTICS: Final = re.compile(
    r"round-trip min/avg/max = (?P<least>[\d.]+)/(?P<mean>[\d.]+)/(?P<most>[\d.]+) ms"
)
_TCPPING: Final = re.compile(
    r"seq\s+(?P<seq>\d+): (?:tcp response from (?P<host>\S+).*?(?:\[(?P<state>\w+)\])?\s+"
    r"(?P<ms>\S+) ms|(?P<none>no response.*))"
)


def can_read_hping3(text: str) -> bool:
    """Return whether the text begins with hping3's line, or has its replies."""
    return bool(re.search(r"^HPING \S+ \(|^(DUP! )?len=\d+ ip=\S+ ", text, re.MULTILINE))


def can_read_tcpping(text: str) -> bool:
    """Return whether the text has tcpping's lines."""
    return bool(re.search(r"^seq\s+\d+: (tcp response from|no response)", text, re.MULTILINE))


def read_hping3(text: str, path: str) -> list[Series]:
    """Return the round trips of the answers, duplicates once; every header begins a run.

    Raises:
        UsageError: a time that is none, or no answer at all: names the line.
    """
    icmp = "icmp mode set" in text or "icmp_seq=" in text
    runs = ProbeRuns(path, "hping3", Probe.ICMP if icmp else Probe.TCP)
    runs.assumed = ["a number of seq without an answer is a probe that got lost"]
    run: Run | None = None
    ended, is_duplicate, address, refused = False, False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _HPING_HEAD.match(line)) is not None:
            run, ended = runs.begin_run(found["host"], number), False
            continue
        if (found := _HPING_SENT.match(line)) is not None and run is not None:
            run.sent, run.received, ended = int(found["sent"]), int(found["got"]), True
        elif (found := _HPING_STATISTICS.match(line)) is not None and run is not None:
            times = (float(found[name]) for name in ("least", "mean", "most"))
            run.summary, run.summary_line = Summary.estimated(0, *times), number
        if (found := _HPING_IP.match(line)) is not None:
            is_duplicate, address = found["twice"] is not None, found["host"]
        if re.search(r"\brtt=", line) is None:
            continue
        answer = (_HPING_ICMP if "icmp_seq=" in line else _HPING_RTT).search(line)
        if answer is None or not address:
            raise runs.error_at(number, f"{line.strip()!r} is not as hping3 writes it")
        if run is None or ended or (run.line == 0 and run.host != address):
            run, ended = runs.begin_run(address, number), False
            run.line = 0
        ms = _number(answer["ms"], runs, number)
        if not is_duplicate:
            refused += "R" in (answer["flags"] or "")
        run.replies.append(Reply(int(answer["seq"]), ms, number, None, is_duplicate))
        is_duplicate = False
    if refused:
        runs.understood.append(
            f"{counted(refused, 'answer')} with RST: the port is closed, the round trip holds"
        )
    return runs.series()


def read_tcpping(text: str, path: str) -> list[Series]:
    """Return the round trips of the answers; ``no response`` is a loss.

    Repeated numbers, and lines of other hosts, belong to another run.

    Raises:
        UsageError: a line that is neither, or no answer at all: names the line.
    """
    runs = ProbeRuns(path, "tcpping", Probe.TCP)
    runs.assumed = ["no response is a probe that got lost"]
    run: Run | None = None
    last = -1
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("seq"):
            continue
        found = _TCPPING.match(line)
        if found is None:
            raise runs.error_at(number, f"{line.strip()!r} is not as tcpping writes it")
        seq, host = int(found["seq"]), found["host"]
        if run is None or seq <= last:
            run = runs.begin_run(host or "", number)
        elif host is not None and run.host not in ("", host):
            run = runs.begin_run(host, number)
        run.host, last = run.host or host or "", seq
        ms = None if found["none"] else _number(found["ms"], runs, number)
        run.replies.append(Reply(seq, ms, number))
    named = list(dict.fromkeys(each.host for each in runs.runs if each.host))
    nameless = [each for each in runs.runs if not each.host]
    for each in nameless:
        each.host = named[0] if len(named) == 1 else "a host that is not named"
    if named and nameless:
        runs.warnings.append(
            f"{counted(len(nameless), 'run')} without any answer, which names no host (the first "
            f"in line {nameless[0].line}): taken for one to {nameless[0].host}"
        )
    return runs.series()


def _number(text: str, runs: ProbeRuns, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise runs.error_at(line, f"{text!r} is not a time") from None
