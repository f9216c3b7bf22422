"""Stores as earlier versions made them, out of stores of today."""

import sqlite3
from contextlib import closing
from pathlib import Path

WITHOUT_DEPLOYMENT = {
    "gateway": "ALTER TABLE keys DROP COLUMN recoveries; DROP TABLE deployment;",
    "node": "ALTER TABLE shares DROP COLUMN recoveries; DROP TABLE deployment;",
}


def without(folder: Path, *lacking: dict[str, str]) -> None:
    """Take from all stores of a data folder what earlier versions did not write."""
    for path in folder.rglob("*.sqlite"):
        with closing(sqlite3.connect(path)) as database:
            for scripts in lacking:
                database.executescript(scripts["gateway" if path.stem == "gateway" else "node"])
