"""Hops of mtr's reports: check that the target was reached, and the summary of its round trips.

mtr ends its list with the target once that answers. While it does not, the list goes on: a hop
without an answer (``???``) stands behind the last router that answered (``net_max`` in mtr 0.95,
``ui/net.c``), so the round trip to the last line with an answer is one to a router on the way.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mpcsim.errors import UsageError
from mpcsim.sim.network.measured.series import (
    CLIENT_SITE,
    GATEWAY_SITE,
    ICMP_WARNING,
    LONGEST_MS,
    Probe,
    Series,
    Summary,
)
from mpcsim.sim.rich_display import counted

MOST_HOPS: Final = 30
"""Default of mtr's bound (``--max-ttl``)."""

LineError = Callable[[int, str], UsageError]
"""Function that makes the error of a line."""


class Hop(NamedTuple):
    """Hop in a report; times are milliseconds."""

    number: int
    host: str
    lost_percent: float
    sent: int
    best: float
    mean: float
    worst: float
    std: float | None
    line: int


@dataclass(frozen=True)
class Report:
    """Report of one run of mtr."""

    target: str
    """Host that was traced; empty if the report does not say."""
    hops: Sequence[Hop]
    line: int

    @property
    def last(self) -> Hop:
        return self.hops[-1]

    @property
    def site(self) -> str:
        """Name of the target."""
        return self.target or self.last.host


def series_of(form: str, reports: Sequence[Report], error_at: LineError) -> list[Series]:
    """Return the round trips to every target; those of several runs to one together.

    Raises:
        UsageError: a target was not reached, times that contradict each other.
    """
    targets = dict.fromkeys(report.site for report in reports)
    return [
        _series(
            form,
            [report for report in reports if report.site == target],
            GATEWAY_SITE if len(targets) == 1 else target,
            error_at,
        )
        for target in targets
    ]


def _series(form: str, reports: Sequence[Report], site: str, error_at: LineError) -> Series:
    parts, sent, lost = [], 0, 0
    for report in reports:
        _check_reached(report, error_at)
        part, gone = _summary(report.last, error_at)
        parts.append(part)
        sent, lost = sent + report.last.sent, lost + gone
    last = reports[-1].last
    whole = Summary.pooled(parts)
    named = last.host
    if reports[-1].target and reports[-1].target != last.host:
        named += f", taken for {reports[-1].target}, with which mtr ends its list"
    how = "least, mean and standard deviation"
    if whole.std_is_estimated:
        how = (
            "least and mean (StDev is not in the report: the scatter is such that the worst is "
            "about the slowest of them)"
        )
    warnings = [ICMP_WARNING + " (mtr --tcp; a report does not say which it was)"]
    if any(hop.lost_percent > last.lost_percent for hop in reports[-1].hops[:-1]):
        warnings.append(
            "hops on the way lose more than the last one: they limit their answers, which says "
            "nothing of the link"
        )
    return Series(
        CLIENT_SITE,
        site,
        form,
        Probe.ICMP,
        (),
        tuple(report.last.line for report in reports),
        sent=sent,
        lost=lost,
        summary=whole,
        runs=tuple(part.count for part in parts) if len(parts) > 1 else (),
        assumed=("the last hop is the target",),
        understood=(
            f"{counted(last.number, 'hop')}, the last is {named}: mean {whole.mean_ms:g} ms; mtr "
            f"gives no samples, so the fit is to {how}",
        ),
        warnings=tuple(warnings),
    )


def _check_reached(report: Report, error_at: LineError) -> None:
    last, target = report.last, report.target
    answered = [hop for hop in report.hops if hop.lost_percent < 100 and hop.worst > 0]
    remedy = "; measure with mtr --tcp --port 443, or with hping3"
    if last not in answered:
        nearest = f"; the last that answered is hop {answered[-1].number}, {answered[-1].host}, a "
        nearest += "router on the way"
        raise error_at(
            last.line,
            f"the target {target or '(last hop)'} never answered: there is no round trip to it"
            + nearest * bool(answered)
            + remedy,
        )
    if last.host.startswith("("):
        raise error_at(last.line, f"the trace ends with an error, {last.host}{remedy}")
    strange = target and target != last.host and last.host != "???"
    if strange and (_are_different_addresses(target, last.host) or last.number >= MOST_HOPS):
        raise error_at(
            last.line,
            f"the last hop, {last.host}, is not the target, {target}, which never answered{remedy}",
        )


def _are_different_addresses(target: str, host: str) -> bool:
    """Return whether both are addresses, and not the same one."""
    try:
        return ipaddress.ip_address(target) != ipaddress.ip_address(host)
    except ValueError:
        return False


def _summary(hop: Hop, error_at: LineError) -> tuple[Summary, int]:
    """Return the summary of a hop, and how many probes it lost."""
    percent, sent = hop.lost_percent, hop.sent
    if not 0 <= percent <= 100 or sent < 0:
        raise error_at(hop.line, f"Loss% is {percent:g} of {sent:g} probes")
    std = 0.0 if hop.std is None else hop.std
    fits = 0 < hop.best <= hop.mean <= hop.worst
    if not fits or not std >= 0 or hop.worst > LONGEST_MS:
        raise error_at(
            hop.line,
            f"Best {hop.best:g}, Avg {hop.mean:g}, Wrst {hop.worst:g} and StDev {std:g} ms do not "
            "fit each other, or are not in milliseconds",
        )
    lost = round(sent * percent / 100)
    if hop.std is None:
        return Summary.estimated(sent - lost, hop.best, hop.mean, hop.worst), lost
    return Summary(sent - lost, hop.best, hop.mean, hop.worst, hop.std), lost
