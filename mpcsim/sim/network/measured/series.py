"""Series of measured round trips between two sites, with losses, as readers make them.

Times are milliseconds. A reader collects samples into a ``Draft``; ``Draft.series`` checks them as
a whole and warns of anomalies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from statistics import NormalDist, fmean, median, pstdev
from typing import Final

from mpcsim.errors import UsageError
from mpcsim.sim.rich_display import counted

__all__ = ["CLIENT_SITE", "GATEWAY_SITE", "Draft", "Probe", "Series", "Summary", "format_lines"]

CLIENT_SITE: Final = "client"
GATEWAY_SITE: Final = "gateway"
"""Sites of a measurement that names none: from a caller to its node or gateway."""

LONGEST_MS: Final = 60_000.0
"""Longest round trip: a larger number is in another unit."""
OUTLIER: Final = 10.0
"""Multiple of the median above which a sample is reported as an outlier."""
SLOW_MS: Final = 3000.0
LINES_SHOWN: Final = 5
SYN_TIMEOUT_MS: Final = 1000.0
"""Time after which a SYN that got lost is sent again (RFC 6298)."""


class Probe(Enum):
    """Kind of the packets that were sent to measure."""

    ICMP = "ICMP echo"
    TCP = "TCP"
    HTTP = "HTTP over TCP"
    UNKNOWN = "of what kind is not said"


ICMP_WARNING: Final = (
    "ICMP, not TCP: routers answer it in their spare time and limit its rate, and queues may treat "
    "it in another way, so neither its loss nor its round trip is TCP's; and TCP hides a loss "
    "behind a retransmission. Measure with hping3, tcpping, curl or iperf3 to be sure"
)


@dataclass(frozen=True)
class Summary:
    """Statistics that a program prints of round trips that it does not list."""

    count: int
    """Round trips; 0: not known."""
    least_ms: float
    mean_ms: float
    most_ms: float
    std_ms: float
    std_is_estimated: bool = False
    """Whether the deviation is not in the file, but that of ``estimated``."""

    @classmethod
    def estimated(cls, count: int, least_ms: float, mean_ms: float, most_ms: float) -> Summary:
        """Return a summary with an estimated deviation, for a file without one.

        It is that of a log-normal above the least, with this mean, whose largest of ``count`` (or
        of 100) samples is about the greatest."""
        excess, reach = mean_ms - least_ms, most_ms - least_ms
        if excess <= 0 or reach <= excess:
            return cls(count, least_ms, mean_ms, most_ms, 0.0, True)
        z = NormalDist().inv_cdf(1 - 1 / max(count or 100, 10))
        sigma = z - math.sqrt(max(0.0, z * z - 2 * math.log(reach / excess)))
        std = excess * math.sqrt(math.expm1(sigma * sigma))
        return cls(count, least_ms, mean_ms, most_ms, std, True)

    @classmethod
    def pooled(cls, parts: Sequence[Summary]) -> Summary:
        """Return the summary of several runs, weighted by their numbers of round trips."""
        count = sum(each.count for each in parts)
        weights = [each.count or 1 for each in parts]
        total = sum(weights)
        mean = sum(w * each.mean_ms for w, each in zip(weights, parts, strict=True)) / total
        second = sum(
            w * (each.std_ms**2 + (each.mean_ms - mean) ** 2)
            for w, each in zip(weights, parts, strict=True)
        )
        return cls(
            count if all(each.count for each in parts) else 0,
            min(each.least_ms for each in parts),
            mean,
            max(each.most_ms for each in parts),
            math.sqrt(second / total),
            any(each.std_is_estimated for each in parts),
        )

    def scaled(self, factor: float) -> Summary:
        """Return the summary in another unit."""
        return replace(
            self,
            least_ms=self.least_ms * factor,
            mean_ms=self.mean_ms * factor,
            most_ms=self.most_ms * factor,
            std_ms=self.std_ms * factor,
        )


@dataclass(frozen=True)
class Series:
    """Round trips between two sites."""

    a: str
    b: str
    """Ends of the link: names of sites, or of hosts."""
    format: str
    """Name of the file's format: ``ping (Linux)``."""
    probe: Probe
    rtt_ms: tuple[float, ...]
    """Round trips in the order of the file; empty where there is only a summary."""
    lines: tuple[int, ...] = ()
    """Lines of the round trips."""
    sent: int = 0
    """Number of probes; 0: not known."""
    lost: int = 0
    """Number of probes without an answer."""
    segment_loss: float | None = None
    """Share of retransmitted segments; an upper bound of the loss."""
    mbit_per_s: float | None = None
    """Rate from a to b; ``back_mbit_per_s`` from b to a."""
    back_mbit_per_s: float | None = None
    summary: Summary | None = None
    """Statistics in place of samples."""
    tls_round_trips: int | None = None
    """Round trips of a TLS handshake, estimated from its duration."""
    one_way: bool = False
    """Whether each sample is twice a time measured one way."""
    runs: tuple[int, ...] = ()
    """Number of round trips of each run of the program; empty: one run."""
    unit: str = "milliseconds, as the format has them"
    """Unit of the file's times, and how it is known."""
    assumed: tuple[str, ...] = ()
    """Assumptions of the reader, as sentences."""
    in_order: bool = True
    """Whether the samples are in order of time."""
    understood: tuple[str, ...] = ()
    """Further content of the file, as sentences."""
    warnings: tuple[str, ...] = ()

    @property
    def moments(self) -> Summary:
        """Number, extremes, mean and standard deviation of the round trips."""
        if self.summary is not None:
            return self.summary
        times = self.rtt_ms
        return Summary(len(times), min(times), fmean(times), max(times), pstdev(times))

    @property
    def round_trip_loss(self) -> float:
        """Share of the probes without an answer."""
        return self.lost / self.sent if self.sent else 0.0

    @property
    def loss(self) -> float:
        """Loss of one way, such that both ways together lose the measured share of round trips; the
        measured share of one-way times; or that of the segments that TCP retransmitted."""
        if self.segment_loss is not None:
            return self.segment_loss
        if self.one_way:
            return self.round_trip_loss
        return 1 - math.sqrt(1 - self.round_trip_loss)

    def with_ends(self, a: str, b: str) -> Series:
        """Return the series as measured between these sites."""
        return replace(self, a=a, b=b)


