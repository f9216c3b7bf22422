"""Stores as earlier versions made them, out of stores of today."""

import sqlite3
from contextlib import closing
from pathlib import Path

WITHOUT_RECORDS = {
    "gateway": "ALTER TABLE keys DROP COLUMN record;",
    "node": """
        DROP INDEX one_voted; DROP INDEX prepared; DROP TABLE signed; DROP TABLE events;
        ALTER TABLE shares DROP COLUMN predecessor; ALTER TABLE shares DROP COLUMN record;
        ALTER TABLE shares DROP COLUMN legacy;
        DELETE FROM secrets WHERE name != 'seal_key';
    """,
}
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
