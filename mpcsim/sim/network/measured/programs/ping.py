"""Reader of the text that ``ping`` prints on Unix, in any language.

It knows Linux (iputils, BusyBox), BSD, macOS and Solaris, and the times of ``-D``.

What it looks like::

    PING host (192.0.2.1) 56(84) bytes of data.                     # BSD: ...: 56 data bytes
    [1700000000.123456] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=12.3 ms
    no answer yet for icmp_seq=2                                    # iputils, with -O
    Request timeout for icmp_seq 2                                  # BSD
    64 bytes from 192.0.2.1: icmp_seq=3 ttl=57 time=12.5 ms (DUP!)
    --- host ping statistics ---
    3 packets transmitted, 2 received, +1 duplicates, 33.3% packet loss, time 2003ms
    rtt min/avg/max/mdev = 12.300/12.400/12.500/0.100 ms            # BusyBox: min/avg/max alone

With ``-q`` the last two lines are all there is. A reply is known by its form, since its words are
translated: a size, an address, a sequence number, a word with ``=`` and a time.

Source: iputils 20240905 (``ping/ping_common.c``), FreeBSD 14 and macOS 14 (``sbin/ping/ping.c``),
BusyBox 1.36 (``networking/ping.c``), Solaris (``ping -s``: ``icmp_seq=0. time=1. ms``).
"""

from __future__ import annotations

import re
from typing import Final

from mpcsim.sim.network.measured.programs.probe_runs import ProbeRuns, Reply, Run
from mpcsim.sim.network.measured.series import Probe, Series, Summary

_HEAD: Final = re.compile(r"PING6?[ (].*(?:\d+\(\d+\)|\d+ data bytes|bytes of data|-->)")
_TIME: Final = re.compile(
    r"\w+\s*[=<]\s*(?P<ms>[^\s=<]*?\d[^\s=<a-zµ]*|[^\s=<]+?)\s*(?P<unit>ms|msec|us|µs|usec|s|sec)\b"
)
_REPLY: Final = re.compile(
    r"(?:\[(?P<at>\d+\.\d+)\] )?\s*\d+ \S+ \S+ (?P<host>\S.*?)[ :,.]*\s"
    r"(?:icmp_)?seq[= ](?P<seq>\d+)\.?[, ](?P<rest>.*)"
)
_NONE: Final = re.compile(r".*(?:icmp_seq[= ](?P<seq>\d+))\s*\.?\s*$")
_REFUSED: Final = re.compile(
    r"(?:\[[\d.]+\] )?\S+ (?P<host>\S.*?) icmp_seq=(?P<seq>\d+) (?P<what>\D.*)"
)
_END: Final = re.compile(r"-{3,} ?(?P<host>\S*) .*-{3,}\s*$")
_SENT: Final = re.compile(r"\s*(?P<sent>\d+) [^\d,]+, (?P<got>\d+) [^\d,]+[, ].*\d ?%")
_STATISTICS: Final = re.compile(
    r".*min/avg/max(?:/(?P<std>\S+))? *= *(?P<least>[\d.,]+)/(?P<mean>[\d.,]+)/(?P<most>[\d.,]+)"
    r"(?:/(?P<dev>[\d.,]*\d))?\s*(?P<unit>ms|us|s)?"
)
_UNITS: Final = {"us": 1e-3, "µs": 1e-3, "usec": 1e-3, "s": 1e3, "sec": 1e3}


def can_read(text: str) -> bool:
    """Return whether the text begins as ping's, or has replies or statistics as ping's."""
    lines = text.splitlines()
    return (
        any(_HEAD.match(line) for line in lines[:50])
        or any((found := _REPLY.match(line)) and _time(found["rest"]) for line in lines)
        or bool(re.search(r"bytes from .*(icmp_)?seq[= ]\d+.*time[=<]", text))
        or (
            any(_SENT.match(line) for line in lines)
            and any(_STATISTICS.match(line) for line in lines)
        )
    )


