"""The text of programs that time SYN and SYN-ACK: ``hping3 -S`` and ``tcpping``.

What they look like::

    HPING host (eth0 192.0.2.1): S set, 40 headers + 0 data bytes
    len=44 ip=192.0.2.1 ttl=57 DF id=0 sport=443 flags=SA seq=0 win=29200 rtt=12.3 ms
    DUP! len=44 ip=192.0.2.1 ttl=57 DF id=0 sport=443 flags=SA seq=0 win=0 rtt=712.4 ms
    --- host hping statistic ---
    2 packets transmitted, 1 packets received, 50% packet loss      # hping3 writes "tramitted"

    seq 0: tcp response from host (192.0.2.1) [open]  12.345 ms
    seq 1: no response (timeout)

Source: hping3 3.a2 (``waitpacket.c``, ``statistics.c``); tcpping 2.6 (tcptraceroute).
"""

from __future__ import annotations

import re
from typing import Final

from mpcsim.sim.network.measured.series import Draft, Probe, Series
from mpcsim.sim.rich_display import counted

_HPING: Final = re.compile(
    r"len=\d+ ip=\S+ .*?(?:flags=(?P<flags>\S+) )?.*?seq=(?P<seq>\d+).* rtt=(?P<ms>\S+) ms"
)
_HPING_SENT: Final = re.compile(r"(?P<sent>\d+) packets tra\w+, (?P<got>\d+) packets received")
_TCPPING: Final = re.compile(
    r"seq\s+(?P<seq>\d+): (?:tcp response from .*?(?:\[(?P<state>\w+)\])?\s+(?P<ms>\S+) ms"
    r"|(?P<none>no response.*))"
)


def recognises_hping3(text: str) -> bool:
    """Whether it begins with hping's line, or has its replies."""
    return bool(re.search(r"^HPING \S+ \(|^len=\d+ ip=\S+ .*rtt=", text, re.MULTILINE))


def recognises_tcpping(text: str) -> bool:
    """Whether it has tcpping's lines."""
    return bool(re.search(r"^seq\s+\d+: (tcp response from|no response)", text, re.MULTILINE))


def read_hping3(text: str, path: str) -> list[Series]:
    """Round trips of the answers; what answers twice counts once.

    Raises:
        UsageError: a time that is none, or no answer at all: names the line.
    """
    icmp = "icmp mode set" in text or "icmp_seq=" in text
    draft = Draft(path, "hping3", Probe.ICMP if icmp else Probe.TCP)
    seen: set[int] = set()
    twice = refused = 0
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _HPING_SENT.search(line)) is not None:
            draft.sent = int(found["sent"])
        elif (found := _HPING.search(line)) is not None:
            seq = int(found["seq"])
            if seq in seen or line.startswith("DUP!"):
                twice += 1
                continue
            seen.add(seq)
            refused += found["flags"] is not None and "R" in found["flags"]
            draft.add(_number(found["ms"], draft, number), number)
        elif "rtt=" in line:
            raise draft.wrong(number, f"{line.strip()!r} is not as hping3 writes it")
    _holes(draft, seen)
    if twice:
        draft.warnings.append(f"{counted(twice, 'answer')} came twice: left out")
    if refused:
        draft.understood.append(
            f"{counted(refused, 'answer')} with RST: the port is closed, the round trip holds"
        )
    return [draft.series()]


def read_tcpping(text: str, path: str) -> list[Series]:
    """Round trips of the answers; ``no response`` is a loss.

    Raises:
        UsageError: a line that is neither, or no answer at all: names the line.
    """
    draft = Draft(path, "tcpping", Probe.TCP)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("seq"):
            continue
        found = _TCPPING.match(line)
        if found is None:
            raise draft.wrong(number, f"{line.strip()!r} is not as tcpping writes it")
        if found["none"]:
            draft.lose(number)
        else:
            draft.add(_number(found["ms"], draft, number), number)
    return [draft.series()]


def _holes(draft: Draft, seen: set[int]) -> None:
    missing = set(range(min(seen), max(seen) + 1)) - seen if seen else set()
    for _ in missing:
        draft.lose(0)
    if missing:
        draft.understood.append(f"{counted(len(missing), 'number')} of seq without an answer: lost")


def _number(text: str, draft: Draft, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise draft.wrong(line, f"{text!r} is not a time") from None
