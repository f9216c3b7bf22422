"""Benchmark of notebooks: time of each from its first cell to its last, in a fresh kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from mpcsim.errors import UsageError, needs_extra

FOLDER: Final = Path("notebooks")
TARGET_S: Final = 30.0
"""Time that this project promises for each, on two cores."""
CELL_TIMEOUT_S: Final = 120


def notebook_figures(folder: Path = FOLDER) -> dict[str, float]:
    """Execute every notebook in a folder; nothing is written.

    Returns:
        Seconds by name.

    Raises:
        UsageError: there is none there (the command runs in the project's folder), or what
            executes them is not installed.
    """
    paths = sorted(folder.glob("*.ipynb"))
    if not paths:
        raise UsageError(f"no notebooks in {folder.resolve()}")
    with needs_extra("workbench", "executing notebooks"):
        import nbformat
        from nbclient import NotebookClient
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    figures: dict[str, float] = {}
    for path in paths:
        client = NotebookClient(
            nbformat.read(path, as_version=4),  # type: ignore[no-untyped-call]
            timeout=CELL_TIMEOUT_S,
            resources={"metadata": {"path": str(folder)}},
        )
        began = time.perf_counter()
        client.execute(env=environment)
        figures[f"notebook_{path.stem}_s"] = time.perf_counter() - began
    return figures


def table(figures: dict[str, float]) -> str:
    """Return the figures as text."""
    lines = [f"notebooks, each in a fresh kernel (target: {TARGET_S:g} s at most)", ""]
    for name, value in figures.items():
        verdict = "" if value <= TARGET_S else "   NOT reached"
        lines.append(
            f"{name.removeprefix('notebook_').removesuffix('_s'):<28}{value:>8.1f}{verdict}"
        )
    return "\n".join(lines)
