"""The panel in JupyterLab itself."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: no browser tests")
pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: no browser tests")

from tests.explorer.lab import Lab, lab
from tests.explorer.page import browser, driver

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        isinstance(browser(), str), reason=f"no browser tests: {browser()} (apt: chromium-driver)"
    ),
]

CELL = "from node.panel import what_if\nwhat_if(b={'access': 'fibre'}, samples=400)"


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="panel-"))  # short: sockets live in it
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_a_change_is_answered_and_the_notebooks_own_shortcuts_stay_out(folder):
    with lab(folder, (CELL,)) as address, driver(folder / "profile") as chrome:
        page = Lab(chrome, address)
        page.run("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.until("return document.querySelectorAll('.wi-side').length === 3")
        before = page.text(".wi-side[data-side=a] td")
        page.run(
            "const s = document.querySelector('[data-at=\"a.institution\"]'); s.value = 'tokyo';"
            "s.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        changed = "return document.querySelector('.wi-side[data-side=a] td').innerText"
        page.until(f"{changed} !== {before!r}")
        cells = page.run("return document.querySelectorAll('.jp-Notebook .jp-Cell').length")
        page.run("document.querySelector('.wi').focus()")
        page.press("ddc")  # D D would delete the cell, C copies A to B
        page.until("return !document.querySelector('.wi tr.differs')")
        assert page.run("return document.querySelectorAll('.jp-Notebook .jp-Cell').length") == cells
