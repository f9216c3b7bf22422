"""A real JupyterLab on a free loopback port, with a notebook to run in it."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import ActionChains, Keys

from mpcsim.service.operations.supervisor import free_port
from tests.helpers.repo import ROOT
from tests.lab.explorer.page import driver

TOKEN = "explorer"


@contextmanager
def lab(folder: Path, cells: Sequence[str]) -> Iterator[str]:
    """Serve a notebook; gives its address. The server is stopped by its own process id."""
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    notebook = new_notebook(cells=[new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "explore.ipynb")
    overrides = folder / "settings"
    overrides.mkdir()
    settings = overrides / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(
        '{"fetchNews": "false", "checkForUpdates": false}', encoding="utf-8"
    )
    port = free_port()
    log = (folder / "lab.log").open("wb")
    options = {"ip": "127.0.0.1", "port": port, "port_retries": 0, "root_dir": folder}
    command = [
        *(sys.executable, "-m", "jupyter", "lab"),
        *("--allow-root", "--no-browser", "--expose-app-in-browser"),
        *(f"--ServerApp.{name}={value}" for name, value in options.items()),
        f"--IdentityProvider.token={TOKEN}",
        f"--LabApp.user_settings_dir={overrides}",
        f"--LabApp.workspaces_dir={folder / 'workspaces'}",
    ]
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=_home(folder))
    try:
        address = f"http://127.0.0.1:{port}"
        _until_up(f"{address}/api/status?token={TOKEN}", server, folder / "lab.log")
        yield f"{address}/lab/tree/explore.ipynb?token={TOKEN}"
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def _home(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
    }


def _until_up(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            assert server.poll() is None, f"JupyterLab ended:\n{said}"
            assert time.monotonic() < end, f"JupyterLab does not answer:\n{said}"
            time.sleep(0.2)


class Lab:
    """A notebook in a browser."""

    def __init__(self, chrome: Any, address: str) -> None:
        self.chrome = chrome
        # JupyterLab takes a notebook for the current one once it has the focus.
        chrome.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        chrome.get(address)
        self.until(
            "return window.jupyterapp?.shell.currentWidget?.context?.sessionContext?.session"
            "?.kernel?.status === 'idle'"
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.chrome.execute_script(script, *arguments)

    def until(self, script: str) -> Any:
        """Wait for what a script gives."""
        end = time.monotonic() + 180.0
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"JupyterLab did not get to: {script}"
            time.sleep(0.1)
        return found

    def text(self, selector: str) -> str:
        found: str = self.run("return document.querySelector(arguments[0]).innerText", selector)
        return found

    def step_to(self, number: int) -> None:
        """From the first step, by the keyboard."""
        self.run("document.querySelector('.mx').focus()")
        self.press(*[Keys.ARROW_RIGHT] * number)
        self.until(
            f"return document.querySelector('.mx-counter').textContent.startsWith('step {number}')"
        )

    def alter(self, message: str, path: str) -> None:
        """Alter a field of a message, and wait until somebody aborts."""
        self.run(
            f"document.querySelector('[data-key=\"{message}\"].mx-message')"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        self.until(f"return document.querySelector('[data-path={path}]')")
        self.run(f"document.querySelector('[data-path={path}]').click()")
        self.run("document.querySelector('.mx-form').requestSubmit()")
        self.until("return document.querySelector('.mx-abort')")

    def press(self, *keys: str) -> None:
        ActionChains(self.chrome).send_keys(*keys).perform()


@contextmanager
def opened(folder: Path, cells: Sequence[str]) -> Iterator[Lab]:
    """A notebook of these cells in a browser, with its files in a folder."""
    with lab(folder, cells) as address, driver(folder / "profile") as chrome:
        yield Lab(chrome, address)
