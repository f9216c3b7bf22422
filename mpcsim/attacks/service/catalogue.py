"""Catalogue of the compromise matrix: its entries, and the cells and attacks they must cover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mpcsim.attacks.service import entries
from mpcsim.attacks.service.cells import (
    answers,
    cheating,
    gateway,
    keys_in_force,
    mpc_nodes,
    other_users,
    outside,
    presigned,
    rest_node,
    stores,
)
from mpcsim.attacks.service.model import ServiceAttack
from mpcsim.attacks.service.table import COLUMNS, ROWS, Goal

WITH_CODE = (
    *(answers, cheating, gateway, keys_in_force, mpc_nodes),
    *(other_users, outside, presigned, rest_node, stores),
)
"""Modules whose attacks are bound to entries by being loaded."""

FAMILIES: Mapping[str, tuple[ServiceAttack, ...]] = entries.families()
"""Entries by corrupt component."""

ENTRIES: tuple[ServiceAttack, ...] = tuple(
    entry for family in FAMILIES.values() for entry in family
)

NAMED: tuple[str, ...] = tuple(entries.DATA["named"])
"""Attacks of which each must be executed by an entry, whatever cell it belongs to."""

CELLS: tuple[tuple[str, Goal], ...] = tuple((row.id, goal) for row in ROWS for goal in COLUMNS)
"""Every cell of the table."""


def uncovered(attacks: Iterable[ServiceAttack] = ENTRIES) -> list[str]:
    """Return the cells of the table that no entry executes."""
    covered = {cell for attack in attacks for cell in attack.cells}
    return [f"{row}: {goal.name}" for row, goal in CELLS if (row, goal) not in covered]
