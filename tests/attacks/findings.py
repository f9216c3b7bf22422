"""What every attack comes to, in words: ``python -m tests.attacks.findings`` writes it down."""

import json
from pathlib import Path

from mpcsim.attacks.catalogue import ATTACKS
from mpcsim.attacks.model import Cell, run_cell
from mpcsim.attacks.service import model as service
from mpcsim.attacks.service.builds import PRODUCT
from mpcsim.attacks.service.catalogue import ENTRIES

COPY = Path(__file__).with_name("findings.json")


def in_words(cell: Cell | service.Cell) -> tuple[str, list[str]]:
    """The cell's name, and what was found in it."""
    if isinstance(cell, Cell):
        mode = "on" if cell.check_on else "off"
        return f"{cell.attack.id} {mode}", [f"{cell.observed}", cell.observed.shown]
    name = cell.entry.id if cell.build is PRODUCT else f"{cell.entry.id}, without its check"
    return name, [found.shown for found in cell.findings]


FOUND: dict[str, list[str]] = json.loads(COPY.read_text("utf-8"))

if __name__ == "__main__":
    cells: list[Cell | service.Cell] = [run_cell(a, on) for a in ATTACKS for on in (True, False)]
    cells += [service.run_cell(entry) for entry in ENTRIES]
    cells += [service.run_cell(entry, entry.research()) for entry in ENTRIES if entry.research]
    text = json.dumps(dict(map(in_words, cells)), indent=0, ensure_ascii=False)
    COPY.write_text(text + "\n", encoding="utf-8")
