"""Reader of HAR 1.2: the network log of a browser, or of a proxy.

``log.entries[].timings`` has ``blocked``, ``dns``, ``connect``, ``ssl``, ``send``, ``wait`` and
``receive`` in milliseconds; -1 says that a phase does not apply, as ``connect`` of an open
connection; ``connect`` has ``ssl`` inside, or beside it (``har_writers``). A response's
``Server-Timing`` may say how long the server took.

An https connection without an ``ssl`` phase is no round trip: ``connect`` may hold the handshake.
Entries that open no connection to a server (``data:``, ``about:``), or whose times cannot be, are
left out with a warning.

Source: HAR 1.2 (W3C draft of 2012), https://w3c.github.io/web-performance/specs/HAR/Overview.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured import located_json
from mpcsim.sim.network.measured.located_json import JsonValue
from mpcsim.sim.network.measured.series import (
    CLIENT_SITE,
    SYN_TIMEOUT_MS,
    Draft,
    Probe,
    Series,
    format_lines,
)
from mpcsim.sim.network.measured.web import har_writers
from mpcsim.sim.network.measured.web.har_writers import ConnectMeaning
from mpcsim.sim.network.measured.web.phases import Phases
from mpcsim.sim.rich_display import counted

_DURATION: Final = re.compile(r";\s*dur=([\d.]+)")
OVER_NETWORK: Final = ("http", "https", "ws", "wss")
ENCRYPTED: Final = ("https", "wss")
SHOWN: Final = 5
REMEDY: Final = "; time the connections with curl -w '%{json}\\n', or log them with Chromium"


class Call(NamedTuple):
    """Entry of the log that is a call over a network."""

    entry: JsonValue
    scheme: str
    host: str
    connect: float | None
    ssl: float | None
    wait: float | None


def can_read(text: str) -> bool:
    """Return whether the text is an object with the keys of a log."""
    return text.lstrip().startswith("{") and '"entries"' in text and '"timings"' in text


def read(text: str, path: str) -> list[Series]:
    """Return the round trips to each host, the one with most calls first.

    Raises:
        UsageError: no call opened a connection whose round trip can be told, the log is no list of
            entries: names line and path.
    """
    log = located_json.parse(text, path)["log"]
    left_out: list[str] = []
    calls = list(_calls(log["entries"].items(), left_out))
    pairs = [(call.connect, call.ssl) for call in calls if call.connect and call.ssl]
    connects = har_writers.connect_meaning(
        _creator_member(log, "name"), _creator_member(log, "version"), pairs
    )
    if connects.ssl_inside is None:
        raise UsageError(f"{path}, line {calls[0].entry.line}: {connects.why}{REMEDY}")
    hosts: dict[str, Phases] = {}
    unphased: dict[str, list[int]] = {}
    for call in calls:
        if call.host not in hosts:
            draft = Draft(path, "HAR", Probe.HTTP, CLIENT_SITE, call.host)
            draft.assumed.append(connects.why)
            hosts[call.host] = Phases(draft)
        _add_call(call, hosts[call.host], connects, left_out, unphased)
    return _series(path, hosts, unphased, left_out)


def _creator_member(log: JsonValue, name: str) -> str:
    """Return a member of the log's creator; empty if there is none."""
    creator = log.get("creator")
    found = None if creator is None else creator.get(name)
    return "" if found is None else str(found.value)


def _series(
    path: str, hosts: dict[str, Phases], unphased: dict[str, list[int]], left_out: list[str]
) -> list[Series]:
    useful = {host: each for host, each in hosts.items() if each.draft.rtt_ms}
    out = _describe_left_out(left_out) if left_out else ""
    if not useful:
        if unphased:
            lines = [line for each in unphased.values() for line in each]
            raise UsageError(
                f"{path}: read as HAR, {format_lines(lines)}: https without an ssl phase: connect "
                f"may hold the TLS handshake, so it is no round trip{REMEDY}"
            )
        if not hosts:
            raise UsageError(
                f"{path}: read as HAR, but there is no call over a network in it{'; ' * bool(out)}"
                f"{out}"
            )
        first = next(iter(hosts.values()))
        if first.reused:
            return [first.series()]  # which says what is wrong
        raise UsageError(f"{path}: read as HAR, but no connection is left; {out}{REMEDY}")
    by_calls = sorted(useful.values(), key=lambda each: -len(each.draft.rtt_ms))
    warnings = by_calls[0].draft.warnings
    if out:
        warnings.append(out)
    for host in [host for host in hosts if host not in useful]:
        warnings.append(f"no call to {host} opened a connection: left out")
    for host, lines in unphased.items():
        warnings.append(
            f"{counted(len(lines), 'https connection')} to {host} without an ssl phase "
            f"({format_lines(lines)}): connect may hold the TLS handshake: left out"
        )
    return [each.series() for each in by_calls]


