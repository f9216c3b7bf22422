"""Catalogue of the gallery: its entries, the table of known attacks, and rows that do not apply.

The rows: P for Paillier-based signing, O for oblivious transfer and DKLs signing, D for key
generation, secret sharing and resharing, S for signing, FROST, output and operations.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from mpcsim.attacks.gallery import (
    dkg,
    encoding,
    entries,
    frost,
    ot,
    presigning,
    resharing,
    signing,
    state,
    transport,
)
from mpcsim.attacks.model import Attack

WITH_CODE = dkg, encoding, frost, ot, presigning, resharing, signing, state, transport
"""Modules whose attacks are bound to entries by being loaded."""

FAMILIES = entries.families()
"""Entries by protocol or topic."""


def _order(attack: Attack) -> tuple[int, int, str]:
    row = attack.rows[0]
    return "ODSP".index(row[0]), int(row[1:]), attack.id


ATTACKS: tuple[Attack, ...] = tuple(
    sorted((attack for family in FAMILIES.values() for attack in family), key=_order)
)
"""All entries, in the order of the table."""

ROWS: tuple[str, ...] = tuple(
    f"{letter}{n}"
    for letter, last in (("O", 14), ("D", 15), ("S", 14), ("P", 10))
    for n in range(1, last + 1)
)
"""Every row of the table."""

_SAID = tomllib.loads(Path(entries.__file__).with_name("rows.toml").read_text(encoding="utf-8"))

NOT_APPLICABLE: Mapping[str, str] = _SAID["not_applicable"]
"""Rows without an entry, and why."""

REMARKS: Mapping[str, str] = _SAID["remarks"]
"""Differences of covered rows from this implementation."""


def uncovered(attacks: Iterable[Attack] = ATTACKS) -> list[str]:
    """Return the rows of the table that have neither an entry nor a reason to have none."""
    covered = {row for attack in attacks for row in attack.rows}
    return [row for row in ROWS if row not in covered and row not in NOT_APPLICABLE]
