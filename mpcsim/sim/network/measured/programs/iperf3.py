"""Reader of the report of ``iperf3 --json``: throughput, retransmissions, sender's round trips.

``start.test_start`` has ``protocol``, ``reverse`` and, from 3.13 on, ``bidir``;
``intervals[].streams[]`` of the sender have ``rtt`` (microseconds: tcpi_rtt, TCP's smoothed round
trip at the interval's end) and ``retransmits``; ``end.sum_received`` and ``end.sum_sent`` have
``bits_per_second`` and ``bytes``. With ``--bidir`` these are the client's sending;
``sum_sent_bidir_reverse`` and ``sum_received_bidir_reverse`` are the server's, which up to 3.10 had
the same names once more. ``--get-server-output`` puts the server's report in
``server_output_json``: with ``--reverse`` its intervals are the sender's. ``--json-stream`` writes
an event a line instead of one document (``iperf3_stream``). A file may hold several reports, and
lines of text before the first.

The round trips are TCP's own, under load: they include a queue that the test itself fills.

Source: iperf 3.19 (``src/iperf_api.c``, ``src/iperf_tcp.c``); esnet/iperf issues 952, 1196, 1428.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured import located_json
from mpcsim.sim.network.measured.located_json import JsonValue
from mpcsim.sim.network.measured.programs import iperf3_stream
from mpcsim.sim.network.measured.series import GATEWAY_SITE, Draft, Probe, Series

MSS: Final = 1448
"""Bytes of a segment, if the report has no ``start.tcp_mss_default``."""


@dataclass(frozen=True)
class TestReport:
    """Report of one test."""

    node: JsonValue
    host: str
    """Name of the server."""
    rtts: Sequence[tuple[float, int]]
    """Round trips in milliseconds, with their lines."""
    mbit_per_s: float | None
    """Rate from the client; ``back_mbit_per_s`` to it."""
    back_mbit_per_s: float | None
    retransmits: float
    segments: float
    is_bidirectional: bool
    by_server: bool
    """Whether the round trips are from the server's report."""


def can_read(text: str) -> bool:
    """Return whether the text is an object with the keys of a report, or a stream of events."""
    _, body = _split_preamble(text)
    document = '"intervals"' in body and '"start"' in body
    return body.startswith(("{", "[")) and (document or iperf3_stream.can_read(body))


def _split_preamble(text: str) -> tuple[str, str]:
    """Return lines of text before the first object, and the rest."""
    lines = text.splitlines(keepends=True)
    first = next((at for at, line in enumerate(lines) if line.lstrip().startswith(("{", "["))), 0)
    return "".join(lines[:first]), "".join(lines[first:]).lstrip()


def read(text: str, path: str) -> list[Series]:
    """Return the sender's round trips, one for each interval and stream.

    The direction is from the client to the server; with ``--reverse`` the server sends, and rate
    and loss are of the way back.

    Raises:
        UsageError: iperf3 reported an error, a test over UDP, no round trip in it, or a key that is
            missing or no number: names line and path.
    """
    before, _ = _split_preamble(text)
    documents = located_json.parse_all("\n" * before.count("\n") + text[len(before) :], path)
    warnings = [f"text before the report: {line[:60]!r}" for line in before.split("\n") if line][:1]
    tests, failed = [], []
    for document in iperf3_stream.documents(documents):
        if (error := document.get("error")) is not None:
            failed.append(error.error_at(f"iperf3 says: {error.text()}; run it again"))
        else:
            tests.append(_test(document))
    if not tests:
        raise failed[0]
    warnings += [f"left out: {error}" for error in failed]
    hosts = dict.fromkeys(test.host for test in tests)
    return [
        _series(
            path,
            [test for test in tests if test.host == host],
            GATEWAY_SITE if len(hosts) == 1 else host,
            warnings,
        )
        for host in hosts
    ]


def _series(path: str, tests: Sequence[TestReport], site: str, warnings: Sequence[str]) -> Series:
    draft = Draft(path, "iperf3 --json", Probe.TCP, b=site)
    draft.unit = "microseconds, as the format has them"
    draft.assumed.append("tcpi_rtt, TCP's smoothed round trip, is the link's")
    draft.warnings += warnings
    runs = []
    for test in tests:
        for ms, line in test.rtts:
            draft.add(ms, line)
        runs.append(len(test.rtts))
        _note_results(test, draft)
    draft.understood.append(
        f"round trips are TCP's smoothed ones, {len(draft.rtt_ms)} readings under load"
    )
    draft.warnings.append(
        "measured under load: the queue that the test fills is in the round trips, and smoothing "
        "narrows them; an idle link has the least of them or less"
    )
    segments = sum(test.segments for test in tests)
    again = sum(test.retransmits for test in tests)
    return draft.series(
        sent=0,  # readings, not probes
        lost=0,
        segment_loss=min(again / segments, 0.99) if segments else None,
        runs=tuple(runs) if len(runs) > 1 else (),
        mbit_per_s=_mean([test.mbit_per_s for test in tests]),
        back_mbit_per_s=_mean([test.back_mbit_per_s for test in tests]),
    )


