"""A notebook in a JupyterLab that a browser shows."""

import time
from typing import Any

from selenium.webdriver import ActionChains, Keys


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
