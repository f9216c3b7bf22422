"""The table of check, mutant and killing test: ``table.json``, and ``README.md`` made from it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.mutation.mutants import ROOT, Check

FOLDER = ROOT / "tests" / "mutation"
TABLE = FOLDER / "table.json"
MARKDOWN = FOLDER / "README.md"

INTRODUCTION = """\
# Mutation checks

Every consistency check of the files below, and a test that fails without it. A mutant is the
source with that one check removed; nothing else differs, and no file is touched. Where a condition
has several parts, each part is a check of its own. `sites.py` says what counts as a check and finds
them in the source, so a new check without a test that needs it fails `test_table.py`. Which files
are covered is in `mutants.py` (`SOURCES`): the cryptographic layers, the vault, tokens and grants,
what MPC nodes sign, the MPC nodes and how they vote, the gateway's part in the protocols, and the
REST node's wallet with its checks; not the registry, the files, the gateway's HTTP interface and
the rest of the REST node.

    python -m tests.mutation                 # find a killing test for every check that has none
    python -m tests.mutation --find NAME     # ... for the checks with NAME in their name, anew
    python -m tests.mutation --verify        # run every mutant against its killing test
    python -m tests.mutation --prune         # drop the rows of checks that are gone
    python -m pytest -p tests.mutation.plugin --mutant NAME tests/protocols

Made by `python -m tests.mutation` from `table.json`; do not edit it by hand.
"""


@dataclass(frozen=True)
class Row:
    """What is known of one check."""

    mutant: str
    killed_by: str = ""
    """Node id of a test that fails without the check."""
    survives_because: str = ""
    """Why no test can fail without it."""

    def as_json(self) -> dict[str, str]:
        fields = {
            "mutant": self.mutant,
            "killed_by": self.killed_by,
            "survives_because": self.survives_because,
        }
        return {name: value for name, value in fields.items() if value}


def load() -> dict[str, Row]:
    """The table as it is committed, by name of the check."""
    if not TABLE.exists():
        return {}
    return {name: Row(**row) for name, row in json.loads(TABLE.read_text("utf-8")).items()}


def save(rows: dict[str, Row], checks: dict[str, Check]) -> None:
    """Write table and rendering, in the order of the source."""
    order = {name: i for i, name in enumerate(checks)}
    ordered = dict(sorted(rows.items(), key=lambda item: (order.get(item[0], len(order)), item)))
    data = {name: row.as_json() for name, row in ordered.items()}
    TABLE.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    MARKDOWN.write_text(markdown(ordered), encoding="utf-8")


def markdown(rows: dict[str, Row]) -> str:
    """The rendering: a section a file, a line a check."""
    killed = sum(bool(row.killed_by) for row in rows.values())
    lines = [INTRODUCTION, f"{len(rows)} checks: {killed} with a killing test"]
    survivors = {name: row for name, row in rows.items() if row.survives_because}
    lines[-1] += f", {len(survivors)} surviving for the reason given.\n"
    section = ""
    for name, row in rows.items():
        path, _, check = name.partition(" ")
        if path != section:
            section = path
            lines += [f"\n## {path}\n", "| Check | Mutant | Killing test |", "|---|---|---|"]
        verdict = _code(row.killed_by) if row.killed_by else f"survives: {row.survives_because}"
        lines.append(f"| {_code(check)} | {_cell(row.mutant)} | {verdict} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{_cell(text)}{fence}"
