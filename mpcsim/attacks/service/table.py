"""The table of trust: sets of corrupt components, and the goals that they can and cannot reach."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final


class Goal(Enum):
    """Goal of an attacker."""

    K = "learns a user's private key, or gets a message of its own choice signed"
    W = "makes a user adopt a key or an address that it controls"
    P = "can test passwords offline"
    D = "takes from other users what is each user's own: names, places, memory, computing time"
    """Beyond the columns of attacks: some rows say no."""
    X = "breaks something else that is promised: a key in force is destroyed or blocked for good"
    """Beyond the table: no column, but entries."""


COLUMNS: Final = (Goal.K, Goal.W, Goal.P)
"""Goals that every row says something about."""


@dataclass(frozen=True)
class Row:
    """Row of the table: a set of corrupt components."""

    id: str
    corrupt: str
    """Corrupt components, in words."""
    says: Mapping[Goal, str]
    """Verdict by goal: "no", "yes", or "only ..."."""
    denies: str
    """Whether it can deny service, in words."""
    learns: str
    """Whether it learns who signs what and when, in words."""

    def refuses(self, goal: Goal) -> bool:
        """Return whether every attack with this goal must be refused."""
        return goal in (Goal.D, Goal.X) or self.says[goal].startswith("no")


def _row(name: str, said: Mapping[str, str]) -> Row:
    verdicts = {goal: said[goal.name] for goal in COLUMNS}
    return Row(name, said["corrupt"], verdicts, said["D"], said["L"])


ROWS: Final = tuple(
    _row(name, said)
    for name, said in tomllib.loads(
        Path(__file__).with_name("table.toml").read_text(encoding="utf-8")
    ).items()
)
"""All rows of the table, from ``table.toml``."""

BY_ID: Final = {row.id: row for row in ROWS}
