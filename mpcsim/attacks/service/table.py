"""The table of trust: sets of corrupt components, and the goals that they can and cannot reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
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


def _row(name: str, corrupt: str, *, k: str, w: str, p: str, d: str, learns: str) -> Row:
    return Row(name, corrupt, {Goal.K: k, Goal.W: w, Goal.P: p}, d, learns)


AS_TOKEN: Final = "only if the user has no key on that curve yet"
AS_ISSUER: Final = f"{AS_TOKEN}; otherwise no, for whoever compares with the stored public key"
BY_ISSUING: Final = (
    "only by an activated recovery (it issues the tokens): shows at the next signature and in both "
    "MPC nodes' logs"
)

ROWS: Final = (
    _row(
        "stranger",
        "stranger: reaches node or gateway, holds nothing",
        k="no",
        w="no",
        p="no",
        d="no: its own connections only",
        learns="no",
    ),
    _row(
        "token, others",
        "token, against other users",
        k="no",
        w="no",
        p="no",
        d="no: bounded a user",
        learns="no",
    ),
    _row(
        "network", "network, behind TLS", k="no", w="no", p="no", d="yes", learns="sizes and times"
    ),
    _row("database", "database", k="no", w="no", p="no", d="yes, until recovered", learns="no"),
    _row(
        "mpc node",
        "operator alone, or institution alone",
        k="no",
        w="no",
        p="no",
        d="yes",
        learns="what it takes part in",
    ),
    _row(
        "mpc node + database",
        "operator or institution, and database",
        k="no",
        w="no",
        p="no",
        d="yes",
        learns="yes",
    ),
    _row(
        "mpc node + database, signer",
        "the same, with vault policy `signer`",
        k="yes: it opens the caller's share alone, and has another",
        w="no",
        p="yes",
        d="yes",
        learns="yes",
    ),
    _row(
        "token",
        "token",
        k="only by an activated recovery: the user's share stops working, which shows",
        w=AS_TOKEN,
        p="no",
        d="that user",
        learns="yes",
    ),
    _row(
        "database + token",
        "database and token",
        k="only as the user, until the token expires; then as a token",
        w=AS_TOKEN,
        p="yes, once it has opened the vault",
        d="that user",
        learns="yes",
    ),
    _row(
        "store + token",
        "token and `secret_store`, without the encrypted share",
        k="only as a token",
        w=AS_TOKEN,
        p="yes, once it has had the store opened",
        d="that user",
        learns="yes",
    ),
    _row(
        "mpc node + token",
        "operator or institution, and token",
        k='yes, by a recovery that shows only in the other node\'s log ("begun")',
        w=AS_TOKEN,
        p="no",
        d="yes",
        learns="yes",
    ),
    _row(
        "gateway",
        "gateway, identities pinned",
        k=BY_ISSUING,
        w=AS_ISSUER,
        p="no",
        d="yes",
        learns="yes",
    ),
    _row(
        "gateway, not pinned",
        "gateway, identities not pinned, honest at `generate` and every `recover`",
        k=BY_ISSUING,
        w=AS_ISSUER,
        p="no",
        d="yes",
        learns="yes",
    ),
    _row(
        "gateway, corrupt when made",
        "gateway, identities not pinned, corrupt at `generate` or a `recover`",
        k="yes",
        w="yes",
        p="no: the salt never passes it",
        d="yes",
        learns="yes",
    ),
    _row(
        "gateway + mpc node",
        "gateway and operator (or institution), pinned",
        k="yes",
        w=AS_TOKEN,
        p="no",
        d="yes",
        learns="yes",
    ),
    _row(
        "gateway + database",
        "gateway and database, pinned",
        k="yes",
        w="yes",
        p="yes",
        d="yes",
        learns="yes",
    ),
    _row(
        "rolled back",
        "nobody; one component's store is rolled back",
        k="no",
        w="no",
        p="no",
        d="maybe, and it says so",
        learns="no",
    ),
    _row(
        "mpc nodes",
        "operator and institution",
        k="yes, two of three",
        w="yes",
        p="no (with the database: yes)",
        d="yes",
        learns="yes",
    ),
    _row(
        "node",
        "node, while it serves a user",
        k="yes, that user",
        w="yes",
        p="yes",
        d="yes",
        learns="yes",
    ),
)
"""All rows of the table."""

BY_ID: Final = {row.id: row for row in ROWS}
