"""What somebody sees who opens the JupyterLab of ``make up``, in a real browser."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

pytest.importorskip("selenium", reason="selenium is not installed: no browser tests")

from mpcsim.service.operations.supervisor import free_port
from tests.helpers.notebooks import FOLDER
from tests.helpers.processes import PORTS
from tests.helpers.repo import ROOT
from tests.lab.explorer.lab import Lab
from tests.lab.explorer.page import driver, needs_browser

pytestmark = [pytest.mark.soak, needs_browser]

PANEL = "from mpcsim.lab.what_if import what_if\nwhat_if(b={'access': 'fibre'}, samples=400)"


@pytest.fixture
def workbench() -> Iterator[tuple[Path, str]]:
    """The whole system on a copy of the notebooks; the folder, and JupyterLab's address."""
    folder = Path(tempfile.mkdtemp(prefix="lab-"))  # short: sockets live in it
    shutil.copytree(FOLDER, folder / "notebooks")
    panel = new_notebook(cells=[new_code_cell(PANEL)])
    panel.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(panel, folder / "notebooks" / "panel.ipynb")
    ports = {name: str(free_port()) for name in PORTS}
    own = {"HOME": str(folder), "PYTHONPATH": str(ROOT), **ports}
    own |= {f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("DATA", "RUNTIME", "CONFIG")}
    (folder / "CONFIG").mkdir()
    # Lets the test ask JupyterLab itself; nothing else differs from what a user gets.
    (folder / "CONFIG" / "jupyter_lab_config.json").write_text(
        '{"LabApp": {"expose_app_in_browser": true}}'
    )
    serve = subprocess.Popen(
        [sys.executable, "-m", "mpcsim", "serve", "--lab"],
        cwd=folder,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert serve.stdout is not None
        said = ""
        for line in serve.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        (address,) = re.findall(r"^JupyterLab +(\S+)$", said, re.MULTILINE)
        yield folder, address
    finally:
        serve.send_signal(signal.SIGTERM)
        serve.communicate(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def test_notebook_1_and_the_explorer_in_it(workbench):
    folder, address = workbench
    with driver(folder / "profile") as chrome:
        page = Lab(chrome, address)
        assert "01_start_here" in page.run(
            "return window.jupyterapp.shell.currentWidget.context.path"
        )
        page.run(  # what the kernel says of itself is entered in the notebook
            "return window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel"
            ".info.then(() => new Promise(done => setTimeout(done, 500)))"
        )
        assert page.run("return window.jupyterapp.shell.currentWidget.context.model.dirty") is False
        assert page.run("return document.querySelectorAll('.Toastify__toast').length") == 0
        page.run("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.until("return document.querySelectorAll('.mx-message').length")
        page.until(
            "const c = window.jupyterapp.shell.currentWidget.content.model.cells;"
            "return [...c].filter(x => x.type === 'code').every(x => x.executionCount)"
        )
        # Outputs outside the window are not drawn: ask the model for errors.
        kinds = page.run(
            "const c = window.jupyterapp.shell.currentWidget.content.model.cells;"
            "return [...c].filter(x => x.type === 'code')"
            ".flatMap(x => [...Array(x.outputs.length).keys()].map(i => x.outputs.get(i)))"
            ".map(o => [o.type, o.toJSON().name ?? ''].join(' ').trim())"
        )
        assert kinds
        assert not [kind for kind in kinds if kind in ("error", "stream stderr")]

        page.run("return window.jupyterapp.commands.execute('docmanager:save')")
        first = "01_start_here.ipynb"
        assert (folder / "my_notebooks" / first).read_bytes() != (FOLDER / first).read_bytes()
        assert (folder / "notebooks" / first).read_bytes() == (FOLDER / first).read_bytes()

        page.run("document.querySelector('.mx').scrollIntoView()")
        page.step_to(7)
        page.alter("3>1 Respond", "R_i")
        assert "Party 1 caught it" in page.text(".mx-abort")
        if keep := os.environ.get("SCREENSHOTS"):
            chrome.save_screenshot(str(Path(keep) / "front_door.png"))


def test_the_what_if_panel_answers_and_the_notebooks_own_shortcuts_stay_out(workbench):
    folder, address = workbench
    with driver(folder / "profile") as chrome:
        page = Lab(chrome, address.replace("01_start_here", "panel"))
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
