"""Reader of the text that ``ping`` prints on Windows, in any language.

What it looks like; words are translated, so lines are known by their form::

    Pinging host [192.0.2.1] with 32 bytes of data:                 # an address, a number, a colon
    Reply from 192.0.2.1: bytes=32 time=12ms TTL=57                 # an address, word=number ...
    Reply from ::1: time<1ms                                        # IPv6 has no bytes and no TTL
    Request timed out.                                              # neither address nor number
    Reply from 192.0.2.254: Destination host unreachable.           # an address, no time
    Packets: Sent = 4, Received = 3, Lost = 1 (25% loss),           # three numbers: a = b + c
    Minimum = 12ms, Maximum = 14ms, Average = 12ms                  # in this order

Times are whole milliseconds; ``<1ms`` is taken for half of one. Windows counts an answer that a
host is unreachable as received.

Source: Windows 10 and 11 (``ping.exe``), in English, German, French, Spanish, Chinese and Japanese
as in public bug reports (danielzzz/node-ping 72 and 110, geerlingguy/Ping 30).
"""

from __future__ import annotations

import re
from typing import Final

from mpcsim.sim.network.measured.programs.probe_runs import ProbeRuns, Reply, Run
from mpcsim.sim.network.measured.series import Probe, Series, Summary
from mpcsim.sim.rich_display import counted

_ADDRESS: Final = (
    r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]*[0-9a-fA-F:](?:%\w+)?)"
)
_HEAD: Final = re.compile(
    rf"\s*(?P<words>\S.*?)\[?(?<![\w.:]){_ADDRESS}\]?(?=\s)[^=<\d]*\d+ ?[^=<\d]*[:：]\s*$"
)
_REPLY: Final = re.compile(
    rf"(?P<words>[^\d=<]*?)(?<![\w.:]){_ADDRESS}(?P<more>[^=<\d]*?) ?[:：] ?"
    r"(?:[^=<>:\d]+ ?= ?\d+ +)?(?P<word>[^=<>:\d]+?) ?(?P<sign>[=<]) ?(?P<ms>\d+) ?"
    r"(?P<unit>[^\W\d]*)\.?"
    r"(?: +TTL ?[=:] ?\d+)?\s*$"
)
_ERROR: Final = re.compile(rf"[^\d=<]*?(?<![\w.:]){_ADDRESS}[^=<\d]*[:：] ?[^\d=<:]+$")
_COUNT: Final = re.compile(r"[^=]*= *(\d+)[^=\d]+= *(\d+)[^=\d]+= *(\d+)(?![\dm])")
_TIMES: Final = re.compile(
    r"[^=]*= *(\d+) ?\w*[^=\d]+= *(\d+) ?\w*[^=\d]+= *(\d+) ?[^\W\d]{1,4}\s*$"
)
BELOW_ONE_MS: Final = 0.5
UNITS: Final = ("", "m", "ms", "msec", "мс", "мсек", "毫秒", "ミリ秒", "밀리초")
"""Words for milliseconds in ping's translations."""


def can_read(text: str) -> bool:
    """Return whether the text has such replies, or a header and three numbers that add up."""
    lines = text.splitlines()
    if any(line.startswith(("PING", "HPING", "---")) or "icmp_seq" in line for line in lines[:200]):
        return False
    return any(_reply(line) for line in lines) or (
        any(_HEAD.match(line) for line in lines) and any(_count(line) for line in lines)
    )


def read(text: str, path: str) -> list[Series]:
    """Return the round trips of the replies; every header begins a run.

    Raises:
        UsageError: no reply at all, a time that cannot be: names the line.
    """
    runs = ProbeRuns(path, "ping (Windows)", Probe.ICMP)
    runs.needs_statistics, runs.rounding_ms = "ping", 1.0
    runs.unit = "whole milliseconds, as the lines say"
    runs.assumed = ["a line without address and time is a probe that got lost"]
    run: Run | None = None
    ended = True
    address = ""
    errors = 0
    below: dict[int, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _reply(line)) is not None:
            if run is None or ended or found["host"] != address:
                run, ended, errors = runs.begin_run(found["host"], number), False, 0
            address = found["host"]
            if found["unit"].lower() not in UNITS:
                raise runs.error_at(
                    number, f"{line.strip()!r}: {found['unit']!r} is no word for milliseconds"
                )
            ms = float(found["ms"])
            if found["sign"] == "<":
                below[run.line] = below.get(run.line, 0) + 1
                ms *= BELOW_ONE_MS
            run.replies.append(Reply(None, ms, number))
        elif (found := _HEAD.match(line)) is not None:
            if run is None or not ended or run.replies:
                run, errors = runs.begin_run(_name(found), number), 0
            ended, address = False, found["host"]
        elif (count := _count(line)) is not None and run is not None:
            sent, received, _ = count
            run.sent, run.received = sent, max(received - errors, 0)
            ended = True
        elif ended and run is not None and (found := _TIMES.match(line)) is not None:
            least, most, mean = map(float, found.groups())
            if least <= mean <= most and most > 0:
                run.summary, run.summary_line = Summary.estimated(0, least, mean, most), number
        elif run is not None and not ended and line.strip():
            if (found := _ERROR.match(line)) is not None:
                errors += 1
                run.warnings.append(f"line {number}: {line.strip()}: taken for a lost probe")
                run.replies.append(Reply(None, None, number))
            elif not re.search(r"[=<\d]", line):
                if line.rstrip().endswith((":", "：")):
                    continue
                run.replies.append(Reply(None, None, number))
            elif re.search(rf"(?<![\w.:]){_ADDRESS}", line) and "=" in line:
                raise runs.error_at(number, f"{line.strip()!r} is not as ping writes it on Windows")
    for each in runs.runs:
        if each.line in below:
            each.warnings.append(
                f"{counted(below[each.line], 'answer')} within less than 1 ms: taken for "
                f"{BELOW_ONE_MS} ms, since ping on Windows shows whole milliseconds"
            )
    runs.understood.append("whole milliseconds: ping on Windows shows no fractions")
    return runs.series()


def _reply(line: str) -> re.Match[str] | None:
    found = _REPLY.match(line)
    if found is None or (found["sign"] == "=" and "TTL" not in line and ":" not in found["host"]):
        return None
    return found


def _count(line: str) -> tuple[int, int, int] | None:
    """Return probes, answers and losses, if the line has three numbers that are these."""
    found = _COUNT.match(line)
    if found is None:
        return None
    sent, received, lost = map(int, found.groups())
    return (sent, received, lost) if sent == received + lost and sent > 0 else None


def _name(head: re.Match[str]) -> str:
    """Return the host of a header: the name before the brackets, or the address."""
    words = str(head["words"]).split()
    bracketed = "[" in head.group(0)
    return words[-1].rstrip("[") if bracketed and words else str(head["host"])
