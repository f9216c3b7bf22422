"""Reader of ``iperf3 --json-stream``: one event a line, joined to the document of ``--json``.

    {"event": "start", "data": {...}}
    {"event": "interval", "data": {"streams": [...], "sum": {...}}}
    {"event": "end", "data": {...}}

``error``, ``server_output_json`` and ``server_output_text`` are events, too. With
``--json-stream-full-output`` the document follows its events.

Source: iperf 3.19 (``src/iperf_api.c``, ``JSONStream_Output``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mpcsim.sim.network.measured.located_json import JsonValue, LocatedObject


def can_read(text: str) -> bool:
    """Return whether the text has an event that begins a test."""
    return re.search(r'"event"\s*:\s*"(start|error)"', text[:4000]) is not None


def documents(found: Sequence[JsonValue]) -> list[JsonValue]:
    """Return the reports of a file: documents as they are, events joined.

    Raises:
        UsageError: an event without data, or before the test begins: names line and path.
    """
    reports: list[JsonValue] = []
    streamed: LocatedObject | None = None
    for each in found:
        event = each.get("event")
        if event is None:
            if reports and streamed is reports[-1].value and _same_start(reports[-1], each):
                reports.pop()
            reports.append(each)
            streamed = None
            continue
        name, data = event.text(), each["data"].value
        if name == "start" or streamed is None:
            if name not in ("start", "error"):
                raise each.error_at(
                    f"event {name!r} before one that begins a test: is the text cut?"
                )
            streamed = _located_object({"intervals": []}, each.line)
            reports.append(JsonValue(streamed, each.file, "", each.line))
        if name == "interval":
            streamed["intervals"].append(data)
        else:
            streamed[name] = data
    return reports


def _same_start(streamed: JsonValue, document: JsonValue) -> bool:
    return bool(streamed.value.get("start") == document.value.get("start"))


def _located_object(members: dict[str, Any], line: int) -> LocatedObject:
    entry = LocatedObject(members)
    entry.line, entry.doubled = line, {}
    return entry
