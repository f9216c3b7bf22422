"""Catalogue of the compromise matrix: its entries, and the cells and attacks they must cover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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

FAMILIES: Mapping[str, tuple[ServiceAttack, ...]] = {
    "from outside": outside.ENTRIES,
    "users against each other": other_users.ENTRIES,
    "MPC nodes": mpc_nodes.ENTRIES,
    "the gateway": (*gateway.ENTRIES, *answers.ENTRIES),
    "which shares are in force": keys_in_force.ENTRIES,
    "cheating in signing": cheating.ENTRIES,
    "presignatures": presigned.ENTRIES,
    "the REST node": rest_node.ENTRIES,
    "stores and disks": stores.ENTRIES,
}
"""Entries by corrupt component."""

ENTRIES: tuple[ServiceAttack, ...] = tuple(
    entry for family in FAMILIES.values() for entry in family
)

NAMED: tuple[str, ...] = (
    "token replay at every other recipient and verb",
    "key tokens at every other recipient and verb",
    "the client's side of a recovery by an MPC node",
    "the client's side of a recovery, activated, by the gateway",
    "the client's side of a recovery, not activated, by the gateway",
    "the client's side of a recovery, activated, by a token thief",
    "the client's side of a recovery, not activated, by a token thief",
    "the client's side of a recovery, not activated, with an MPC node",
    "a generation on the side that tries to replace a key in force",
    "a recovery on the side that tries to replace a key in force",
    "two recoveries from one epoch, each settled at one node",
    "a vote and an abort for one epoch",
    "halves sealed by a stranger",
    "a stranger's suspension",
    "substituted seal keys",
    "replaced seal keys",
    "substituted reply keys",
    "substituted identities",
    "substituted first messages",
    "substituted messages to sign",
    "substituted paths",
    "substituted chain codes",
    "substituted records",
    "substituted records: another user's",
    "substituted records: an older epoch's",
    "substituted records: signed by one node only",
    "an MPC node that never suspends",
    "an MPC node that never retires",
    "expired suspensions",
    "stalled suspensions",
    "dropped suspensions",
    "reordered suspensions",
    "a replica that missed a suspension",
    "a turn that is given up on an MPC node's word",
    "suspensions that fill the registry",
    "an MPC node that says once that it is another",
    "a rolled-back store: gateway",
    "a rolled-back store: operator",
    "a rolled-back store: institution",
    "a database thief with one seal key",
    "guessing passwords from each position",
    "a presignature used twice: a restored database",
    "a presignature used twice: a retry after a time-out",
    "a presignature used twice: a race of two replicas",
    "a presignature used twice: an MPC node restored from a backup",
    "a presignature of another signature, epoch or user",
    "callers who open sessions without being able to open the vault",
    "a dropped share in the SQLite log and a later copy of the disk",
)
"""Attacks of which each must be executed by an entry, whatever cell it belongs to."""

CELLS: tuple[tuple[str, Goal], ...] = tuple((row.id, goal) for row in ROWS for goal in COLUMNS)
"""Every cell of the table."""


def uncovered(entries: Iterable[ServiceAttack] = ENTRIES) -> list[str]:
    """Cells of the table that no entry executes."""
    covered = {cell for entry in entries for cell in entry.cells}
    return [f"{row}: {goal.name}" for row, goal in CELLS if (row, goal) not in covered]
