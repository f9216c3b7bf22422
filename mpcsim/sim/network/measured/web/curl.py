"""Reader of timings that ``curl -w`` writes: of calls, in seconds from their start.

Either curl's own JSON, one object for each call (``-w '%{json}\\n'``), or lines of a name and a
time, as people write them (``time_connect: 0.012345``); another ``time_namelookup``, or an empty
line, begins the next call. Each time counts from the start of the call: ``time_namelookup`` <=
``time_connect`` <= ``time_appconnect`` (TLS is through; 0 without) <= ``time_pretransfer`` <=
``time_starttransfer`` (the first byte) <= ``time_total``.

Source: curl's manual, ``--write-out``, https://curl.se/docs/manpage.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mpcsim.sim.network.measured import located_json
from mpcsim.sim.network.measured.located_json import JsonValue
from mpcsim.sim.network.measured.series import GATEWAY_SITE, Draft, Probe, Series
from mpcsim.sim.network.measured.web.phases import Phases

NAMES: Final = (
    "time_namelookup",
    "time_connect",
    "time_appconnect",
    "time_pretransfer",
    "time_starttransfer",
    "time_total",
)
_LINE: Final = re.compile(
    r"\s*(?:time_)?(namelookup|connect|appconnect|pretransfer|starttransfer|total|redirect)"
    r"\s*[:=]\s*(\S+?)(ms|us|s)?,?\s*$"
)


class Call(NamedTuple):
    """Times of one call."""

    line: int
    """Line where it begins."""
    times: dict[str, float]
    """Times in seconds, by name."""
    lines: Mapping[str, int] = {}
    """Lines of the times, if they are not all in one."""
    opened: float = -1.0
    """Number of connections that the call opened; -1: not known."""
    host: str = ""
    """Name of the server, if it is there."""


def can_read(text: str) -> bool:
    """Return whether the text has curl's names of times."""
    return bool(
        re.search(r'"time_(starttransfer|connect)"', text)
        or (
            re.search(r"^\s*(time_)?connect\s*[:=]", text, re.MULTILINE)
            and re.search(
                r"^\s*(time_)?(starttransfer|namelookup|appconnect|total)\s*[:=]",
                text,
                re.MULTILINE,
            )
        )
    )


def read(text: str, path: str) -> list[Series]:
    """Return the round trips of the connects.

    Raises:
        UsageError: no call opened a connection; a time that is none or negative, or before the one
            that it follows: names the line.
    """
    calls = list(
        _parse_json(text, path) if '"time_' in text else _parse_lines(text, _draft(path, ""))
    )
    hosts = dict.fromkeys(call.host for call in calls)
    found = {host: Phases(_draft(path, host if len(hosts) > 1 else "")) for host in hosts or ("",)}
    for call in calls:
        phases = found[call.host]
        draft = phases.draft
        _check_order(call, draft)
        line, times = call.line, call.times
        if "time_connect" not in times:
            raise draft.error_at(line, "time_connect is missing: there is no round trip without it")
        looked_up = times.get("time_namelookup", 0.0)
        at = call.lines.get("time_connect", line)
        connect = times["time_connect"] - looked_up
        before = times.get("time_pretransfer") or times.get("time_appconnect")
        before = before or times["time_connect"]
        if first := times.get("time_starttransfer"):
            phases.first_byte_ms.append((first - before) * 1000)
        if call.opened == 0 or (connect <= 0 and first):
            phases.reused += 1
            continue
        if not times["time_connect"]:
            draft.warnings.append(f"line {line}: the call failed before it had a connection")
            draft.add_loss(line)
            continue
        if times["time_connect"] > 0 and "time_namelookup" not in times:
            _warn_once(
                draft, "time_namelookup is not there: looking up the name is in the round trips"
            )
        draft.add(connect * 1000, at)
        if tls := times.get("time_appconnect"):
            phases.tls_ms.append((tls - times["time_connect"]) * 1000)
    useful = [each for each in found.values() if each.draft.rtt_ms]
    for host, each in found.items():
        if useful and each not in useful:
            _warn_once(useful[0].draft, f"no call to {host} opened a connection: left out")
    return [each.series() for each in useful or list(found.values())[:1]]


def _draft(path: str, host: str) -> Draft:
    draft = Draft(path, "curl -w", Probe.HTTP, b=host or GATEWAY_SITE)
    draft.unit = "seconds, as the format has them"
    draft.assumed.append("a TCP connect takes one round trip")
    return draft


def _warn_once(draft: Draft, warning: str) -> None:
    if warning not in draft.warnings:
        draft.warnings.append(warning)


def _check_order(call: Call, draft: Draft) -> None:
    """Refuse times out of order; 0 means that a phase was not reached, or did not occur."""
    before, times = "", call.times
    for name in NAMES:
        line = call.lines.get(name, call.line)
        value = times.get(name, 0.0)
        if value < 0 or value != value or value == float("inf"):
            raise draft.error_at(line, f"{name} is {value:g} s: a time cannot be")
        if not value:
            continue
        if before and value < times[before]:
            raise draft.error_at(
                line, f"{name}, {value:g} s, is before {before}, {times[before]:g} s"
            )
        before = name
    if times.get("time_connect", 0.0) > 300:
        raise draft.error_at(
            call.lines.get("time_connect", call.line),
            f"time_connect is {times['time_connect']:g} s, more than five minutes: curl gives "
            "seconds; are these milliseconds?",
        )


def _parse_json(text: str, path: str) -> Iterator[Call]:
    """Yield the calls of JSON objects, one after the other or in a list."""
    whole = text.strip()
    if not whole.startswith("["):
        # Objects may have anything but a comma between them, and lines of their own inside.
        whole = re.sub(r"\}(\s*)\{", r"},\1{", text.strip("\ufeff \t\r"))
        whole = f"[{whole}]"
    for call in located_json.parse(whole, path).items():
        times = {name: found.number() for name in NAMES if (found := call.get(name)) is not None}
        opened = call.get("num_connects")
        connects = -1.0 if opened is None else opened.number()
        yield Call(call.line, times, opened=connects, host=_host(call))


def _host(call: JsonValue) -> str:
    """Return the server of a call: the host of its URL, or its address."""
    for name in ("url_effective", "url"):
        url = call.get(name)
        if url is not None and isinstance(url.value, str):
            with suppress(ValueError):
                return urlsplit(url.value if "//" in url.value else f"//{url.value}").netloc
    address = call.get("remote_ip")
    return "" if address is None else str(address.value)


def _parse_lines(text: str, draft: Draft) -> Iterator[Call]:
    times: dict[str, float] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.match(line)
        name = f"time_{found[1]}" if found else ""
        if times and (name in times or not line.strip()):
            yield Call(min(lines.values()), times, lines)
            times, lines = {}, {}
        if found is None:
            if re.match(r"\s*time_\w+\s*[:=]", line) and "time_posttransfer" not in line:
                raise draft.error_at(number, f"{line.strip()!r} is no time of curl's")
            continue
        try:
            value = float(found[2].replace(",", "."))
        except ValueError:
            raise draft.error_at(number, f"{name} is {found[2]!r}, not a number") from None
        lines[name] = number
        times[name] = value * {"ms": 1e-3, "us": 1e-6}.get(found[3] or "s", 1.0)
    if times:
        yield Call(min(lines.values()), times, lines)
