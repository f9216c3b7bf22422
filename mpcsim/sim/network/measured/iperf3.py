"""The report of ``iperf3 --json``: throughput, retransmissions, and the sender's round trips.

``start.test_start`` has ``protocol``, ``reverse`` and ``bidir``; ``intervals[].streams[]`` of the
sender have ``rtt`` (microseconds: tcpi_rtt, TCP's smoothed round trip at the interval's end) and
``retransmits``; ``end.sum_received`` and ``end.sum_sent`` have ``bits_per_second`` and ``bytes``.

TCP's own round trips, under load: a queue that the test itself fills is in them.

Source: iperf 3.16 (``src/iperf_api.c``, ``src/iperf_tcp.c``).
"""

from __future__ import annotations

from typing import Final

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured import located
from mpcsim.sim.network.measured.located import Node
from mpcsim.sim.network.measured.series import Draft, Probe, Series

MSS: Final = 1448
"""Bytes of a segment, if the report does not say (``start.tcp_mss_default``)."""


def recognises(text: str) -> bool:
    """Whether it is an object with the keys of a report."""
    return text.lstrip().startswith("{") and '"intervals"' in text and '"start"' in text


def read(text: str, path: str) -> list[Series]:
    """The sender's round trips, one for each interval and stream.

    From the client to the server; with ``--reverse`` the server sends, and rate and loss are of the
    way back.

    Raises:
        UsageError: iperf3 reported an error, a test over UDP, no round trip in it, or a key that is
            missing or no number: names line and path.
    """
    report = located.parse(text, path)
    if (error := report.get("error")) is not None:
        raise error.wrong(f"iperf3 says: {error.text()}")
    start = report["start"]
    test = start["test_start"]
    protocol = test["protocol"].text()
    if protocol != "TCP":
        raise test.wrong(f"a test over {protocol} has no round trips: run iperf3 without -u")
    reverse = _flag(test, "reverse")
    draft = Draft(path, "iperf3 --json", Probe.TCP)
    end = report["end"]
    retransmits, sent_bytes = _lost(end)
    for interval in report["intervals"].items():
        for stream in interval["streams"].items():
            if _flag(stream, "omitted"):
                continue
            rtt = stream.get("rtt")
            if rtt is not None and rtt.number() != 0:  # 0: a receiver's
                draft.add(rtt.number() / 1000, stream.line)
    if not draft.rtt_ms:
        raise report["intervals"].wrong(
            "no interval has the sender's rtt: it is on Linux that iperf3 knows it, and in the "
            "report of the sender (with --reverse: the server's)"
        )
    mbit = end["sum_received"]["bits_per_second"].number() / 1e6
    if mbit <= 0:
        raise end["sum_received"].wrong("nothing was received")
    mss = start.get("tcp_mss_default")
    segments = sent_bytes / (mss.number() if mss is not None and mss.number() > 0 else MSS)
    loss = min(retransmits / segments, 0.99) if segments else 0.0
    draft.understood += [
        f"{mbit:.4g} Mbit/s {'to' if reverse else 'from'} the client: TCP's throughput, a lower "
        "bound of the link's rate",
        f"{retransmits:g} of about {segments:.0f} segments sent again: at most {loss:.2%} lost, "
        "for a retransmission may be spurious",
        f"round trips are TCP's smoothed ones, {len(draft.rtt_ms)} readings under load",
    ]
    draft.warnings.append(
        "measured under load: the queue that the test fills is in the round trips, and smoothing "
        "narrows them; an idle link has the least of them or less"
    )
    if _flag(test, "bidir"):
        draft.warnings.append("both ways at once: rates are those of the client's sending")
    return [
        draft.series(
            sent=0,  # readings, not probes
            segment_loss=loss,
            **{"back_mbit_per_s" if reverse else "mbit_per_s": mbit},
        )
    ]


def _flag(node: Node, name: str) -> bool:
    found = node.get(name)
    return found is not None and bool(found.value)


def _lost(end: Node) -> tuple[float, float]:
    """Segments that were sent again, and bytes sent."""
    sent = end["sum_sent"]
    again = sent.get("retransmits")
    numbers = (0.0 if again is None else again.number()), sent["bytes"].number()
    if min(numbers) < 0:
        raise UsageError(f"{sent.file}, line {sent.line}: {sent.path}: a number below 0")
    return numbers
