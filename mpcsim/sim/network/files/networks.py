"""Networks as TOML files, for ``Network.load`` and ``Network.save``.

    name = "office"

    [sites.client]
    [sites.gateway]
    service_ms = 0.2
    ...

    [links.client-gateway]      # any name; it is what errors say
    a = "client"
    b = "gateway"
    latency = "office line"     # one way: milliseconds, a distribution's name, or a table
    mbit_per_s = 40.0
    loss = 0.001

    [distributions."office line"]
    kind = "log-normal"
    median_ms = 9.5
    sigma = 0.8
    floor_ms = 7.0

    [placement]
    client = "client"           # a party's role or number, and its site
    ...

    [connection]
    tls_round_trips = 1

Keys are the fields of ``Site``, ``Link``, ``Connection`` and the latencies; omitted keys have their
defaults. An error begins with the path of its entry: ``links.client-gateway.latency.sigma: ...``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mpcsim.errors import UsageError, unknown
from mpcsim.ids import MAX_PARTIES, ROLES, PartyId
from mpcsim.sim.network.files import latencies, tables, toml
from mpcsim.sim.network.files.toml import key_path
from mpcsim.sim.network.latency import Constant, Latency
from mpcsim.sim.network.transport import Connection

S = TypeVar("S")
L = TypeVar("L")

KEYS: Final = ("name", "sites", "links", "distributions", "placement", "connection")
"""The entries of a network file."""
_NUMBERS: Final[Mapping[str, PartyId]] = {role: party for party, role in ROLES.items()}


class NetworkParts(NamedTuple, Generic[S, L]):
    """Fields of a network: sites, links, placement, connection settings, name."""

    sites: Mapping[str, S]
    links: tuple[L, ...]
    placement: Mapping[PartyId, str]
    connection: Connection
    name: str


def read(path: str | Path, site: type[S], link: type[L]) -> NetworkParts[S, L]:
    """Read the fields of a network from a file.

    Args:
        site: the class of sites, with a ``name``.
        link: the class of links, with ends ``a`` and ``b``.

    Raises:
        UsageError: not TOML; an entry that is unknown, missing or out of range, or names a site or
            distribution that the file does not have: says file and path of the entry.
        OSError: the file cannot be read.
    """
    whole = toml.read(path)
    try:
        return decode_network(whole, site, link)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def encode_network(of: NetworkParts[Any, Any]) -> dict[str, Any]:
    """Encode a network as the table of its file.

    A distribution that several links share has an entry of its own.

    Raises:
        UsageError: a latency is of a class that files do not know.
    """
    labels = _labels(of.links)
    shared = _shared(of.links, labels)

    def written(value: Any) -> Any:
        if not isinstance(value, Latency):
            return tables.encode(value) if is_dataclass(value) else value
        if type(value) is Constant:
            return value.ms
        names = [name for name, each in shared.items() if each == value]
        return names[0] if names else latencies.encode(value)

    whole: dict[str, Any] = {"name": of.name} if of.name else {}
    whole["sites"] = {
        name: tables.encode(site, leave_out=frozenset({"name"})) for name, site in of.sites.items()
    }
    whole["links"] = {
        label: tables.encode(link, written) for label, link in zip(labels, of.links, strict=True)
    }
    if shared:
        whole["distributions"] = {name: latencies.encode(each) for name, each in shared.items()}
    whole["placement"] = {
        ROLES.get(party, str(party)): site for party, site in of.placement.items()
    }
    whole["connection"] = tables.encode(of.connection)
    return whole


def decode_network(whole: Mapping[str, Any], site: type[S], link: type[L]) -> NetworkParts[S, L]:
    """Decode the fields of a network from a table; arguments and errors as for ``read``."""
    for key in whole:
        if key not in KEYS:
            raise UsageError(f"{key_path('', key)}: {unknown('entry', key, KEYS)}")
    for key in ("sites", "links", "placement"):
        if key not in whole:
            raise UsageError(f"{key}: missing")
    name = whole.get("name", "")
    if not isinstance(name, str):
        raise UsageError(f"name: {name!r} is not a text")
    named = {
        key: latencies.decode(value, key_path("distributions", key), {})
        for key, value in tables.as_table(whole.get("distributions", {}), "distributions").items()
    }
    sites = {
        key: tables.decode(site, value, key_path("sites", key), {}, name=key)
        for key, value in tables.as_table(whole["sites"], "sites").items()
    }
    special = {Latency: lambda value, at: latencies.decode(value, at, named)}
    links: list[L] = []
    joined: dict[frozenset[str], str] = {}
    for key, value in tables.as_table(whole["links"], "links").items():
        at = key_path("links", key)
        found = tables.decode(link, value, at, special)
        for end in ("a", "b"):
            if value[end] not in sites:
                raise UsageError(f"{at}.{end}: {unknown('site', value[end], sites)}")
        other = joined.setdefault(frozenset((value["a"], value["b"])), at)
        if other != at:
            raise UsageError(f"{at}: joins the same sites as {other}")
        links.append(found)
    placement = {}
    for key, value in tables.as_table(whole["placement"], "placement").items():
        at = key_path("placement", key)
        if not isinstance(value, str) or value not in sites:
            raise UsageError(f"{at}: {unknown('site', str(value), sites)}")
        placement[_party(key, at)] = value
    _check_paths(placement, list(joined))
    connection = tables.decode(Connection, whole.get("connection", {}), "connection", {})
    return NetworkParts(sites, tuple(links), placement, connection, name)


def _party(key: str, at: str) -> PartyId:
    """Return the party with a role or number."""
    if key in _NUMBERS:
        return _NUMBERS[key]
    if key.isascii() and key.isdigit() and 1 <= int(key) <= 0xFFFF:
        return PartyId(int(key))
    raise UsageError(
        f"{at}: {key!r} is no party: {', '.join(_NUMBERS)}, or a number (at most {MAX_PARTIES} "
        "parties)"
    )


def _check_paths(placement: Mapping[PartyId, str], joined: Sequence[frozenset[str]]) -> None:
    """Refuse placements between which no path of links leads."""
    parties = list(placement)
    reached = {placement[parties[0]]} if parties else set()
    while new := {site for pair in joined if pair & reached for site in pair} - reached:
        reached |= new
    for party in parties:
        if placement[party] not in reached:
            raise UsageError(
                f"links: none leads from {placement[parties[0]]} to {placement[party]}, "
                f"where placement.{ROLES.get(party, str(party))} is"
            )


def _labels(links: Sequence[Any]) -> list[str]:
    """Return distinct names of the links."""
    labels: list[str] = []
    for link in links:
        label = f"{link.a}-{link.b}"
        labels.append(label if label not in labels else f"{label} {len(labels)}")
    return labels


def _shared(links: Sequence[Any], labels: Sequence[str]) -> dict[str, Latency]:
    """Return distributions that occur more than once, by the name of their first link."""
    once: list[tuple[str, Latency]] = []
    shared: dict[str, Latency] = {}
    for label, link in zip(labels, links, strict=True):
        for latency in (link.latency, link.back_latency):
            if latency is None or isinstance(latency, Constant):
                continue
            if latency in shared.values():
                continue
            first = next((name for name, each in once if each == latency), None)
            if first is None:
                once.append((label, latency))
            else:
                shared[first] = latency
    return shared