def _describe_left_out(left_out: list[str]) -> str:
    more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
    number = f"{len(left_out)} {'entry' if len(left_out) == 1 else 'entries'}"
    return f"{number} left out: {'; '.join(left_out[:SHOWN])}{more}"


def _calls(entries: list[JsonValue], left_out: list[str]) -> Iterator[Call]:
    """Yield the entries that are calls over a network, and whose times can be."""
    for entry in entries:
        try:
            url = entry["request"]["url"].text()
            scheme, host = _address(url)
            if not host:
                left_out.append(f"line {entry.line} ({entry.path}): {url[:40]!r} is no address")
                continue
            timings = entry["timings"]
            phases = [_phase(timings, name) for name in ("connect", "ssl", "wait")]
        except UsageError as error:
            left_out.append(str(error).removeprefix(f"{entry.file}, "))
            continue
        yield Call(entry, scheme, host, *phases)


def _address(url: str) -> tuple[str, str]:
    """Return scheme and host; an empty host if nothing goes over a network."""
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme.lower(), parts.netloc.rpartition("@")[2]
    except ValueError:
        return "", ""
    return (scheme, host) if scheme in OVER_NETWORK else (scheme, "")


def _add_call(
    call: Call,
    phases: Phases,
    connects: ConnectMeaning,
    left_out: list[str],
    unphased: dict[str, list[int]],
) -> None:
    entry, connect, ssl = call.entry, call.connect, call.ssl
    try:
        if call.wait is not None:
            phases.first_byte_ms.append(call.wait + (_phase(entry["timings"], "send") or 0.0))
        phases.server_ms += _server_timing(entry)
    except UsageError as error:
        left_out.append(str(error).removeprefix(f"{entry.file}, "))
        return
    # Browsers show a connection that was there as no connect, or as one of 0.
    if not connect:
        phases.reused += 1
        return
    timings = entry["timings"]
    if call.scheme in ENCRYPTED and not ssl:
        unphased.setdefault(call.host, []).append(timings.line)
        return
    tcp = connect - (ssl or 0.0) if connects.ssl_inside else connect
    where = f"line {timings.line} ({timings.path})"
    if tcp < 0:
        left_out.append(f"{where}: connect, {connect:g} ms, is shorter than ssl, {ssl:g} ms")
    elif tcp == 0:
        left_out.append(f"{where}: connect and ssl are alike: no round trip to see")
    elif ssl and ssl < tcp / 2 and tcp < SYN_TIMEOUT_MS:
        left_out.append(f"{where}: ssl, {ssl:g} ms, is shorter than a round trip of {tcp:g} ms")
    else:
        try:
            phases.draft.add(tcp, timings.line)
        except UsageError as error:
            left_out.append(str(error).removeprefix(f"{entry.file}, "))
            return
        if ssl:
            phases.tls_ms.append(ssl)


def _phase(timings: JsonValue, name: str) -> float | None:
    """Return a phase in milliseconds; None if it does not apply."""
    found = timings.get(name)
    if found is None or (value := found.number()) == -1:
        return None
    if not 0 <= value < float("inf"):
        raise found.error_at(f"{value:g} ms: a time cannot be (-1 says that there was none)")
    return value


def _server_timing(entry: JsonValue) -> list[float]:
    """Return the server's time by its ``Server-Timing`` header; the longest of several."""
    response = entry.get("response")
    headers = None if response is None else response.get("headers")
    found = []
    for header in [] if headers is None else headers.items():
        if header["name"].text().lower() == "server-timing":
            found += [
                float(ms) for ms in _DURATION.findall(header["value"].text()) if _is_decimal(ms)
            ]
    return [max(found)] if found else []


def _is_decimal(text: str) -> bool:
    return text.count(".") <= 1 and text != "."
