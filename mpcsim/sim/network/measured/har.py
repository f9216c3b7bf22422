"""HAR 1.2: the network log of a browser.

``log.entries[].timings`` has ``blocked``, ``dns``, ``connect``, ``ssl``, ``send``, ``wait`` and
``receive`` in milliseconds; -1 says that a phase does not apply, as ``connect`` of an open
connection; ``connect`` has ``ssl`` inside. A response's ``Server-Timing`` may say how long the
server took.

Source: HAR 1.2 (W3C draft of 2012), https://w3c.github.io/web-performance/specs/HAR/Overview.html
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured import located
from mpcsim.sim.network.measured.located import Node
from mpcsim.sim.network.measured.phases import Phases
from mpcsim.sim.network.measured.series import CLIENT_SITE, Draft, Probe, Series

_DURATION: Final = re.compile(r";\s*dur=([\d.]+)")


def recognises(text: str) -> bool:
    """Whether it is an object with the keys of a log."""
    return text.lstrip().startswith("{") and '"entries"' in text and '"timings"' in text


def read(text: str, path: str) -> list[Series]:
    """Round trips to each host, the one with most calls first.

    Raises:
        UsageError: no call opened a connection, a time is negative and not -1, a key is missing or
            no number: names line and path.
    """
    hosts: dict[str, Phases] = {}
    for entry in located.parse(text, path)["log"]["entries"].items():
        url = entry["request"]["url"].text()
        host = _host(url)
        if not host:
            raise entry.wrong(f"{url!r} is no address")
        if host not in hosts:
            hosts[host] = Phases(Draft(path, "HAR", Probe.HTTP, CLIENT_SITE, host))
        _add(hosts[host], entry)
    if not hosts:
        raise UsageError(f"{path}: read as HAR, but there are no calls in it")
    useful = {host: each for host, each in hosts.items() if each.draft.rtt_ms}
    if not useful:
        return [next(iter(hosts.values())).series()]  # which says what is wrong
    by_calls = sorted(useful.values(), key=lambda each: -len(each.draft.rtt_ms))
    for host in hosts.keys() - useful.keys():
        by_calls[0].draft.warnings.append(f"no call to {host} opened a connection: left out")
    return [each.series() for each in by_calls]


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def _add(phases: Phases, entry: Node) -> None:
    timings = entry["timings"]
    connect, ssl = _phase(timings, "connect"), _phase(timings, "ssl")
    wait = _phase(timings, "wait")
    if wait is not None:
        phases.first_byte_ms.append(wait + (_phase(timings, "send") or 0.0))
    phases.server_ms += _server_timing(entry)
    # Browsers show a connection that was there as no connect, or as one of 0.
    if not connect:
        phases.reused += 1
        return
    tcp = connect - (ssl or 0.0)
    if tcp < 0:
        raise timings.wrong(f"connect, {connect:g} ms, is shorter than ssl inside it, {ssl:g} ms")
    if tcp == 0:
        phases.draft.warnings.append(
            f"line {timings.line}: {timings.path}: connect and ssl are alike: no round trip to see"
        )
        return
    phases.draft.add(tcp, timings.line)
    if ssl:
        phases.tls_ms.append(ssl)


def _phase(timings: Node, name: str) -> float | None:
    """Milliseconds; None: it does not apply."""
    found = timings.get(name)
    if found is None or (value := found.number()) == -1:
        return None
    if not 0 <= value < float("inf"):
        raise found.wrong(f"{value:g} ms: a time cannot be (-1 says that there was none)")
    return value


def _server_timing(entry: Node) -> list[float]:
    """What the server says that it took; the longest of several."""
    response = entry.get("response")
    headers = None if response is None else response.get("headers")
    found = []
    for header in [] if headers is None else headers.items():
        if header["name"].text().lower() == "server-timing":
            found += [float(ms) for ms in _DURATION.findall(header["value"].text()) if _plain(ms)]
    return [max(found)] if found else []


def _plain(text: str) -> bool:
    return text.count(".") <= 1 and text != "."
