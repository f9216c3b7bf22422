"""The text that ``ping`` prints: Linux (iputils), BSD and macOS; with the times of ``-D``, too.

What it looks like::

    PING host (192.0.2.1) 56(84) bytes of data.                     # BSD: ...: 56 data bytes
    [1700000000.123456] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=12.3 ms
    no answer yet for icmp_seq=2                                    # iputils, with -O
    Request timeout for icmp_seq 2                                  # BSD
    64 bytes from 192.0.2.1: icmp_seq=3 ttl=57 time=12.5 ms (DUP!)
    --- host ping statistics ---
    3 packets transmitted, 2 received, +1 duplicates, 33.3% packet loss, time 2003ms

Source: iputils 20240905 (``ping/ping_common.c``), FreeBSD 14 and macOS 14 (``sbin/ping/ping.c``).
"""

from __future__ import annotations

import re
from typing import Final

from mpcsim.sim.network.measured.series import Draft, Probe, Series
from mpcsim.sim.rich_display import counted

_HEAD: Final = re.compile(r"PING6?[ (].*(bytes of data|data bytes|bytes -->|-->)")
_REPLY: Final = re.compile(
    r"(?:\[(?P<at>\d+\.\d+)\] )?.*bytes from (?P<host>[^ :]+).*?"
    r"(?:icmp_)?seq[= ](?P<seq>\d+).*?time[=<](?P<ms>\S+?)\s*(?P<unit>ms|us|s|$)"
)
_NONE: Final = re.compile(
    r".*(?:no answer yet for icmp_seq=|Request timeout for icmp_seq )(?P<seq>\d+)"
)
_REFUSED: Final = re.compile(r".*From (?P<host>\S+).*icmp_seq=(?P<seq>\d+) (?P<what>\w.*)")
_SENT: Final = re.compile(r"(?P<sent>\d+) packets transmitted, (?P<got>\d+) (?:packets )?received")


def recognises(text: str) -> bool:
    """Whether it begins as ping does, or has replies as ping shows them."""
    return any(_HEAD.match(line) for line in text.splitlines()[:5]) or bool(
        re.search(r"bytes from .*(icmp_)?seq[= ]\d+.*time[=<]", text)
    )


def read(text: str, path: str) -> list[Series]:
    """The round trips of the replies.

    A probe is lost if nothing answers its number: ``icmp_seq`` that are left out count, and those
    of ping's own count at the end. Replies that come twice count once.

    Raises:
        UsageError: a time that is none, or no reply at all: names the line.
    """
    bsd = "data bytes" in text or "Request timeout" in text
    draft = Draft(path, f"ping ({'BSD, macOS' if bsd else 'Linux'})", Probe.ICMP)
    seen: set[int] = set()
    silent: dict[int, int] = {}
    twice = turn = 0
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _SENT.search(line)) is not None:
            draft.sent = int(found["sent"])
        elif (found := _REPLY.match(line)) is not None:
            # icmp_seq has 16 bits, and begins anew.
            low = int(found["seq"])
            if seen and low + turn < max(seen) - 0x8000:
                turn += 0x10000
            seq = low + turn
            if seq in seen or "DUP!" in line:
                twice += 1
                continue
            seen.add(seq)
            at = found["at"]
            draft.add(_ms(found, draft, number), number, float(at) if at else None)
        elif (found := _NONE.match(line) or _REFUSED.match(line)) is not None:
            silent[int(found["seq"]) + turn] = number
            if "what" in found.groupdict():
                draft.warnings.append(f"line {number}: {found['host']}: {found['what'].strip()}")
        elif "bytes from" in line and "time" in line:
            raise draft.wrong(number, f"{line.strip()!r} is not as ping writes it")
    missing = set(range(min(seen), max(seen) + 1)) - seen if seen else set()
    for seq in missing | {seq for seq in silent if seq not in seen}:
        draft.lose(silent.get(seq, 0))
    if missing:
        draft.understood.append(
            f"{counted(len(missing), 'number')} of icmp_seq without a reply: lost"
        )
    if twice:
        draft.warnings.append(f"{counted(twice, 'answer')} came twice: left out")
    if not draft.sent:
        draft.warnings.append("ping's statistics are missing at the end: the text is not whole")
    return [draft.series()]


def _ms(found: re.Match[str], draft: Draft, number: int) -> float:
    try:
        value = float(found["ms"])
    except ValueError:
        raise draft.wrong(number, f"time={found['ms']} is not a number") from None
    return value * {"us": 1e-3, "s": 1e3}.get(found["unit"], 1.0)
