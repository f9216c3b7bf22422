"""The what-if panel in a plain page, as the explorer's tests have theirs; Python answers."""

from pathlib import Path
from typing import Any

from selenium import webdriver

from mpcsim.lab.what_if import WhatIf
from mpcsim.lab.what_if.widget import STATIC, WhatIfWidget
from tests.lab.explorer import page

TRAITS = ("view", "problem", "answered")


class Page(page.Page):
    """A panel in a page of its own."""

    def __init__(
        self, chrome: webdriver.Chrome, panel: WhatIf, folder: Path, *, dark: bool = False
    ) -> None:
        self.chrome = chrome
        self.panel = panel
        self._told = self._state()
        files = [(STATIC / "panel.css").read_text(encoding="utf-8"), str(WhatIfWidget._esm)]
        self.open(folder / "page.html", *files, dark=dark)

    def answer(self) -> int:
        """Let Python carry out what the page has asked for, until it asks for nothing more."""
        count = 0
        while commands := self.run("return window.commands.splice(0)"):
            for command in commands:
                count += 1
                self.panel.widget._handle_custom_msg(command, [])
                self.tell()
        return count

    def tell(self) -> None:
        """Send the page what is new."""
        state = self._state()
        for name in TRAITS:
            if state[name] != self._told.get(name):
                self.run("window.model.set(arguments[0], arguments[1])", name, state[name])
        self._told = state

    def control(self, at: str) -> Any:
        """The control of a side's setting: ``a.loss``."""
        return self.find(f'[data-at="{at}"]')

    def typed(self, at: str, text: str) -> None:
        """Type a number, in place of what is there, and let Python answer."""
        control = self.control(at)
        control.clear()
        control.send_keys(text)
        self.until(lambda: self.run("return window.commands.length"))
        self.answer()

    def choose(self, at: str, value: str) -> None:
        """Choose a value; nobody has answered yet."""
        change = "arguments[0].dispatchEvent(new Event('change', {bubbles: true}))"
        self.run(f"arguments[0].value = arguments[1]; {change}", self.control(at), value)

    def chosen(self, at: str, value: str) -> None:
        """Choose a value, and let Python answer."""
        self.choose(at, value)
        self.answer()

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self.panel.widget, name) for name in TRAITS}