def _mean(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return fmean(known) if known else None


def _note_results(test: TestReport, draft: Draft) -> None:
    for rate, way in ((test.mbit_per_s, "from"), (test.back_mbit_per_s, "to")):
        if rate is not None:
            draft.understood.append(
                f"{rate:.4g} Mbit/s {way} the client: TCP's throughput, a lower bound of the "
                "link's rate"
            )
    if test.segments:
        loss = min(test.retransmits / test.segments, 0.99)
        draft.understood.append(
            f"{test.retransmits:g} of about {test.segments:.0f} segments sent again: at most "
            f"{loss:.2%} lost, for a retransmission may be spurious"
        )
    else:
        draft.warnings.append("the report has no bytes: what got lost is not known")
    if test.is_bidirectional:
        draft.warnings.append("both ways at once: each way's rate is beside the other's traffic")
    if test.by_server:
        draft.understood.append("the server sent: its round trips, from --get-server-output")


def _test(report: JsonValue) -> TestReport:
    """Read one report."""
    start, end = report["start"], report["end"]
    test = start["test_start"]
    protocol = test["protocol"].text()
    if protocol != "TCP":
        raise test.error_at(f"a test over {protocol} has no round trips: run iperf3 without -u")
    reverse = _flag(test, "reverse")
    rtts = _round_trips(report)
    server = report.get("server_output_json")
    by_server = not rtts and server is not None
    if not rtts and server is not None:
        rtts = _round_trips(server)
    if not rtts:
        raise report["intervals"].error_at(
            "no interval has the sender's rtt: it is on Linux that iperf3 knows it, and in the "
            "report of the sender (with --reverse: the server's, --get-server-output)"
        )
    there, back = _rate(end, "sum_received", 0), None
    other = _rate(end, "sum_received", 1)
    bidirectional = _flag(test, "bidir") or other is not None
    if reverse and not bidirectional:
        there, back = None, there
    elif bidirectional:
        # Of doubled names the first are of what the report's own side sends.
        by_other = start.get("accepted_connection") is not None
        swapped = by_other and not end.get_all("sum_received_bidir_reverse")
        there, back = (other, there) if swapped else (there, other)
    sums = end.get_all("sum_sent")
    bytes_sent = _total(sums[0], "bytes") if sums else 0.0
    if not bytes_sent:
        bytes_sent = _sum_of_intervals(report, "bytes")
    mss = start.get("tcp_mss_default")
    return TestReport(
        report,
        _host(start),
        rtts,
        there,
        back,
        _total(sums[0], "retransmits") if sums else 0.0,
        bytes_sent / (mss.number() if mss is not None and mss.number() > 0 else MSS),
        bidirectional,
        by_server,
    )


def _round_trips(report: JsonValue) -> list[tuple[float, int]]:
    found = []
    for interval in report["intervals"].items():
        for stream in interval["streams"].items():
            rtt = stream.get("rtt")
            omitted = _flag(stream, "omitted") or _flag(stream, "omit")
            if not omitted and rtt is not None and rtt.number() != 0:  # 0: a receiver's
                found.append((rtt.number() / 1000, stream.line))
    return found


def _rate(end: JsonValue, name: str, way: int) -> float | None:
    """Return Mbit/s of the client's sending (0), or of the server's beside it (1)."""
    sums = end.get_all(name)
    reverse = end.get_all(f"{name}_bidir_reverse")
    if way and not reverse and len(sums) < 2:
        return None
    found = (reverse[0] if reverse else sums[1]) if way else (sums or [end[name]])[0]
    mbit = found["bits_per_second"].number() / 1e6
    if not 0 < mbit < math.inf:
        raise found.error_at("nothing was received: run the test again")
    return mbit


def _total(node: JsonValue, name: str) -> float:
    found = node.get(name)
    value = 0.0 if found is None else found.number()
    if not 0 <= value < math.inf:
        raise UsageError(f"{node.file}, line {node.line}: {node.path}: {name} is below 0")
    return value


def _sum_of_intervals(report: JsonValue, name: str) -> float:
    """Return what all streams sent, from the intervals."""
    streams = [s for interval in report["intervals"].items() for s in interval["streams"].items()]
    return sum(_total(stream, name) for stream in streams if stream.get("rtt") is not None)


def _host(start: JsonValue) -> str:
    about = start.get("connecting_to")
    if about is not None and (host := about.get("host")) is not None:
        return host.text()
    for each in [] if start.get("connected") is None else start["connected"].items():
        if (remote := each.get("remote_host")) is not None:
            return remote.text()
    return ""


def _flag(node: JsonValue, name: str) -> bool:
    found = node.get(name)
    return found is not None and bool(found.value)
