"""Deployments and workloads as tables of TOML files; ``mpcsim.capacity.plan`` has a full example.

Keys are the fields of the classes; what is left out has the class's default. An error begins with
the path of its entry: ``workload.events[0].at_s: ...``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from mpcsim.capacity.model.arrivals import Arrivals, Bursts, Profile, Steady, Times, Users
from mpcsim.capacity.model.incidents import EVENTS, Event
from mpcsim.errors import UsageError, unknown
from mpcsim.sim.network import network_specification
from mpcsim.sim.network.files import tables, toml
from mpcsim.sim.network.files.toml import key_path
from mpcsim.sim.network.topology import Network

T = TypeVar("T")

PARTS: Final = ("caller", "node", "gateway", "operator", "institution")
"""Tables of components."""
LIMITS: Final = ("making_limit", "making_queue")
"""Other keys of a deployment."""
NETWORK: Final = "network"
"""Key with the name of a network file, in place of the network's tables."""
WORKLOAD: Final = "workload"
PLAN_KEYS: Final = (
    *("hours", "minutes", "seconds", "seed", "costs", "exactness"),
    *("deadline_ms", "curve", "sensitivity", "cheapest"),
)
"""Other keys of a plan."""
KEYS: Final = (*PARTS, *LIMITS, NETWORK, *network_specification.KEYS, WORKLOAD, *PLAN_KEYS)

ARRIVALS: Final[Mapping[str, type[Arrivals]]] = {
    "steady": Steady,
    "bursts": Bursts,
    "profile": Profile,
    "times": Times,
    "users": Users,
}


def load(path: str | Path, make: Callable[[Mapping[str, Any], Path], T]) -> T:
    """Return what ``make`` builds from a TOML file.

    Args:
        make: gets its table, and the folder that paths in it begin at.

    Raises:
        UsageError: not TOML, or what ``make`` says: names the file.
        OSError: the file cannot be read.
    """
    return decode_table(toml.read(path), str(path), Path(path).parent, make)


def decode_table(
    table: Mapping[str, Any],
    source: str,
    folder: Path,
    make: Callable[[Mapping[str, Any], Path], T],
) -> T:
    """Return what ``make`` builds from a table; errors begin with its source."""
    try:
        for name in table:
            if name not in KEYS:
                raise UsageError(f"{key_path('', name)}: {unknown('entry', name, KEYS)}")
        return make(table, folder)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


# ---------------------------------------------------------------------- deployments


def decode_deployment(make: Callable[..., T], table: Mapping[str, Any], folder: Path) -> T:
    """Return the deployment in the table of a plan.

    Raises:
        UsageError: an entry that is unknown, missing or out of range, or a network file that cannot
            be read: says which.
    """
    parts = {name: value for name, value in table.items() if name in PARTS + LIMITS}
    return tables.decode(make, parts, "", {}, network=_network(table, folder))


def encode_deployment(model: object) -> dict[str, Any]:
    """Return the table of which ``decode_deployment`` makes this deployment.

    Raises:
        UsageError: a latency of its network is of a class that files do not know.
    """
    parts = tables.encode(model, _encode_value, leave_out=frozenset({NETWORK}), defaults=False)
    network: Network = getattr(model, NETWORK)
    return parts | network.table()


def _network(table: Mapping[str, Any], folder: Path) -> Network:
    spelt = {name: value for name, value in table.items() if name in network_specification.KEYS}
    if NETWORK not in table:
        return network_specification.parse_network(spelt) if spelt else Network.star()
    for name in spelt:
        raise UsageError(f"{key_path('', name)}: the network is there already, in a file")
    if not isinstance(name := table[NETWORK], str):
        raise UsageError(f"{NETWORK}: {name!r} is not the name of a file")
    try:
        return Network.load(folder / name)
    except OSError as error:
        raise UsageError(f"{NETWORK}: {folder / name}: {error.strerror or error}") from None
    except UsageError as error:
        raise UsageError(f"{NETWORK}: {error}") from None


# ---------------------------------------------------------------------- workloads


def decode_workload(make: Callable[..., T], table: object, folder: Path) -> T:
    """Return the workload in a table of its own.

    Args:
        folder: where a file of times is, if its path begins nowhere.

    Raises:
        UsageError: an entry that is unknown, missing or out of range: says which.
    """
    special: tables.Special = {
        Arrivals: partial(_arrivals, folder=folder),
        Mapping[str, float]: _shares,
        tuple[Event, ...]: _events,
    }
    return tables.decode(make, table, WORKLOAD, special)


def encode_workload(of: object) -> dict[str, Any]:
    """Return the table of which ``decode_workload`` makes this workload."""
    return tables.encode(of, _encode_value, defaults=False)


def _arrivals(value: Any, at: str, folder: Path) -> Arrivals:
    name, own = tables.split_kind(value, "kind", at, ARRIVALS)
    make: Callable[..., Arrivals] = ARRIVALS[name]
    if make is Times and "file" in own:
        make = _times_of(folder)
    return tables.decode(make, own, at, {})


def _times_of(folder: Path) -> Callable[..., Times]:
    def times(file: str, column: str = "") -> Times:
        try:
            return Times.of_csv(folder / file, column)
        except OSError as error:
            raise UsageError(f"file is {folder / file}: {error.strerror or error}") from None

    return times


def _events(value: Any, at: str) -> tuple[Event, ...]:
    def event(each: Any, at: str) -> Event:
        name, own = tables.split_kind(each, "event", at, EVENTS)
        make: Callable[..., Event] = EVENTS[name]
        return tables.decode(make, own, at, {})

    return tables.decode_list(value, at, event)


def _shares(value: Any, at: str) -> dict[str, float]:
    return {
        name: check_number(each, key_path(at, name))
        for name, each in tables.as_table(value, at).items()
    }


def check_number(value: Any, at: str) -> int | float:
    """Return a value that is a number.

    Raises:
        UsageError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{at}: {value!r} is not a number")
    return value


# ---------------------------------------------------------------------- encoding


def _encode_value(value: Any) -> Any:
    for key, kinds in (("kind", ARRIVALS), ("event", EVENTS)):
        for name, of in kinds.items():
            if type(value) is of:
                return {key: name} | tables.encode(value, _encode_value, defaults=False)
    match value:
        case tuple():
            return [_encode_value(each) for each in value]
        case Mapping():
            return {name: _encode_value(each) for name, each in value.items()}
        case str() | int() | float():
            return value
    return tables.encode(value, _encode_value, defaults=False)
