"""Reader of the text that ``fping`` prints, of one or several hosts.

What it looks like::

    a.example : [0], 64 bytes, 14.2 ms (14.2 avg, 0% loss)          # -c, -C, -l
    a.example : [1], timed out (14.2 avg, 50% loss)
    a.example : duplicate for [0], 64 bytes, 14.9 ms
    a.example : xmt/rcv/%loss = 2/1/50%, min/avg/max = 14.2/14.2/14.2     # -c, -q
    a.example : 14.24 - 15.17                                       # -C: all of them, - is lost
    a.example is alive (14.2 ms)                                    # -e
    [1700000000.12345] a.example : [0], ...                         # -D
    [10:00:00]                                                      # -Q: statistics of an interval

Source: fping 5.1 (``src/fping.c``: ``print_per_system_stats``, ``print_per_system_splits``,
``sprint_tm``), schweikert/fping issue 295.
"""

from __future__ import annotations

import re
from typing import Final

from mpcsim.sim.network.measured.programs.probe_runs import ProbeRuns, Reply, Run
from mpcsim.sim.network.measured.series import Probe, Series, Summary

_STAMP: Final = r"(?:\[(?P<at>[^\]]*)\] )?"
_LINE: Final = re.compile(
    _STAMP + r"(?P<host>\S+(?: \(\S+\))?)\s+: \[(?P<seq>\d+)\], "
    r"(?:\d+ bytes, (?P<ms>\S+) ms\b|(?P<none>timed out|unreachable))"
)
_TWICE: Final = re.compile(r"(?P<host>\S+)\s+: duplicate for \[(?P<seq>\d+)\], ")
_STATISTICS: Final = re.compile(
    r"(?P<host>\S+(?: \(\S+\))?)\s+: xmt/rcv/%(?:loss|return) = (?P<sent>\d+)/(?P<got>\d+)/\d+%"
    r"(?:, outage\(ms\) = \d+)?(?:, min/avg/max = (?P<least>[^/]+)/(?P<mean>[^/]+)/(?P<most>\S+))?"
)
_ALL: Final = re.compile(r"(?P<host>\S+(?: \(\S+\))?)\s+:(?P<times>(?: (?:\d[\d.e+]*|-))+)\s*$")
_ALIVE: Final = re.compile(_STAMP + r"(?P<host>\S+(?: \(\S+\))?) is alive \((?P<ms>\S+) ms\)")
_INTERVAL: Final = re.compile(r"\[\d\d:\d\d:\d\d\]\s*$")


def can_read(text: str) -> bool:
    """Return whether the text has lines as fping writes them."""
    kinds = (_LINE, _STATISTICS, _ALIVE, _ALL)
    return any(kind.match(line) for line in text.splitlines() for kind in kinds)


def read(text: str, path: str) -> list[Series]:
    """Return the round trips to every host.

    Single answers take precedence over the list at the end.

    Raises:
        UsageError: a time that is none, no answer at all: names the line.
    """
    runs = ProbeRuns(path, "fping", Probe.ICMP)
    runs.unit = "milliseconds, three digits, as the lines say"
    runs.assumed = ["a number without a reply is a probe that got lost"]
    current: dict[str, Run] = {}
    intervals: dict[str, list[Run]] = {}
    in_interval: set[str] | None = None
    refused = 0

    def current_run(host: str, number: int) -> Run:
        if host not in current or current[host].sent is not None:
            current[host] = runs.begin_run(host, number)
        return current[host]

    for number, line in enumerate(text.splitlines(), 1):
        if (found := _LINE.match(line)) is not None:
            ms = None if found["none"] else _number(found["ms"], runs, number)
            stamp = _seconds(found["at"])
            reply = Reply(int(found["seq"]), ms, number, None if ms is None else stamp)
            current_run(found["host"], number).replies.append(reply)
        elif (found := _TWICE.match(line)) is not None:
            current_run(found["host"], number).replies.append(
                Reply(int(found["seq"]), 0.0, number, None, True)
            )
        elif (found := _ALIVE.match(line)) is not None:
            ms = _number(found["ms"], runs, number)
            runs.begin_run(found["host"], number).replies.append(Reply(None, ms, number))
        elif _INTERVAL.match(line):
            in_interval = set()
        elif (found := _STATISTICS.match(line)) is not None:
            host = found["host"]
            if in_interval is not None and host not in in_interval:
                in_interval.add(host)
                if host not in current:
                    _note_counts(intervals.setdefault(host, []), found, runs, number)
                continue
            if in_interval is not None:
                intervals.pop(host, None)  # of the whole, which follows the last interval
            _note_counts([current_run(host, number)], found, runs, number, at=0)
        elif (found := _ALL.match(line)) is not None:
            times = [
                None if word == "-" else _number(word, runs, number)
                for word in found["times"].split()
            ]
            run = current_run(found["host"], number)
            if not run.replies:
                run.replies = [Reply(seq, ms, number) for seq, ms in enumerate(times)]
            run.sent, run.received = len(times), sum(ms is not None for ms in times)
        elif line.startswith("ICMP ") and " for ICMP Echo sent to " in line:
            refused += 1
        elif re.match(r"\S+(?: \(\S+\))?\s+: (?:\[|.*\d)", line):
            raise runs.error_at(number, f"{line.strip()!r} is not as fping writes it")
    for each in intervals.values():
        runs.runs += each
    if refused:
        runs.warnings.append(f"{refused} ICMP errors in place of an answer: lost probes")
    return runs.series()


def _note_counts(
    parts: list[Run], found: re.Match[str], runs: ProbeRuns, number: int, at: int | None = None
) -> None:
    """Record the program's own count, of a run or (at the end of the list) of an interval."""
    if at is None:
        parts.append(Run(found["host"], number))
        at = -1
    run = parts[at]
    run.sent, run.received = int(found["sent"]), int(found["got"])
    if run.received > run.sent:
        runs.warnings.append(
            f"line {number}: more answers than probes: {run.received} of {run.sent}"
        )
        run.received = run.sent
    if found["least"] is not None and run.received:
        names = ("least", "mean", "most")
        least, mean, most = (_number(found[name], runs, number) for name in names)
        run.summary = Summary.estimated(run.received, least, mean, most)
        run.summary_line = number


def _seconds(stamp: str | None) -> float | None:
    try:
        return None if stamp is None else float(stamp)
    except ValueError:
        return None  # --timestamp-format


def _number(text: str, runs: ProbeRuns, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise runs.error_at(line, f"{text!r} is not a time") from None
