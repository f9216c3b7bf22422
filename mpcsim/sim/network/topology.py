"""Topology of a network: sites, links, and the placement of parties.

A message travels hop by hop along the path with the fewest links; a site in the middle (the
gateway) terminates connections and forwards whole messages, or bytes as they arrive
(``Connection.forwarding``). All times are milliseconds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import combinations
from numbers import Real
from pathlib import Path
from typing import Any, Final, Never, TypeVar

from mpcsim.errors import UsageError, unknown
from mpcsim.frozen_dict import freeze_fields
from mpcsim.ids import CLIENT, INSTITUTION, MAX_PARTIES, OPERATOR, PartyId, party_ids
from mpcsim.sim.network import presets
from mpcsim.sim.network.files import networks, toml
from mpcsim.sim.network.latency import Constant, Latency
from mpcsim.sim.network.losses import (
    GilbertElliott,
    Loss,
    TimedGilbertElliott,
    describe_loss,
    mean_loss,
)
from mpcsim.sim.network.transport import Connection, is_whole_number
from mpcsim.sim.rich_display import Table, counted, document

__all__ = ["Direction", "Link", "Network", "Site"]

SLOWEST_MBIT_PER_S: Final = 0.001
"""Lowest rate of a link."""

T = TypeVar("T", "Site", "Link", Connection)


@dataclass(frozen=True)
class Site:
    """Machine at which parties run, or which forwards messages."""

    name: str
    cpu_factor: float = 1.0
    """Factor of compute times, declared or measured; 2 is half as fast."""
    cores: int = 1
    """Number of parties that compute at the same time; others wait for a core."""
    service_ms: float = 0.0
    """Service time of forwarding one message, or a part of one."""

    def __post_init__(self) -> None:
        if not 0 < self.cpu_factor < math.inf:
            raise UsageError(
                f"site {self.name}: cpu_factor is {self.cpu_factor}: not above 0, or not finite"
            )
        if not is_whole_number(self.cores, 1):
            raise UsageError(
                f"site {self.name}: cores is {self.cores}: not a whole number from 1 on"
            )
        if not 0 <= self.service_ms < math.inf:
            raise UsageError(
                f"site {self.name}: service_ms is {self.service_ms}: below 0, or not finite"
            )


@dataclass(frozen=True)
class Link:
    """Link between two sites; settings from ``a`` to ``b`` hold for the way back unless given."""

    a: str
    b: str
    """The names of the two sites."""
    latency: Latency
    """Latency from a to b, one way; a number is a constant latency."""
    mbit_per_s: float = 1000.0
    """Rate, shared by all connections over the link, one packet after the other (FIFO)."""
    loss: Loss = 0.0
    """Probability that a packet is lost, independently; or a model of burst losses."""
    queue_bytes: float = math.inf
    """Queue size: a packet that finds more bytes than that ahead of it is dropped (tail drop)."""
    back_latency: Latency | None = None
    """Latency from b to a, as the three settings below; None: the same as from a to b."""
    back_mbit_per_s: float | None = None
    back_loss: Loss | None = None
    back_queue_bytes: float | None = None

    def __post_init__(self) -> None:
        where = f"link {self.a} - {self.b}"
        object.__setattr__(self, "latency", _latency(self.latency, f"{where}: latency"))
        if self.back_latency is not None:
            back = _latency(self.back_latency, f"{where}: back_latency")
            object.__setattr__(self, "back_latency", back)
        for name in ("mbit_per_s", "back_mbit_per_s"):
            rate = getattr(self, name)
            if rate is not None and not rate > 0:
                raise UsageError(f"{where}: {name} is {rate}: not above 0")
            if rate is not None and rate < SLOWEST_MBIT_PER_S:
                raise UsageError(
                    f"{where}: {name} is {rate}: below {SLOWEST_MBIT_PER_S} (1 kbit/s), a single "
                    "message takes hours and more; is the rate in Mbit/s?"
                )
        for name in ("loss", "back_loss"):
            loss = getattr(self, name)
            if loss is None or isinstance(loss, GilbertElliott | TimedGilbertElliott):
                continue
            if not (isinstance(loss, Real) and 0 <= float(loss) < 1):
                raise UsageError(f"{where}: {name} is {loss!r}: it must be at least 0 and below 1")
        for name in ("queue_bytes", "back_queue_bytes"):
            room = getattr(self, name)
            if room is not None and not room >= 0:
                raise UsageError(f"{where}: {name} is {room}: not a number of bytes from 0 on")
        if self.a == self.b:
            raise UsageError(f"{where}: a link needs two sites")

    @property
    def mean_text(self) -> str:
        """Mean one-way latency as a text, or there/back if they differ."""
        there, back = (self.direction(end).forward.mean_ms for end in (self.a, self.b))
        ways = [f"{ms:.2g}" if ms < 1 else f"{ms:.0f}" for ms in (there, back)]
        return "/".join(dict.fromkeys(ways)) + " ms"

    def direction(self, source: str) -> Direction:
        """Return the link's direction for messages that leave ``source``."""
        back = self.back_latency or self.latency
        back_rate = self.mbit_per_s if self.back_mbit_per_s is None else self.back_mbit_per_s
        back_loss = self.loss if self.back_loss is None else self.back_loss
        if source == self.a:
            return Direction(
                self.a,
                self.b,
                self.latency,
                back,
                self.mbit_per_s,
                self.loss,
                back_loss,
                self.queue_bytes,
            )
        room = self.queue_bytes if self.back_queue_bytes is None else self.back_queue_bytes
        return Direction(self.b, self.a, back, self.latency, back_rate, back_loss, self.loss, room)


