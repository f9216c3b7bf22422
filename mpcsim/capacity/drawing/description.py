"""Description of a deployment in words and tables: its parts, its links, and its queues."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from mpcsim.capacity.model.parts import Model
from mpcsim.service.web.transport import MAX_CONNECTIONS
from mpcsim.sim.rich_display import Table, document

LIMITS: Final = Table(
    ("calls wait for", "of", "at a time"),
    (
        ("event loop", "a process", "1 job"),
        ("threads", "a process", "cores + 4 messages; the node 2 x (cores + 1)"),
        ("cores", "a machine", "1 process each"),
        ("disk", "a machine", "writes of databases"),
        ("connections", "a link", f"{MAX_CONNECTIONS} requests"),
        ("lock of a key", "an MPC node", "1 call; others are refused"),
    ),
)
"""Queues of the model, and their limits."""
LEFT_OUT: Final = "left out on purpose: single callbacks of event loops, reads of databases"


def title(model: Model) -> str:
    """Return the heading of a deployment."""
    return f"Deployment over {model.network.name or 'an unnamed network'}"


def parts(model: Model) -> Table:
    """Return a table with a row for each part."""
    rows = []
    for name, part in model.parts.items():
        shared = [other.name for other in model.machines if name in dict(other.replicas)]
        own = "its own" if part.replicas == 1 else f"{part.replicas} of its own"
        rows.append(
            (
                name,
                str(part.replicas),
                str(part.workers),
                shared[0] if part.machine else own,
                str(part.cores),
                f"{part.speed:g}",
                f"{part.memory_mb:,g} MB" if part.memory_mb < math.inf else "no limit",
                model.sites[name],
            )
        )
    heads = ("part", "replicas", "workers", "machine", "cores", "speed", "memory", "site")
    return Table(heads, rows, frozenset({"replicas", "workers", "cores", "speed", "memory"}))


def links(model: Model) -> Table:
    """Return a table with a row for each link, or for each of its directions if they differ."""
    rows = []
    for link in model.network.links:
        both = [link.direction(end).row() for end in (link.a, link.b)]
        alike = both[0][1:] == both[1][1:]
        rows += [(f"{link.a} - {link.b}", *both[0][1:])] if alike else both
    heads = ("link", "one way", "Mbit/s", "loss", "queue")
    return Table(heads, rows, frozenset(heads[2:]))


def notes(model: Model) -> Iterator[str]:
    """Yield which parts share cores, and what the model leaves out."""
    for machine in model.machines:
        if len(machine.replicas) > 1:
            on_it = ", ".join(_replica_name(model, *each) for each in machine.replicas)
            yield f"on one machine, {machine.name} ({machine.cores} cores): {on_it}"
    yield LEFT_OUT
    if model.extrapolated:
        yield "extrapolated, since the real service is not so: " + "; ".join(model.extrapolated)


def text(model: Model) -> str:
    """Return the description for a terminal."""
    said = [f"  {note}" for note in notes(model)]
    return "\n".join([title(model), *(table.text() for table in _tables(model)), *said])


def html(model: Model) -> str:
    """Return the description for a notebook."""
    return document(title(model), _tables(model), notes=notes(model))


def _tables(model: Model) -> tuple[Table, ...]:
    return parts(model), links(model), LIMITS


def _replica_name(model: Model, part: str, replica: int) -> str:
    return part if model.parts[part].replicas == 1 else f"{part} {replica}"