@dataclass
class Draft:
    """Draft of a series: the samples that a reader has found so far. Lines count from 1."""

    path: str
    format: str
    probe: Probe
    a: str = CLIENT_SITE
    b: str = GATEWAY_SITE
    unit_known: bool = True
    """Whether the file says in which unit its times are."""
    unit: str = "milliseconds, as the format has them"
    assumed: list[str] = field(default_factory=list)
    rtt_ms: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    lost_in: list[int] = field(default_factory=list)
    """Lines that show a probe without an answer."""
    zeros: list[int] = field(default_factory=list)
    sent: int = 0
    """Number of probes, if the file has it."""
    times_s: list[tuple[float, int]] = field(default_factory=list)
    """Times at which samples were taken, and their lines."""
    understood: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, ms: float, line: int, at_s: float | None = None) -> None:
        """Add a round trip.

        Raises:
            UsageError: it is negative, not finite, or longer than a minute.
        """
        if not math.isfinite(ms) or ms < 0:
            raise self.error_at(line, f"a round trip of {ms:g} ms cannot be")
        if ms > LONGEST_MS:
            raise self.error_at(
                line,
                f"a round trip of {ms:g} ms is longer than a minute: is it in another unit (us, "
                "ns)? Say so in the heading (rtt_us), or with --unit",
            )
        if at_s is not None:
            self.times_s.append((at_s, line))
        if ms == 0:
            self.zeros.append(line)
            return
        self.rtt_ms.append(ms)
        self.lines.append(line)

    def add_loss(self, line: int) -> None:
        """Add a probe without an answer."""
        self.lost_in.append(line)

    def error_at(self, line: int, what: str) -> UsageError:
        """Return an error in a line, with the number of round trips before it."""
        so_far = counted(len(self.rtt_ms), "round trip")
        return UsageError(
            f"{self.path}, line {line}: {what} (read as {self.format}, {so_far} before)"
        )

    def series(self, **more: object) -> Series:
        """Return the series, with warnings of anomalies.

        Raises:
            UsageError: no round trip is left.
        """
        if not self.rtt_ms:
            raise UsageError(
                f"{self.path}: read as {self.format}, but there is no round trip in it"
                + (f", only 0 ms {format_lines(self.zeros)}" if self.zeros else "")
                + (
                    f"; {counted(len(self.lost_in), 'probe')} without an answer"
                    * bool(self.lost_in)
                )
            )
        self._reclassify_lost_syns()
        in_order = self._warn()
        answered = len(self.rtt_ms) + len(self.zeros)
        sent = max(self.sent, answered + (0 if self.sent else len(self.lost_in)))
        made = Series(
            self.a,
            self.b,
            self.format,
            self.probe,
            tuple(self.rtt_ms),
            tuple(self.lines),
            sent=sent,
            lost=sent - answered,
            unit=self.unit,
            assumed=tuple(self.assumed),
            in_order=in_order,
            understood=tuple(self.understood),
            warnings=tuple(self.warnings),
        )
        return replace(made, **more)  # type: ignore[arg-type]

    def _reclassify_lost_syns(self) -> None:
        """Count connections whose SYN was retransmitted as losses, not as round trips."""
        if self.probe is not Probe.HTTP or median(self.rtt_ms) > SYN_TIMEOUT_MS / 2:
            return
        again = [at for at, ms in enumerate(self.rtt_ms) if ms > SYN_TIMEOUT_MS]
        if again:
            lines = [self.lines[at] for at in again]
            self.warnings.append(
                f"{counted(len(again), 'connection')} took more than a second to open "
                f"({format_lines(lines)}): taken for a lost SYN that was sent again, not for a "
                "round trip"
            )
            self.lost_in += lines
            for at in reversed(again):
                del self.rtt_ms[at], self.lines[at]

    def _warn(self) -> bool:
        """Warn of anomalies, and return whether times go forward."""
        middle, warn = median(self.rtt_ms), self.warnings.append
        if self.probe is Probe.ICMP:
            warn(ICMP_WARNING)
        if self.zeros:
            warn(f"0 ms is no round trip ({format_lines(self.zeros)}): left out")
        if not self.unit_known and max(self.rtt_ms) < 1:
            warn(
                f"all round trips are below 1 ms (median {middle:g}) and no unit is said: taken "
                f"for milliseconds; if they are seconds, that is {middle * 1000:g} ms: name the "
                "column rtt_s, or say --unit=s"
            )
        if middle > SLOW_MS:
            warn(
                f"the median is {middle / 1000:.3g} s: slower than a geostationary satellite (0.6 "
                "s); is the unit right?"
            )
        far = [
            line for ms, line in zip(self.rtt_ms, self.lines, strict=True) if ms > OUTLIER * middle
        ]
        if far:
            warn(
                f"{counted(len(far), 'round trip')} of more than {OUTLIER:g} times the median of "
                f"{middle:.3g} ms ({format_lines(far)}): kept"
            )
        return self._warn_of_times()

    def _warn_of_times(self) -> bool:
        times = self.times_s
        steps = [(later[0] - before[0], later[1]) for before, later in pairwise(times)]
        back = [line for step, line in steps if step < 0]
        if back:
            self.warnings.append(
                f"time goes backwards {format_lines(back)}: samples are kept in the file's order, "
                "which was not that of the measurement"
            )
        forward = [step for step, _ in steps if step > 0]
        if forward:
            usual = median(forward)
            gaps = [line for step, line in steps if step > 5 * usual]
            if gaps:
                self.warnings.append(
                    f"gaps in time before what stands {format_lines(gaps)}: usually {usual:.3g} s "
                    "pass from one sample to the next; bursts do not reach across a gap"
                )
        return not back


def format_lines(lines: Iterable[int]) -> str:
    """Format line numbers: ``in line 3``, ``in lines 3, 4 and 7 more``."""
    found = sorted(set(lines))
    shown = ", ".join(map(str, found[:LINES_SHOWN]))
    more = f" and {len(found) - LINES_SHOWN} more" if len(found) > LINES_SHOWN else ""
    return f"in {'line' if len(found) == 1 else 'lines'} {shown}{more}"