@dataclass(frozen=True)
class Direction:
    """Direction of a link."""

    source: str
    target: str
    forward: Latency
    backward: Latency
    mbit_per_s: float
    loss: Loss
    back_loss: Loss = 0.0
    queue_bytes: float = math.inf

    @property
    def is_lossy(self) -> bool:
        """Whether random losses occur in this direction, or on the way of its acknowledgements."""
        return mean_loss(self.loss) > 0 or mean_loss(self.back_loss) > 0

    def row(self) -> tuple[str, str, str, str, str]:
        """Return a row for tables: direction, one-way latency, Mbit/s, loss, queue size."""
        room = f"{self.queue_bytes:,.0f} B" if self.queue_bytes < math.inf else "no end"
        return (
            str(self),
            str(self.forward),
            f"{self.mbit_per_s:g}",
            describe_loss(self.loss),
            room,
        )

    def __str__(self) -> str:
        return f"{self.source} → {self.target}"


@dataclass(frozen=True)
class Network:
    """Network: sites and links, with the parties placed at sites."""

    sites: Mapping[str, Site]
    """Sites by name."""
    links: tuple[Link, ...]
    """Links, at most one between two sites; messages take the path with the fewest."""
    placement: Mapping[PartyId, str]
    """Site of each party. Several may share a site, and a site may have none (a gateway)."""
    connection: Connection = field(default_factory=Connection)
    """Settings of all connections: TCP, TLS, HTTP, and whether they are kept open."""
    name: str = ""
    """Name in tables and figures."""

    def __post_init__(self) -> None:
        freeze_fields(self, "sites", "placement")
        party_ids(self.placement)
        for name, site in self.sites.items():
            if name != site.name:
                raise UsageError(f"sites has site {site.name} under the name {name}")
        for link in self.links:
            for end in (link.a, link.b):
                if end not in self.sites:
                    raise UsageError(
                        f"link {link.a} - {link.b}: {unknown('site', end, self.sites)}"
                    )
        seen: set[frozenset[str]] = set()
        for link in self.links:
            if (pair := frozenset((link.a, link.b))) in seen:
                raise UsageError(f"link {link.a} - {link.b}: two links join the same sites")
            seen.add(pair)
        for party, where in self.placement.items():
            if where not in self.sites:
                raise UsageError(f"party {party}: {unknown('site', where, self.sites)}")
        for i in self.placement:
            for j in self.placement:
                self.route(i, j)

    def route(self, sender: int, receiver: int) -> tuple[Direction, ...]:
        """Return the hops from one party to another, on a path with the fewest; none within a site.

        Raises:
            UsageError: a party has no site, or no path leads there.
        """
        for party in (sender, receiver):
            if party not in self.placement:
                raise UsageError(f"party {party} has no site in this network")
        start, goal = self.placement[PartyId(sender)], self.placement[PartyId(receiver)]
        came: dict[str, Direction | None] = {start: None}
        queue = deque([start])
        while queue and goal not in came:
            for direction in self._leaving[queue.popleft()]:
                if direction.target not in came:
                    came[direction.target] = direction
                    queue.append(direction.target)
        if goal not in came:
            raise UsageError(f"no link leads from {start} to {goal}")
        hops: list[Direction] = []
        while (hop := came[goal]) is not None:
            hops.append(hop)
            goal = hop.source
        return tuple(reversed(hops))

    @cached_property
    def _leaving(self) -> Mapping[str, tuple[Direction, ...]]:
        """Outgoing directions of each site, in the order of the links."""
        leaving: dict[str, list[Direction]] = {name: [] for name in self.sites}
        for link in self.links:
            for end in (link.a, link.b):
                leaving[end].append(link.direction(end))
        return {name: tuple(directions) for name, directions in leaving.items()}

    # ------------------------------------------------------------------ ready-made networks

    @classmethod
    def star(
        cls,
        client: Latency | float = 0.0,
        operator: Latency | float = 0.0,
        institution: Latency | float = 0.0,
        *,
        mbit_per_s: float = 1000.0,
        loss: Loss = 0.0,
        service_ms: float = 0.0,
        connection: Connection | None = None,
        name: str = "star",
    ) -> Network:
        """Return a star: caller's node, operator and institution around the gateway.

        Args:
            client: one-way latency between the caller's node and the gateway, in milliseconds or
                as a distribution; ``operator`` and ``institution`` likewise.

        Raises:
            UsageError: bad latency, rate, loss or service time.
        """
        sites = [Site("client"), Site("gateway", service_ms=service_ms)]
        sites += [Site("operator"), Site("institution")]
        links = tuple(
            Link(end, "gateway", _latency(latency, end), mbit_per_s, loss)
            for end, latency in (
                ("client", client),
                ("operator", operator),
                ("institution", institution),
            )
        )
        return cls(
            {site.name: site for site in sites},
            links,
            {CLIENT: "client", OPERATOR: "operator", INSTITUTION: "institution"},
            connection or Connection(),
            name,
        )

    @classmethod
    def mesh(
        cls,
        parties: int | Iterable[int],
        latency: Latency | float = 0.0,
        *,
        mbit_per_s: float = 1000.0,
        loss: Loss = 0.0,
        connection: Connection | None = None,
        name: str = "mesh",
    ) -> Network:
        """Return a full mesh: every party at its own site, all linked directly.

        Args:
            parties: how many (they are called 1, 2, ...), or their numbers.
            latency: one way, of every link, in milliseconds or as a distribution.

        Raises:
            UsageError: bad or duplicate party ids, bad latency, rate or loss.
        """
        sites, one_way = _sites(parties), _latency(latency, "latency")
        links = [Link(a, b, one_way, mbit_per_s, loss) for a, b in combinations(sites.values(), 2)]
        return cls._with_party_sites(sites, (), links, connection, name)

    @classmethod
    def hub(
        cls,
        parties: int | Iterable[int],
        latency: Latency | float = 0.0,
        *,
        mbit_per_s: float = 1000.0,
        loss: Loss = 0.0,
        service_ms: float = 0.0,
        connection: Connection | None = None,
        name: str = "hub",
    ) -> Network:
        """Return a hub: every party at its own site, all linked to a gateway in the middle.

        Args:
            parties: how many (they are called 1, 2, ...), or their numbers.
            latency: one way, between a party and the gateway, in milliseconds or as a distribution.
            service_ms: the gateway's service time of a message.

        Raises:
            UsageError: bad or duplicate party ids, bad latency, rate, loss or service time.
        """
        sites, one_way = _sites(parties), _latency(latency, "latency")
        gateway = Site("gateway", service_ms=service_ms)
        links = [Link(site, "gateway", one_way, mbit_per_s, loss) for site in sites.values()]
        return cls._with_party_sites(sites, (gateway,), links, connection, name)

    @classmethod
    def _with_party_sites(
        cls,
        placement: Mapping[PartyId, str],
        others: Iterable[Site],
        links: Iterable[Link],
        connection: Connection | None,
        name: str,
    ) -> Network:
        """Return a network of a site for each party, other sites, and links."""
        sites = {site.name: site for site in (*map(Site, placement.values()), *others)}
        return cls(sites, tuple(links), placement, connection or Connection(), name)

    @classmethod
    def preset(
        cls,
        region: str,
        *,
        operator: str | None = None,
        institution: str | None = None,
        gateway: str | None = None,
        access: str = "datacentre",
        loss: Loss | None = None,
        connection: Connection | None = None,
        **others: Never,
    ) -> Network:
        """Return a network from public measurements, by the regions of its sites.

        Args:
            region: region of the caller's node; gateway and operator are there, too, and the
                institution, unless said otherwise.
            operator: a region, or the median round trip to the gateway as text, such as ``120ms``;
                ``institution`` likewise.
            access: how the caller reaches its region: ``datacentre``, ``fibre``, ``lte``, ...
            loss: loss on the caller's link in place of the access network's own.

        Raises:
            UsageError: unknown setting, region or access network, with the near matches.
        """
        for name in others:
            known = ("operator", "institution", "gateway", "access", "loss", "connection")
            raise UsageError(unknown("setting of a preset", name, known))
        home = presets.region(region)
        hub = presets.region(gateway or home)
        access_network = presets.access(access)
        own_loss = access_network.loss if loss is None else loss
        last_mile = presets.line_latency(access_network, home, hub)
        sites = [Site("client"), Site("gateway"), Site("operator"), Site("institution")]
        links = [
            Link(
                "client",
                "gateway",
                last_mile,
                access_network.up_mbit_per_s,
                own_loss,
                back_mbit_per_s=access_network.down_mbit_per_s,
            )
        ]
        for site, where in (("operator", operator or home), ("institution", institution or home)):
            links.append(Link(site, "gateway", presets.latency_between(hub, where)))
        describe_loss = f"{home} ({access}), gateway {hub}, operator {operator or home}"
        return cls(
            {site.name: site for site in sites},
            tuple(links),
            {CLIENT: "client", OPERATOR: "operator", INSTITUTION: "institution"},
            connection or Connection(),
            f"{describe_loss}, institution {institution or home}",
        )

    # ------------------------------------------------------------------ files

    @classmethod
    def load(cls, path: str | Path) -> Network:
        """Read a network from a TOML file (format: ``mpcsim.sim.network.files``).

        Raises:
            UsageError: not TOML, or an entry that is unknown, missing or out of range: says which.
            OSError: the file cannot be read.
        """
        return cls(*networks.read(path, Site, Link))

    def save(self, path: str | Path, note: str = "") -> None:
        """Write a file that ``load`` reads as this network.

        Args:
            note: comes first, as a comment: where the figures are from, say.

        Raises:
            UsageError: a latency is of a class that files do not know.
            OSError: the file cannot be written.
        """
        Path(path).write_text(toml.text(self.table(), note), encoding="utf-8")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Network:
        """Return the network in a table of a network file.

        Raises:
            UsageError: an entry that is unknown, missing or out of range: says which.
        """
        return cls(*networks.decode_network(table, Site, Link))

    def table(self) -> dict[str, Any]:
        """Return the table of this network, as ``of`` takes it.

        Raises:
            UsageError: a latency is of a class that files do not know.
        """
        parts = networks.NetworkParts(
            self.sites, self.links, self.placement, self.connection, self.name
        )
        return networks.encode_network(parts)

    # ------------------------------------------------------------------ changes

    def with_connection(self, **changes: object) -> Network:
        """Return the network with other connection settings, e.g. ``cold=True``.

        Raises:
            UsageError: no such setting, or a bad value.
        """
        return replace(self, connection=_with_changes("connection", self.connection, changes))

    def with_link(self, a: str, b: str, **changes: object) -> Network:
        """Return the network with one link changed, e.g. ``latency=50.0`` or ``loss=0.01``.

        Raises:
            UsageError: there is no such link or setting, or a bad value.
        """
        found = [link for link in self.links if {link.a, link.b} == {a, b}]
        if not found:
            for end in (a, b):
                if end not in self.sites:
                    raise UsageError(unknown("site", end, self.sites))
            raise UsageError(f"no link joins {a} and {b}")
        changed = _with_changes("link", found[0], changes)
        links = tuple(changed if link is found[0] else link for link in self.links)
        return replace(self, links=links)

    def with_site(self, name: str, **changes: object) -> Network:
        """Return the network with one site changed, e.g. ``cpu_factor=2.0``.

        Raises:
            UsageError: there is no such site or setting, or a bad value.
        """
        if name not in self.sites:
            raise UsageError(unknown("site", name, self.sites))
        site = _with_changes("site", self.sites[name], changes)
        return replace(self, sites={**self.sites, name: site})

    def __str__(self) -> str:
        lines = [f"Network: {self.name or 'unnamed'}"]
        for link in self.links:
            loss = f", loss {describe_loss(link.loss)}" if link.loss else ""
            queue = f", queue {link.queue_bytes:,.0f} B" if link.queue_bytes < math.inf else ""
            rate = f"{link.mbit_per_s:g} Mbit/s"
            lines.append(f"  {link.a} - {link.b}: {link.latency}, {rate}{loss}{queue}")
        if self.connection.forwarding == "stream":
            lines.append("  forwarding as bytes arrive")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        directions = [link.direction(end) for link in self.links for end in (link.a, link.b)]
        links = Table(
            ("link", "one-way latency", "Mbit/s", "loss", "queue"),
            [direction.row() for direction in directions],
            frozenset({"Mbit/s", "loss", "queue"}),
        )
        sites = Table(
            ("site", "parties", "CPU factor", "cores", "service ms"),
            [
                (
                    site.name,
                    ", ".join(str(i) for i, at in self.placement.items() if at == site.name),
                    f"{site.cpu_factor:g}",
                    str(site.cores),
                    f"{site.service_ms:g}",
                )
                for site in self.sites.values()
            ],
            frozenset({"CPU factor", "cores", "service ms"}),
        )
        kept = self.connection
        state = "opened anew in every session" if kept.cold else "kept open"
        idle = "" if kept.slow_start_after_idle else ", kept while idle"
        how = ", forwarding as bytes arrive" if kept.forwarding == "stream" else ""
        note = (
            f"connections {state}, TLS handshake {counted(kept.tls_round_trips, 'round trip')}, "
            f"{kept.overhead_bytes} B around each message, "
            f"initial window {counted(kept.initial_window, 'segment')}{idle}{how}"
        )
        return document(f"Network: {self.name or 'unnamed'}", [links, sites], notes=[note])


def _sites(parties: int | Iterable[int]) -> dict[PartyId, str]:
    """Return a site for each party, given their number or identifiers.

    Raises:
        UsageError: bad number, or bad or duplicate party ids.
    """
    if not isinstance(parties, Iterable):
        if not is_whole_number(parties, 1) or parties > MAX_PARTIES:
            raise UsageError(f"parties is {parties}: not a whole number from 1 to {MAX_PARTIES}")
        parties = range(1, parties + 1)
    return {i: f"site {i}" for i in party_ids(parties)}


def _latency(value: Latency | float, what: str) -> Latency:
    if isinstance(value, Latency):
        return value
    try:
        return Constant(value)
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None


def _with_changes(what: str, old: T, changes: Mapping[str, Any]) -> T:
    known = [f.name for f in fields(old)]
    for name in changes:
        if name not in known:
            raise UsageError(unknown(f"setting of a {what}", name, known))
    return replace(old, **changes)
