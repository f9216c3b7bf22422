"""Files that commands write: pictures and tables, with what made them in their metadata."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mpcsim.errors import UsageError
from mpcsim.version import __version__

PICTURES: Final = (".png", ".svg", ".pdf")
TABLES: Final = (".csv",)
_ABOUT: Final = {".png": "Description", ".svg": "Description", ".pdf": "Subject"}
_PROGRAM: Final = {".png": "Software", ".svg": "Creator", ".pdf": "Creator"}


def prepare_output(option: str, path: str | Path | None, endings: Sequence[str]) -> None:
    """Check the name of an output file and make its folder, before anything is computed.

    Raises:
        UsageError: its ending is none of those, or its folder cannot be made.
    """
    if path is None:
        return
    if Path(path).suffix.lower() not in endings:
        raise UsageError(f"{option}: {path} does not end in {' or '.join(endings)}")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{option}: {path}: {error.strerror or error}") from None


def save_figure(figure: Any, path: str | Path, about: str = "") -> None:
    """Write a picture; its metadata name the package's version.

    Args:
        about: command, seed and settings, for the metadata.

    Raises:
        UsageError: the file cannot be written.
    """
    ending = Path(path).suffix.lower()
    said = {_PROGRAM[ending]: f"mpcsim {__version__}", **({_ABOUT[ending]: about} if about else {})}
    try:
        figure.savefig(path, metadata=said)
    except OSError as error:
        raise UsageError(f"--figure: {path}: {error.strerror or error}") from None


def save_rows(rows: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """Write rows as CSV: a column for each name in any of them; of a mapping, one for each key.

    Raises:
        UsageError: the file cannot be written.
    """
    flat = [_flatten(row) for row in rows]
    try:
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in flat for name in row)))
            writer.writeheader()
            writer.writerows(flat)
    except OSError as error:
        raise UsageError(f"--table: {path}: {error.strerror or error}") from None


def _flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": each for key, each in value.items()}
        else:
            found[name] = value
    return found
