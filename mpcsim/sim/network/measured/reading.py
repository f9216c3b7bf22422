"""Reading of measurement files: recognition of the format, and the format's reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.columns import UNITS
from mpcsim.sim.network.measured import other_programs
from mpcsim.sim.network.measured.programs import (
    fping,
    iperf3,
    mahimahi,
    mtr,
    mtr_text,
    ping,
    syn,
    windows_ping,
)
from mpcsim.sim.network.measured.series import Series
from mpcsim.sim.network.measured.tables import matrix, pairs
from mpcsim.sim.network.measured.web import curl, har

__all__ = ["FORMATS", "Reading", "read"]


class _Format(NamedTuple):
    can_read: Callable[[str], bool]
    read: Callable[[str, str], list[Series]]


FORMATS: Final[Mapping[str, _Format]] = {
    "har": _Format(har.can_read, har.read),
    "iperf3": _Format(iperf3.can_read, iperf3.read),
    "mtr": _Format(mtr.can_read, mtr.read),
    "mtr-report": _Format(mtr_text.can_read_report, mtr_text.read_report),
    "mtr-csv": _Format(mtr_text.can_read_csv, mtr_text.read_csv),
    "mtr-raw": _Format(mtr_text.can_read_raw, mtr_text.read_raw),
    "hping3": _Format(syn.can_read_hping3, syn.read_hping3),
    "tcpping": _Format(syn.can_read_tcpping, syn.read_tcpping),
    "ping": _Format(ping.can_read, ping.read),
    "windows-ping": _Format(windows_ping.can_read, windows_ping.read),
    "fping": _Format(fping.can_read, fping.read),
    "curl": _Format(curl.can_read, curl.read),
    "mahimahi": _Format(mahimahi.can_read, mahimahi.read),
    "matrix": _Format(matrix.can_read, matrix.read),
    "csv": _Format(pairs.can_read, pairs.read),
}
"""Readers by name, in the order in which they are tried."""

PAIRS_SHOWN: Final = 10
SHOWN: Final = 60
"""Most letters of a line in an error."""
REMEDY_SAID: Final = re.compile(r"curl -w|--mbit|rtt_ms|run |measure |write |leave |save ")
"""Words of an error that already says what to do."""
_AS_PRINTED: Final = "Give the file as the program printed it, from its first line on"
REMEDIES: Final[Mapping[str, str]] = {
    "har": "Or time the connections with curl -w '%{json}\\n'",
    "iperf3": "Give the report of iperf3 --json of a test over TCP that went through",
    "mtr": "Give the report of mtr --json that reached the target",
    "mtr-report": "Give the report of mtr that reached the target",
    "mtr-csv": "Give the CSV of mtr that reached the target",
    "mtr-raw": _AS_PRINTED,
    "hping3": _AS_PRINTED,
    "tcpping": _AS_PRINTED,
    "ping": _AS_PRINTED,
    "windows-ping": _AS_PRINTED,
    "fping": _AS_PRINTED,
    "curl": "Give what curl -w '%{json}\\n' writes",
    "matrix": "Give one number for each pair of regions",
    "csv": "Give a table with the headings from,to,rtt_ms",
}
"""Remedies for a file that is refused, by format."""
LARGEST_BYTES: Final = 256 * 1024 * 1024
"""Largest file: a year of pings, one a second, has nine times that; a tenth of it says as much."""


@dataclass(frozen=True)
class Reading:
    """Content of a measurement file."""

    path: str
    format: str
    """Name of the format in ``FORMATS``."""
    series: tuple[Series, ...]
    """Series for each pair of sites; at least one."""

    @property
    def summary(self) -> list[str]:
        """Lines on the file as a whole: format, runs, units, assumptions."""
        first = self.series[0]
        formats = ", ".join(dict.fromkeys(each.format for each in self.series))
        runs = sum(len(each.runs) or 1 for each in self.series)
        lines = [f"{self.path}: read as {formats}"]
        if len(self.series) > 1:
            lines.append(f"  {_describe_pairs(self.series)}")
        elif first.runs:
            lines.append(f"  {runs} runs: {_describe_runs(first)}")
        else:
            lines.append("  one run")
        lines += [f"  unit: {unit}" for unit in dict.fromkeys(each.unit for each in self.series)]
        said = dict.fromkeys(text for each in self.series for text in each.assumed)
        lines += [f"  assumed: {text}" for text in said]
        return lines


def _describe_pairs(series: Sequence[Series]) -> str:
    """Return a text of the file's pairs, and of the options that choose one."""
    named = [f"{each.a} - {each.b}{_run_count(each)}" for each in series[:PAIRS_SHOWN]]
    more = f" and {len(series) - PAIRS_SHOWN} more" if len(series) > PAIRS_SHOWN else ""
    one = next((each for each in series if each.a != each.b), series[0])
    return f"{len(series)} pairs: {', '.join(named)}{more} (one: --site={one.a} --site={one.b})"


