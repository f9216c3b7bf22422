"""Programs whose output has no reader, named so that it is not read as another's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_TCP: Final = "measure with hping3 -S, tcpping, or curl -w '%{json}\\n'"
_HOST: Final = "run ping on a host, or write a CSV"
_ALIKE: Final = (
    (r"^\|[ -]*WinMTR statistics|^\|\s*Host\s+-\s+%", "WinMTR", "run mtr --json, or ping"),
    (
        r"^connected to .*, seq=\d+ time|^PING \S+:\d+ \(/",
        "httping",
        f"its times hold the server's: {_TCP}",
    ),
    (r"^ARPING |bytes from .*: index=\d+ time=", "arping", "it asks the next hop alone: run ping"),
    (r"^Connected to \S+: time=.*protocol=TCP", "paping", _TCP),
    (r"^(TCP connect to \S+:\d+:|Connecting to \S+:\d+.*: from \S+: )", "psping", _TCP),
    (r"^(Probing \S+:\d+/tcp|Ping tcp://)", "tcping", _TCP),
)
"""Programs with lines like those of a supported format: pattern, name, what to run instead."""
_OTHERS: Final = (
    (r"^Starting Nping ", "nping", "run ping, or hping3 -S"),
    (r"^traceroute6? to ", "traceroute", "run mtr --json"),
    (r"^(Tracing route to|Routenverfolgung) ", "tracert", "run ping"),
    (r"^Success rate is \d+ percent", "ping of Cisco IOS", _HOST),
    (r"^\s*SEQ HOST\s+SIZE TTL TIME", "ping of MikroTik", _HOST),
    (r"^\[ *(\d+|ID)\].*(Transfer|sec ).*", "iperf's text", "run iperf3 --json"),
    (r"^<\?xml[^>]*>\s*<MTR ", "mtr --xml", "run mtr --json"),
)


def recognise_lookalike(text: str) -> str:
    """Return an error text if the output looks like a supported format and is another program's."""
    return _match_program(text, _ALIKE)


def recognise_unsupported(text: str) -> str:
    """Return an error text if the output is of a known program without a reader."""
    return _match_program(text, _OTHERS)


def _match_program(text: str, known: Sequence[tuple[str, str, str]]) -> str:
    head = text[:20_000]
    for form, name, remedy in known:
        if re.search(form, head, re.MULTILINE):
            return f"it is {name}, which has no reader here: {remedy}"
    return ""
