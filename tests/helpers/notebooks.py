"""Execute the notebooks from a clean kernel, as ``make notebooks`` and the tests do.

``python -m tests.helpers.notebooks [FILE...]`` executes them in place, so that they are committed
with fresh outputs and nothing about the machine they ran on.
"""

import base64
import os
import re
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.helpers.repo import ROOT

FOLDER = ROOT / "notebooks"
VARIES = "varies"
"""Tag of a cell whose text output differs from run to run (measured times, fresh addresses)."""
CELL_TIMEOUT_S = 120

FIGURE = '<img alt="figure"'
"""Beginning of a figure as HTML."""

_SVG = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")
_PATH = re.compile(r'\bd="[^"]+"')
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,16}\b(?=>)")


def notebooks() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    """Read a notebook. Its package loads a grammar of addresses, which takes seconds."""
    import nbformat

    return nbformat.read(path, as_version=4)


def execute(path: Path) -> Any:
    """Run every cell in order in a fresh kernel; raises on the first error."""
    from nbclient import NotebookClient

    notebook = read(path)
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    for name in ("MPLBACKEND", "HYPOTHESIS_PROFILE", "PYTHONOPTIMIZE"):
        environment.pop(name, None)  # what a test run sets, and a reader's kernel does not have
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute(env=environment)
    return normalise(notebook)


def normalise(notebook: Any) -> Any:
    """Drop what tells of the machine or the moment."""
    from nbformat import from_dict

    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook.metadata = from_dict(about)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = from_dict({k: v for k, v in cell.metadata.items() if k == "tags"})
        for output in cell.get("outputs", []):
            # Without its state, which is not kept, a widget is an error; its picture remains.
            data = output.get("data", {})
            data.pop("application/vnd.jupyter.widget-view+json", None)
            if "text/html" in data:
                data["text/html"] = with_short_paths(data["text/html"])
            if "image/png" in data:
                data["image/png"] = with_palette(data["image/png"])
                if FIGURE in data.get("text/html", ""):
                    del data["text/html"]  # the same figure, as a larger SVG
    return notebook


def with_short_paths(html: str) -> str:
    """Return HTML whose SVG pictures have paths with a tenth of a point, no more."""

    def shortened(found: re.Match[str]) -> str:
        svg = base64.b64decode(found[1]).decode()
        svg = _PATH.sub(lambda d: _NUMBER.sub(lambda n: f"{float(n[0]):.1f}", d[0]), svg)
        return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()

    return _SVG.sub(shortened, html)


def with_palette(png: str) -> str:
    """Return a picture in 32 colours, in base64, if that is smaller."""
    raw = base64.b64decode(png)
    image = Image.open(BytesIO(raw))
    if image.mode == "P":
        return png
    quantized = BytesIO()
    image.convert("RGBA").quantize(32, method=Image.Quantize.FASTOCTREE).save(
        quantized, "PNG", optimize=True
    )
    smaller = quantized.getvalue()
    return base64.b64encode(smaller).decode() if len(smaller) < len(raw) else png


def texts(notebook: Any) -> list[str]:
    """What each code cell printed or showed as text, unless it is tagged as varying."""
    return [
        "" if VARIES in cell.metadata.get("tags", []) else _text(cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _text(outputs: list[Any]) -> str:
    parts = []
    for output in outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type in ("execute_result", "display_data"):
            parts.append(output.data.get("text/plain", ""))
    return _ADDRESS.sub("0x...", "".join(parts)).strip()


def main(arguments: list[str]) -> None:
    import nbformat

    for path in map(Path, arguments) if arguments else notebooks():
        sys.stdout.write(f"{path.name}\n")
        sys.stdout.flush()
        nbformat.write(execute(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
