"""The table: corrupt components, and what they can and cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Goal(Enum):
    """What an attacker wants."""

    K = "learns a user's private key, or gets a message of its own choice signed"
    W = "makes a user adopt a key or an address that it controls"
    P = "can test passwords offline"
    X = "breaks something else that is promised: a key in force is destroyed or blocked for good"
    """Beyond the table: no column, but entries."""


COLUMNS: Final = (Goal.K, Goal.W, Goal.P)
"""Goals that every row says something about."""


@dataclass(frozen=True)
class Row:
    """A corrupt set."""

    id: str
    corrupt: str
    """Who is in it."""
    says: Mapping[Goal, str]
    """By goal: "no", "yes", or "only ..."."""
    denies: str
    """Whether it can deny service."""
    learns: str
    """Who signs what and when."""

    def refuses(self, goal: Goal) -> bool:
        """Whether nothing at all may come of attacks with this goal."""
        return goal is Goal.X or self.says[goal].startswith("no")


def _row(name: str, corrupt: str, k: str, w: str, p: str, d: str, learns: str) -> Row:
    return Row(name, corrupt, {Goal.K: k, Goal.W: w, Goal.P: p}, d, learns)


AS_TOKEN: Final = "only if the user has no key on that curve yet"
AS_ISSUER: Final = f"{AS_TOKEN}; otherwise no, for whoever compares with the stored public key"
BY_ISSUING: Final = (
    "only by an activated recovery (it issues the tokens): shows at the next signature and in both "
    "MPC nodes' logs"
)

ROWS: Final = (
    _row("network", "network, behind TLS", "no", "no", "no", "yes", "sizes and times"),
    _row("database", "database", "no", "no", "no", "yes, until recovered", "no"),
    _row(
        "mpc node",
        "operator alone, or institution alone",
        "no",
        "no",
        "no",
        "yes",
        "what it takes part in",
    ),
    _row(
        "mpc node + database",
        "operator or institution, and database",
        "no",
        "no",
        "no",
        "yes",
        "yes",
    ),
    _row(
        "token",
        "token",
        "only by an activated recovery: the user's share stops working, which shows",
        AS_TOKEN,
        "no",
        "that user",
        "yes",
    ),
    _row(
        "database + token",
        "database and token",
        "only as the user, until the token expires; then as a token",
        AS_TOKEN,
        "yes, once it has opened the vault",
        "that user",
        "yes",
    ),
    _row(
        "mpc node + token",
        "operator or institution, and token",
        'yes, by a recovery that shows only in the other node\'s log ("begun")',
        AS_TOKEN,
        "no",
        "yes",
        "yes",
    ),
    _row("gateway", "gateway, identities pinned", BY_ISSUING, AS_ISSUER, "no", "yes", "yes"),
    _row(
        "gateway, not pinned",
        "gateway, identities not pinned, honest at `generate` and every `recover`",
        BY_ISSUING,
        AS_ISSUER,
        "no",
        "yes",
        "yes",
    ),
    _row(
        "gateway, corrupt when made",
        "gateway, identities not pinned, corrupt at `generate` or a `recover`",
        "yes",
        "yes",
        "no: the salt never passes it",
        "yes",
        "yes",
    ),
    _row(
        "gateway + mpc node",
        "gateway and operator (or institution), pinned",
        "yes",
        AS_TOKEN,
        "no",
        "yes",
        "yes",
    ),
    _row("gateway + database", "gateway and database, pinned", "yes", "yes", "yes", "yes", "yes"),
    _row(
        "rolled back",
        "nobody; one component's store is rolled back",
        "no",
        "no",
        "no",
        "maybe, and it says so",
        "no",
    ),
    _row(
        "mpc nodes",
        "operator and institution",
        "yes, two of three",
        "yes",
        "no (with the database: yes)",
        "yes",
        "yes",
    ),
    _row("node", "node, while it serves a user", "yes, that user", "yes", "yes", "yes", "yes"),
)
"""Every row."""

BY_ID: Final = {row.id: row for row in ROWS}
