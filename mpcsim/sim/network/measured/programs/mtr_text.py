"""Readers of mtr's output other than JSON: ``--report``, ``--csv`` and ``--raw``.

What it looks like::

    Start: 2026-01-01T10:00:00+0000                                 # begins a run
    HOST: me                Loss%   Snt   Last   Avg  Best  Wrst StDev
      1.|-- 192.0.2.254      0.0%    20    0.4   0.5   0.3   1.1   0.2
      2. AS64500 a.example   0.0%    20   31.4  31.9  31.2  35.0   0.8     # --aslookup

    Mtr_Version,Start_Time,Status,Host,Hop,Ip,Loss%,Snt, ,Last,Avg,Best,Wrst,StDev,
    MTR.0.95,1700000000,OK,a.example,1,192.0.2.254,0.00,20,0,0.40,0.52,0.31,1.10,0.20

    x 0 33000                       # --raw: a probe to a hop (from 0), with its number
    h 0 192.0.2.254                 # the address of a hop
    d 0 router.example              # its name
    p 0 412 33000                   # an answer: microseconds and the number of the probe

Columns are known by their headings: ``--order`` may leave some out.

Source: mtr 0.95 (``ui/report.c``: ``report_close``, ``csv_close``; ``ui/raw.c``), traviscross/mtr
issues 416 and 451.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.programs.mtr_hops import Hop, LineError, Report, series_of
from mpcsim.sim.network.measured.series import GATEWAY_SITE, Draft, Probe, Series

_HEAD: Final = re.compile(r"HOST: (?P<me>.*?)\s+(?P<names>(?:\S+\s+)*Loss%(?:\s+\S+)*)\s*$")
_HOP: Final = re.compile(
    r"\s*(?P<number>\d+)\.(?:\|--)?\s+(?P<host>\S.*?)\s+(?P<values>[\d.]+%?(?:\s+[\d.]+%?)*)\s*$"
)
_CSV: Final = re.compile(r"Mtr_Version[,;]", re.MULTILINE)
_RAW: Final = re.compile(r"(?P<kind>[xhdpm]) (?P<hop>\d+) (?P<rest>\S.*)")
TIMES: Final = ("Best", "Avg", "Wrst")


def can_read_report(text: str) -> bool:
    """Return whether the text has the headings of a report."""
    return any(_HEAD.match(line) for line in text.splitlines())


def can_read_csv(text: str) -> bool:
    """Return whether the text has the headings of the CSV, or its lines."""
    return bool(_CSV.search(text) or re.search(r"^MTR\.\d[\w.]*[,;]\d+[,;]", text, re.MULTILINE))


def can_read_raw(text: str) -> bool:
    """Return whether the first lines are probes, addresses and answers."""
    lines = [line for line in text.splitlines() if line.strip()][:20]
    kinds = {line[0] for line in lines}
    return bool(lines) and all(_RAW.match(line) for line in lines) and "h" in kinds


def read_report(text: str, path: str) -> list[Series]:
    """Return the summary of the last hop of every report.

    Raises:
        UsageError: the target was not reached, a column is missing, a number is none.
    """

    def error_at(line: int, what: str) -> UsageError:
        return UsageError(f"{path}, line {line}: {what} (read as mtr --report)")

    reports: list[Report] = []
    names: list[str] = []
    hops: list[Hop] = []
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _HEAD.match(line)) is not None:
            names, hops = found["names"].split(), []
            reports.append(Report("", hops, number))
        elif names and (found := _HOP.match(line)) is not None:
            values = found["values"].split()
            if len(values) > len(names):  # digits at the end of the host's name or of its AS
                values = values[-len(names) :]
            if len(values) != len(names):
                raise error_at(number, f"{len(values)} numbers under {len(names)} headings")
            cells = dict(zip(names, values, strict=True))
            hops.append(_hop(int(found["number"]), found["host"], cells, number, error_at))
    for report in reports:
        if not report.hops:
            raise error_at(report.line, "no hop under the headings")
    return series_of("mtr --report", reports, error_at)


def _hop(number: int, host: str, cells: Mapping[str, str], line: int, error_at: LineError) -> Hop:
    def value(name: str) -> float:
        try:
            return float(cells[name].rstrip("%"))
        except KeyError:
            have = ", ".join(cells)
            error = f"column {name} is missing (there are {have}): leave --order as it is"
        except ValueError:
            error = f"{name} is {cells[name]!r}, not a number"
        raise error_at(line, error)

    best, mean, worst = map(value, TIMES)
    std = value("StDev") if "StDev" in cells else None
    return Hop(number, host, value("Loss%"), int(value("Snt")), best, mean, worst, std, line)


def read_csv(text: str, path: str) -> list[Series]:
    """Return the summary of the last hop, for every target and start.

    Raises:
        UsageError: no headings, the target was not reached, a number is none.
    """

    def error_at(line: int, what: str) -> UsageError:
        return UsageError(f"{path}, line {line}: {what} (read as mtr --csv)")

    names: list[str] = []
    runs: list[tuple[tuple[str, str], Hop]] = []
    reader = csv.reader(text.splitlines(), delimiter=";" if "Mtr_Version;" in text else ",")
    for cells in reader:
        line = reader.line_num
        if not any(map(str.strip, cells)):
            continue
        if cells[0] == "Mtr_Version":
            names = [cell.strip() for cell in cells]
            continue
        if not names:
            raise error_at(line, "there are no headings above it: run mtr 0.87 or later with --csv")
        row = dict(zip(names, cells, strict=False))
        try:
            number, at = int(row["Hop"]), (row["Host"], row["Start_Time"])
        except (KeyError, ValueError):
            raise error_at(line, "Hop, Host or Start_Time is missing") from None
        runs.append((at, _hop(number, row.get("Ip", ""), row, line, error_at)))
    reports = []
    for (host, _), found in groupby(runs, key=lambda each: each[0]):
        hops = [hop for _, hop in found]
        # --report-wide: a hop's further addresses are lines of their own, with the same numbers.
        first = [hop for at, hop in enumerate(hops) if not at or hop.number != hops[at - 1].number]
        reports.append(Report(host, first, first[0].line))
    if not reports:
        raise error_at(1, "no hop under the headings")
    return series_of("mtr --csv", reports, error_at)


def read_raw(text: str, path: str) -> list[Series]:
    """Return the target's answers: the first hop with the address of the last that answered.

    Raises:
        UsageError: the target was not reached: mtr goes on probing beyond the last that answered.
    """
    draft = Draft(path, "mtr --raw", Probe.ICMP)
    draft.unit = "microseconds, as the format has them"
    sent: dict[int, dict[str, int]] = {}
    answers: dict[int, list[tuple[int, int]]] = {}
    addresses: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _RAW.match(line)
        if found is None:
            raise draft.error_at(number, f"{line.strip()!r} is not as mtr --raw writes it")
        hop, words = int(found["hop"]), found["rest"].split()
        if found["kind"] == "h":
            if hop in addresses and hop == 0 and 0 in answers and len(answers) > 1:
                known = addresses[hop] == words[0]
                if not known:
                    raise draft.error_at(
                        number, "another first hop: are these several runs? Read one"
                    )
            addresses[hop] = words[0]
        elif found["kind"] == "x":
            sent.setdefault(hop, {})[words[-1]] = number
        elif found["kind"] == "p":
            if not words[0].isdigit():
                raise draft.error_at(number, f"{words[0]!r} is no number of microseconds")
            answers.setdefault(hop, []).append((int(words[0]), number))
    if not answers:
        raise draft.error_at(1, "no hop answered: there is no round trip")
    last = max(answers)
    target = min(hop for hop in answers if addresses.get(hop) == addresses.get(last))
    beyond, rounds = len(sent.get(last + 1, {})), len(sent.get(target, {}))
    if rounds >= 3 and beyond > rounds / 2:
        raise draft.error_at(
            answers[last][-1][1],
            f"the target never answered: beyond hop {last + 1}, {addresses.get(last, '???')}, mtr "
            "goes on probing, so that is a router on the way; measure with mtr --tcp, or hping3",
        )
    for usec, number in answers[target]:
        draft.add(usec / 1000, number)
    count = len(answers[target])
    draft.understood.append(
        f"{target + 1} hops, the last is {addresses.get(target, '???')}, taken for the target"
    )
    draft.assumed.append("the last hop that answers is the target; b is its site")
    draft.b = GATEWAY_SITE
    if not rounds:
        draft.warnings.append("no probes in it (mtr before 0.93): what got lost is not known")
        return [draft.series(sent=0, lost=0)]
    return [draft.series(sent=max(rounds, count), lost=max(rounds - count, 0))]
