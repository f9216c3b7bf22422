"""Networks of measured links: the wallet's star around the gateway, each link with its fit.

The nodes of caller, operator and institution talk to the gateway alone (as in ``Network.preset``),
so a network has three links. Values that were not measured are assumed, and listed as assumptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mpcsim.errors import UsageError, unknown
from mpcsim.ids import CLIENT, INSTITUTION, OPERATOR
from mpcsim.sim.network.latency import Latency
from mpcsim.sim.network.measured.fit import Fit
from mpcsim.sim.network.presets import INTRA_REGION_ROUND_TRIP_MS, jittered_latency
from mpcsim.sim.network.topology import Link, Network, Site
from mpcsim.sim.network.transport import Connection
from mpcsim.sim.rich_display import counted, percentage

__all__ = ["ROLES", "AssembledNetwork", "assemble_network", "role_sites"]

ROLES: Final = ("client", "gateway", "operator", "institution")
HUB: Final = "gateway"
PLACEMENT: Final = {CLIENT: "client", OPERATOR: "operator", INSTITUTION: "institution"}


@dataclass(frozen=True)
class AssembledNetwork:
    """Network of measured links, with its assumptions about what was not measured."""

    network: Network
    fits: tuple[Fit, ...]
    """Fits that the network uses."""
    assumptions: tuple[str, ...]

    def note(self, source: str) -> str:
        """Return the comment at the top of the network file: source, fits, assumptions."""
        first = self.fits[0].series
        lines = [f"Measured: {Path(source).name}, read as {first.format}.", f"Unit: {first.unit}."]
        for each in self.fits:
            lines += describe_fit(each)
        lines += [f"Assumed: {text}." for text in self.assumptions]
        return "\n".join(lines)


def describe_fit(fit: Fit) -> list[str]:
    """Return lines about a fit: its measurement, and the remarks of reader and fit."""
    series = fit.series
    what = "one-way time" if series.one_way else "round trip"
    count = counted(number, what) if (number := series.moments.count) else f"{what}s"
    lost = f", {series.lost} of {series.sent} lost" if series.sent else ""
    lines = [f"{series.a} - {series.b}: {count}{lost} ({series.probe.value})."]
    lines += [f"  {text}." for text in series.understood]
    lines += [f"  Warning: {text}." for text in (*series.warnings, *fit.warnings)]
    return lines


def role_sites(pairs: Sequence[tuple[str, str]], asked: Mapping[str, str]) -> dict[str, str]:
    """Return the measured site of each role.

    A role is at the site asked for, or at the site of its name; operator and institution are
    otherwise at the gateway's. Of a single pair the client is at the first end and the gateway at
    the second.

    Raises:
        UsageError: no such site or role, or no way to tell where client and gateway are.
    """
    sites = list(dict.fromkeys(site for pair in pairs for site in pair))
    pairs = [pair for nth, pair in enumerate(pairs) if pair[::-1] not in pairs[:nth]]
    for role, site in asked.items():
        if role not in ROLES:
            raise UsageError(unknown("role", role, ROLES))
        if site not in sites:
            raise UsageError(f"{role}: {unknown('site', site, sites)}")
    at = {role: role for role in ROLES if role in sites} | dict(asked)
    if len(pairs) == 1:
        free = [site for site in pairs[0] if site not in at.values()]
        at.setdefault(HUB, free[-1] if free else pairs[0][1])
        free = [site for site in free if site != at[HUB]]
        at.setdefault("client", free[0] if free else at[HUB])
    for role in ("client", HUB):
        if role not in at:
            raise UsageError(
                f"where is the {role}? There are several pairs: say --{role}=SITE "
                f"(sites: {', '.join(sites)})"
            )
    for role in ("operator", "institution"):
        at.setdefault(role, at[HUB])
    return at


HALF: Final = "each way takes half of a round trip"
"""Assumption where the division of round trips is unknown."""
ALIKE: Final = "the way back takes what was measured one way"


def assemble_network(
    fits: Sequence[Fit],
    asked: Mapping[str, str] | None = None,
    *,
    mbit_per_s: float | None = None,
    name: str = "",
) -> AssembledNetwork:
    """Return the network of these links.

    Args:
        asked: sites of roles, as for ``role_sites``.
        mbit_per_s: rate of the measured links, where the measurement has none.

    Raises:
        UsageError: as ``role_sites``; no link was measured between a role's site and the gateway's.
    """
    by_ends = {(fit.series.a, fit.series.b): fit for fit in fits}
    at = role_sites([(fit.series.a, fit.series.b) for fit in fits], asked or {})
    needed = any(None in (fit.series.mbit_per_s, fit.series.back_mbit_per_s) for fit in fits)
    if mbit_per_s is not None and not needed:
        raise UsageError(f"mbit_per_s is {mbit_per_s}: the measurement has the rate of both ways")
    links: list[Link] = []
    used: dict[int, Fit] = {}
    assumed: list[str] = []
    connection = Connection()
    for role in PLACEMENT.values():
        again = by_ends.get((at[HUB], at[role]))
        found = by_ends.get((at[role], at[HUB])) or again
        if found is None and at[role] != at[HUB]:
            raise UsageError(
                f"no link: nothing was measured between {at[role]} ({role}) and {at[HUB]} ({HUB})"
            )
        if found is None:
            links.append(Link(role, HUB, _within_region()))
            assumed.append(
                f"{role} - gateway is within a region: {INTRA_REGION_ROUND_TRIP_MS} ms there and "
                "back, nothing lost"
            )
            continue
        used[id(found)] = found
        links.append(_link(role, at[role], found, mbit_per_s))
        if again is not None and again is not found:  # one-way times of each direction
            used[id(again)] = again
            links[-1] = replace(
                links[-1], back_latency=again.chosen.one_way, back_loss=again.series.loss
            )
        elif found.chosen.back is not None:
            assumed.append(_division(role, links[-1], found.chosen.back))
        elif (said := ALIKE if found.series.one_way else HALF) not in assumed:
            assumed.insert(0, said)
        measured = (found.series.mbit_per_s, found.series.back_mbit_per_s)
        if None in measured and mbit_per_s is None:
            one = "measured one way, the other way as well" if any(measured) else "both ways"
            assumed.append(f"{role} - gateway has {links[-1].mbit_per_s:g} Mbit/s, {one}")
        if loss := found.series.segment_loss:
            both = "sent one way, the other way as well"
            assumed.append(f"{role} - gateway loses {percentage(loss)}, {both}")
        if found.series.tls_round_trips is not None:
            connection = replace(connection, tls_round_trips=found.series.tls_round_trips)
    elsewhere = ", ".join(f"{role} {at[role]}" for role in ROLES if at[role] not in ROLES)
    name = ": ".join(filter(None, (name, elsewhere)))
    network = Network(
        {role: Site(role) for role in ROLES}, tuple(links), PLACEMENT, connection, name
    )
    return AssembledNetwork(network, tuple(used.values()), tuple(assumed))


def _link(role: str, site: str, fit: Fit, mbit_per_s: float | None) -> Link:
    series = fit.series
    there, back = series.mbit_per_s, series.back_mbit_per_s
    latency, back_latency = fit.chosen.one_way, fit.chosen.back
    if series.a != site:
        there, back = back, there
        latency, back_latency = back_latency or latency, back_latency and latency
    link = Link(role, HUB, latency, loss=series.loss, back_latency=back_latency)
    other = mbit_per_s or there or back or link.mbit_per_s
    there, back = there or other, back or other
    return replace(link, mbit_per_s=there, back_mbit_per_s=None if back == there else back)


def _division(role: str, link: Link, back: Latency) -> str:
    """Return the assumption about round trips that were not divided in halves."""
    there, again = link.latency.mean_ms, (link.back_latency or back).mean_ms
    return (
        f"{role} - gateway takes {there:.3g} ms there and {again:.3g} ms back on average: half of "
        "the least round trip each way, and all that exceeds it on one of them"
    )


def _within_region() -> Latency:
    return jittered_latency(INTRA_REGION_ROUND_TRIP_MS)
