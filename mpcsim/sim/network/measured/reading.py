"""Which format a file is in, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network.measured import (
    curl,
    fping,
    har,
    iperf3,
    matrix,
    mtr,
    mtr_text,
    pairs,
    ping,
    syn,
    windows_ping,
)
from mpcsim.sim.network.measured.series import Series

__all__ = ["FORMATS", "Reading", "read"]


class _Format(NamedTuple):
    recognises: Callable[[str], bool]
    read: Callable[[str, str], list[Series]]


FORMATS: Final[Mapping[str, _Format]] = {
    "har": _Format(har.recognises, har.read),
    "iperf3": _Format(iperf3.recognises, iperf3.read),
    "mtr": _Format(mtr.recognises, mtr.read),
    "mtr-report": _Format(mtr_text.recognises_report, mtr_text.read_report),
    "mtr-csv": _Format(mtr_text.recognises_csv, mtr_text.read_csv),
    "mtr-raw": _Format(mtr_text.recognises_raw, mtr_text.read_raw),
    "hping3": _Format(syn.recognises_hping3, syn.read_hping3),
    "tcpping": _Format(syn.recognises_tcpping, syn.read_tcpping),
    "ping": _Format(ping.recognises, ping.read),
    "windows-ping": _Format(windows_ping.recognises, windows_ping.read),
    "fping": _Format(fping.recognises, fping.read),
    "curl": _Format(curl.recognises, curl.read),
    "matrix": _Format(matrix.recognises, matrix.read),
    "csv": _Format(pairs.recognises, pairs.read),
}
"""By name, in the order in which they are tried."""

LARGEST_BYTES: Final = 256 * 1024 * 1024
"""Of a file: a year of pings, one a second, has twice that; a tenth of it says as much."""


@dataclass(frozen=True)
class Reading:
    """What a file says."""

    path: str
    format: str
    """A name in ``FORMATS``."""
    series: tuple[Series, ...]
    """One for each pair of sites; at least one."""


def read(
    path: str | Path,
    format_name: str | None = None,
    *,
    unit: str | None = None,
    column: str | None = None,
) -> Reading:
    """What a file of measurements says.

    Args:
        format_name: a name in ``FORMATS``; by default what the file's content looks like.
        unit: of the numbers of a CSV file: ``ns``, ``us``, ``ms`` or ``s``. The other formats say
            it themselves.
        column: heading of the round trips in a CSV file.

    Raises:
        UsageError: the file cannot be read, is in no format or not in the one that was named, or
            has something in it that cannot be: says what, in which line, and how it was understood.
    """
    text = _text(path)
    if format_name is not None and format_name not in FORMATS:
        raise UsageError(unknown("format", format_name, FORMATS))
    name = format_name or ("csv" if column is not None else _recognised(text, path))
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
    except UsageError as error:
        others = [each for each, kind in FORMATS.items() if kind.recognises(text)]
        if format_name is None or format_name in others:
            raise
        hint = f" It looks like {others[0]}." if others else ""
        raise UsageError(f"{error}; it does not look like {format_name}.{hint}") from None
    return Reading(str(path), name, tuple(found))


def _text(path: str | Path) -> str:
    try:
        if (size := Path(path).stat().st_size) > LARGEST_BYTES:
            raise UsageError(f"{path} has {size} bytes; at most {LARGEST_BYTES} are read")
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    if data[:2] == b"\xff\xfe":
        return data.decode("utf-16", errors="replace")  # PowerShell's redirection
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}, line {line}: not text in UTF-8") from None
    if "\0" in text:
        raise UsageError(f"{path}: not text")
    return text


def _recognised(text: str, path: str | Path) -> str:
    for name, kind in FORMATS.items():
        if kind.recognises(text):
            return name
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        raise UsageError(f"{path} is empty")
    raise UsageError(
        f"{path} is in no format that is known ({', '.join(FORMATS)}): its first line is "
        f"{first[:60]!r}. Programs must speak English (LC_ALL=C ping ...); a CSV file has "
        "headings, such as from,to,rtt_ms"
    )
