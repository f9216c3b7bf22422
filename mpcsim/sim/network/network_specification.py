"""Networks in scenario files: the tables of a network file, or the arguments of a constructor.

    [preset]
    region = "seoul"
    institution = "frankfurt"

    [connection]
    cold = true

``[preset]``, ``[star]``, ``[mesh]`` and ``[hub]`` have the parameters of the class methods of
``Network`` with these names; otherwise the file has the tables of ``mpcsim.sim.network.files``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mpcsim.errors import UsageError
from mpcsim.sim.network.files import latencies, networks, tables
from mpcsim.sim.network.files.toml import key_path
from mpcsim.sim.network.latency import Latency
from mpcsim.sim.network.topology import Network
from mpcsim.sim.network.transport import Connection

SHORT_FORMS: Final[Mapping[str, Callable[..., Network]]] = {
    "preset": Network.preset,
    "star": Network.star,
    "mesh": Network.mesh,
    "hub": Network.hub,
}
KEYS: Final = (*SHORT_FORMS, *networks.KEYS)
"""Entries that may describe a network."""
_LATENCY: Final[tables.Special] = {
    Latency | float: lambda value, at: latencies.decode(value, at, {}),
}


def parse_network(table: Mapping[str, Any]) -> Network:
    """Parse the network in a table, in whichever form it is written.

    Raises:
        UsageError: two forms at once, or an entry that is unknown, missing or out of range: says
            which.
    """
    short = [name for name in table if name in SHORT_FORMS]
    if not short:
        return Network.of(table)
    spelling, *others = short
    for name in (*others, *table):
        if name not in (spelling, "connection"):
            raise UsageError(f"{key_path('', name)}: the network is there already, as {spelling}")
    connection = tables.decode(Connection, table.get("connection", {}), "connection", {})
    return tables.decode(
        SHORT_FORMS[spelling], table[spelling], spelling, _LATENCY, connection=connection
    )
