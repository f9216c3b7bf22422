"""Traces as Mermaid sequence diagrams: text that GitHub, GitLab and many editors draw."""

from __future__ import annotations

import re

from mpcsim.ids import ROLES, PartyId
from mpcsim.sim.rich_display import size
from mpcsim.sim.traces.records import RunRecord


def mermaid(trace: RunRecord) -> str:
    """Return a Mermaid diagram of a run's messages, in order of sending, and its endings.

    Each message has its kind, its size and when it arrived; one that never did is crossed out.
    """
    lines = ["sequenceDiagram"]
    parties = sorted({m.sender for m in trace.messages} | {e.party for e in trace.endings})
    lines += [f"    participant P{i} as {_name(i)}" for i in parties]
    for message in sorted(trace.messages, key=lambda m: (m.sent_ms, m.number)):
        arrow, when = "-x", message.fate
        if message.received_ms is not None:
            arrow, when = "->>", f"{message.received_ms:.1f} ms"
        ends = f"P{message.sender}{arrow}P{message.receiver}"
        lines.append(f"    {ends}: {_plain(message.kind)} ({size(message.size)}, {when})")
    for ending in trace.endings:
        lines.append(f"    Note over P{ending.party}: {ending.status} at {ending.at_ms:.1f} ms")
    return "\n".join(lines) + "\n"


def _plain(kind: str) -> str:
    """Return a message kind with only word characters: one from a file may be any text."""
    return re.sub(r"\W", "?", kind)


def _name(party: PartyId) -> str:
    role = ROLES.get(party)
    return f"{party} ({role})" if role else f"party {party}"