def _run_count(series: Series) -> str:
    return f" ({len(series.runs)} runs)" if series.runs else ""


def _describe_runs(series: Series) -> str:
    """Return a text of each run's number of round trips, and their mean."""
    said, at = [], 0
    for count in series.runs[:PAIRS_SHOWN]:
        times = series.rtt_ms[at : at + count]
        mean = f", mean {fmean(times):.4g} ms" if times else ""
        said.append(f"{count} round trips{mean}" if count != 1 else f"1 round trip{mean}")
        at += count
    more = f"; and {len(series.runs) - PAIRS_SHOWN} more" if len(series.runs) > PAIRS_SHOWN else ""
    return "; ".join(said) + more


def read(
    path: str | Path,
    format_name: str | None = None,
    *,
    unit: str | None = None,
    column: str | None = None,
) -> Reading:
    """Return the content of a file of measurements.

    Args:
        format_name: a name in ``FORMATS``; by default what the file's content looks like.
        unit: of the numbers of a CSV file: ``ns``, ``us``, ``ms`` or ``s``. The other formats say
            it themselves.
        column: heading of the round trips in a CSV file.

    Raises:
        UsageError: the file cannot be read, is in no format or not in the one that was named, or
            has something in it that cannot be: says what, in which line, and how it was understood.
    """
    text = _read_text(path)
    if format_name is not None and format_name not in FORMATS:
        raise UsageError(unknown("format", format_name, FORMATS))
    if unit is not None and unit not in UNITS:
        raise UsageError(unknown("unit", unit, UNITS))
    name = format_name or ("csv" if column is not None else _recognise_format(text, path))
    try:
        if name == "csv":
            found = pairs.read(text, str(path), unit, column)
        elif column is not None:
            raise UsageError(f"{path}: read as {name}, which has no columns to choose from")
        elif name == "matrix":
            found = matrix.read(text, str(path), unit)
        elif unit is not None:
            raise UsageError(f"{path}: read as {name}, which says the unit of its times itself")
        else:
            found = FORMATS[name].read(text, str(path))
    except UsageError as found_wrong:
        error = _with_line_text(found_wrong, text)
        others = [each for each, kind in FORMATS.items() if kind.can_read(text)]
        if format_name is None or format_name in others:
            remedy = "" if REMEDY_SAID.search(str(error)) else REMEDIES.get(name, "")
            raise UsageError(f"{error}{'. ' * bool(remedy)}{remedy}") from None
        hint = f" It looks like {others[0]}." if others else ""
        raise UsageError(f"{error}; it does not look like {format_name}.{hint}") from None
    return Reading(str(path), name, tuple(found))


def _with_line_text(error: UsageError, text: str) -> str:
    """Return the message, with the text of the line that it names."""
    message = str(error)
    found = re.search(r", (?:in )?lines? (\d+)", message)
    lines = text.splitlines()
    if found is None or not 1 <= int(found[1]) <= len(lines):
        return message
    line = lines[int(found[1]) - 1].strip()
    if not line or line[:SHOWN] in message or repr(line[:SHOWN])[1:-1] in message:
        return message
    return f"{message} [line {found[1]}: {line[:SHOWN]!r}]"


def _read_text(path: str | Path) -> str:
    try:
        if (size := Path(path).stat().st_size) > LARGEST_BYTES:
            raise UsageError(f"{path} has {size} bytes; at most {LARGEST_BYTES} are read")
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")  # PowerShell's redirection
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # cmd.exe writes in the code page of its language; ping's lines are known by their form.
        text = data.decode("cp850")
        if windows_ping.can_read(text):
            return text
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}, line {line}: not text in UTF-8: save it as UTF-8") from None
    if "\0" in text:
        raise UsageError(f"{path}: not text")
    return text


def _recognise_format(text: str, path: str | Path) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        raise UsageError(f"{path} is empty: nothing was measured")
    if said := other_programs.recognise_lookalike(text):
        raise UsageError(f"{path}, line 1: {first[:SHOWN]!r}: {said}")
    for name, kind in FORMATS.items():
        if kind.can_read(text):
            return name
    if said := other_programs.recognise_unsupported(text):
        raise UsageError(f"{path}, line 1: {first[:SHOWN]!r}: {said}")
    raise UsageError(
        f"{path} is in no format that is known ({', '.join(FORMATS)}): its first line is "
        f"{first[:SHOWN]!r}. Give a program's text as it printed it (LC_ALL=C ping ...); a CSV "
        "file has headings, such as from,to,rtt_ms"
    )
