"""What every attack comes to, in words: ``python -m tests.attacks.findings`` writes it down."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mpcsim.attacks.catalogue import ATTACKS
from mpcsim.attacks.model import Cell, run_cell
from mpcsim.attacks.service import model as service
from mpcsim.attacks.service.attack_environment import AttackEnvironment
from mpcsim.attacks.service.builds import PRODUCT, Build
from mpcsim.attacks.service.catalogue import ENTRIES
from mpcsim.service.mpc_node.node import MpcNode

COPY = Path(__file__).with_name("findings.json")
CHANCE = (
    *("guesses", "a suspension after", "one session", "a vote and", "one node's", "two recoveries"),
    *("another epoch's abort", "an abort of", "a recovery on", "a generation on the side, at"),
    *("the client's side of", "all answers"),
)
"""How the names of cells begin in which it is left to chance how often something is tried."""


def in_words(cell: Cell) -> tuple[str, list[str]]:
    """The cell's name, and what was found in it."""
    mode = "on" if cell.check_on else "off"
    return f"{cell.attack.id} {mode}", [f"{cell.observed}", cell.observed.shown]


def run_noted(
    entry: service.ServiceAttack, build: Build = PRODUCT
) -> tuple[service.Cell, str, list[str]]:
    """Run a cell; return it with its name, what was found, and what the MPC nodes were asked."""
    ended: list[str] = []
    asked: Counter[str] = Counter()
    close, handle = AttackEnvironment.close, MpcNode.handle

    def noting_close(env: AttackEnvironment) -> None:
        calls = (f"{count} {verb}" for verb, count in sorted((+asked).items()))
        ended.append(f"after {env.service.now_ms:,g} ms: {', '.join(calls)}")
        close(env)
        asked.clear()

    def noting_handle(node: MpcNode, verb: str, *request: Any) -> bytes:
        asked[f"{verb} refused"] += 1
        reply = handle(node, verb, *request)
        asked.update({f"{verb} refused": -1, verb: 1})
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttackEnvironment, "close", noting_close)
        patch.setattr(MpcNode, "handle", noting_handle)
        cell = service.run_cell(entry, build)
    name = entry.id if build is PRODUCT else f"{entry.id}, without its check"
    shown = [found.shown for found in cell.findings]
    return cell, name, shown if name.startswith(CHANCE) else [*shown, *ended]


FOUND: dict[str, list[str]] = json.loads(COPY.read_text("utf-8"))

if __name__ == "__main__":
    found = dict(in_words(run_cell(attack, on)) for attack in ATTACKS for on in (True, False))
    for each in ENTRIES:
        builds = (PRODUCT, each.research()) if each.research else (PRODUCT,)
        found |= {name: said for _, name, said in (run_noted(each, build) for build in builds)}
    text = json.dumps(found, indent=0, ensure_ascii=False)
    COPY.write_text(text + "\n", encoding="utf-8")
