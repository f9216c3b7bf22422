"""The panel in JupyterLab itself."""

from importlib.util import find_spec

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: no browser tests")

from tests.lab.explorer.lab import opened
from tests.lab.explorer.page import needs_browser, short_folder

needs_lab = pytest.mark.skipif(not find_spec("jupyterlab"), reason="jupyterlab is not installed")
pytestmark = [pytest.mark.soak, needs_browser, needs_lab]

CELL = "from mpcsim.lab.what_if import what_if\nwhat_if(b={'access': 'fibre'}, samples=400)"


def test_a_change_is_answered_and_the_notebooks_own_shortcuts_stay_out():
    with short_folder() as folder, opened(folder, (CELL,)) as page:
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
