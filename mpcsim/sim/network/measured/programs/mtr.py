"""Reader of the report of ``mtr --json``: a summary for each hop, no samples.

``report.mtr`` has ``src`` and ``dst``; ``report.hubs`` the hops in order, each with ``host``,
``Loss%``, ``Snt`` and, in milliseconds, ``Last``, ``Avg``, ``Best``, ``Wrst`` and ``StDev`` (or
those that ``--order`` asks for). Up to version 0.92 ``count`` is a text. A file may hold several
reports.

Source: mtr 0.95 (``ui/report.c``, ``json_close``).
"""

from __future__ import annotations

from mpcsim.sim.network.measured import located_json
from mpcsim.sim.network.measured.located_json import JsonValue
from mpcsim.sim.network.measured.programs.mtr_hops import Hop, Report, series_of
from mpcsim.sim.network.measured.series import Series


def can_read(text: str) -> bool:
    """Return whether the text is an object with the keys of a report."""
    return text.lstrip().startswith(("{", "[")) and '"hubs"' in text and '"report"' in text


def read(text: str, path: str) -> list[Series]:
    """Return the summary of the last hop.

    Raises:
        UsageError: a key is missing or no number, or the times contradict each other; nobody
            answered at the last hop: names line and path.
    """
    reports, nodes = [], {}
    for document in located_json.parse_all(text, path):
        report = document["report"]
        hubs = report["hubs"].items()
        if not hubs:
            raise report["hubs"].error_at("no hop in the report")
        about = report.get("mtr")
        target = None if about is None else about.get("dst")
        hops = [_hop(hub, at) for at, hub in enumerate(hubs, 1)]
        nodes[hops[-1].line] = hubs[-1]
        name = "" if target is None else target.text()
        reports.append(Report(name, hops, hops[0].line))
    return series_of("mtr --json", reports, lambda line, what: nodes[line].error_at(what))


def _hop(hub: JsonValue, at: int) -> Hop:
    std = hub.get("StDev")
    best, mean, worst = (hub[name].number() for name in ("Best", "Avg", "Wrst"))
    return Hop(
        at,
        hub["host"].text(),
        hub["Loss%"].number(),
        int(hub["Snt"].number()),
        best,
        mean,
        worst,
        None if std is None else std.number(),
        hub.line,
    )