def read(text: str, path: str) -> list[Series]:
    """Return the round trips of the replies, or the statistics of a quiet ping.

    A probe is lost if nothing answers its number: ``icmp_seq`` that are left out count, and those
    of ping's own count at the end. Replies that come twice count once. Every header, and every
    sequence number that comes again, begins a run.

    Raises:
        UsageError: a time that is none, or no reply at all: names the line.
    """
    runs = ProbeRuns(path, f"ping ({_ping_program(text)})", Probe.ICMP)
    runs.needs_statistics = "ping"
    runs.assumed = ["a number of icmp_seq without a reply is a probe that got lost"]
    run: Run | None = None
    ended = False
    for number, line in enumerate(text.splitlines(), 1):
        if _HEAD.match(line) is not None:
            run, ended = runs.begin_run(_target(line), number), False
        elif (found := _REPLY.match(line)) is not None and (
            _time(found["rest"]) or re.search(r"\btime\s*[=<]", found["rest"])
        ):
            host = _host_name(found["host"])
            if run is None or ended or (run.line == 0 and run.host != host):
                run, ended = runs.begin_run(host, number), False
                run.line = 0
            ms = _ms(found, runs, number)
            at = float(found["at"]) if found["at"] else None
            mark = re.search(r"\((?!DIFF|BAD)[^()]*!\)", line) is not None
            run.replies.append(Reply(int(found["seq"]), ms, number, at, mark))
        elif (found := _END.match(line)) is not None:
            ended = True
            run = run or runs.begin_run(found["host"], number)
        elif ended and run is not None and (found := _SENT.match(line)) is not None:
            run.sent, run.received = int(found["sent"]), int(found["got"])
        elif run is not None and (found := _STATISTICS.match(line)) is not None:
            if run.sent is None and not run.replies:
                raise runs.error_at(number, f"{line.strip()!r} without a count of probes above it")
            run.summary, run.summary_line = _summary(found), number
            ended = True
        elif (found := _NONE.match(line) or _REFUSED.match(line)) is not None:
            if run is None or ended:
                run, ended = runs.begin_run("", number), False
            run.replies.append(Reply(int(found["seq"]), None, number))
            if "what" in found.groupdict():
                run.warnings.append(f"line {number}: {found['host']}: {found['what'].strip()}")
        elif "bytes from" in line and re.search(r"time\s*[=<]", line):
            raise runs.error_at(number, f"{line.strip()!r} is not as ping writes it")
    return runs.series()


def _ping_program(text: str) -> str:
    """Return whose ping it is, by what only one of them writes."""
    if "PING Statistics" in text or re.search(r"icmp_seq=\d+\. ", text):
        return "Solaris"
    if re.search(r"bytes from \S+: seq=\d", text):
        return "BusyBox"
    of_bsd = r"\): \d+ data bytes|^PING6\(|Request timeout|packets received"
    if re.search(of_bsd, text, re.MULTILINE):
        return "BSD, macOS"
    return "Linux"


def _target(head: str) -> str:
    """Return the host in the first line of a ping."""
    if "-->" in head:
        return head.rpartition("-->")[2].strip()
    return re.split(r" ?\(|: | ", head.partition(" ")[2].strip())[0]


def _host_name(host: str) -> str:
    """Return a host's name without the address behind it and what ends the word."""
    return host.partition(" (")[0].strip().rstrip(":,")


def _time(rest: str) -> re.Match[str] | None:
    """Return the time in what follows the sequence number: the last ``word=number unit``."""
    found = list(_TIME.finditer(rest))
    return found[-1] if found else None


def _ms(found: re.Match[str], runs: ProbeRuns, number: int) -> float:
    time = _time(found["rest"])
    text = found["rest"].rpartition("=")[2].strip() if time is None else time["ms"]
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        raise runs.error_at(number, f"time={text} is not a number") from None
    return value * _UNITS.get((time and time["unit"]) or "ms", 1.0)


def _summary(found: re.Match[str]) -> Summary:
    factor = _UNITS.get(found["unit"] or "ms", 1.0)
    names = ("least", "mean", "most", "dev")
    least, mean, most, dev = (float((found[name] or "0").replace(",", ".")) for name in names)
    if found["dev"] is None:
        return Summary.estimated(0, least, mean, most).scaled(factor)
    return Summary(0, least, mean, most, dev).scaled(factor)
