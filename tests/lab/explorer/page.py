"""The widget in a plain page, driven by a real headless browser; Python answers its commands."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from mpcsim.lab.explorer import Explorer
from mpcsim.lab.explorer.browser_files import script, style
from mpcsim.lab.explorer.widget import ExplorerWidget

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
DRIVERS = ("chromedriver",)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
TRAITS = ("view", "details", "step", "selected", "problem", "answered")

# A page with the least that anywidget gives a widget: get, set, on, off, send, save_changes.
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>explorer</title>
<style>body { margin: 12px; background: %(ground)s; } %(css)s</style></head>
<body><div id="widget"></div><script type="module">
const state = %(state)s, handlers = {};
window.errors = [];
window.addEventListener("error", (event) => window.errors.push(event.message));
window.commands = [];
window.model = {
  get: (name) => state[name],
  set: (name, value) => {
    if (JSON.stringify(state[name]) === JSON.stringify(value)) return;
    state[name] = value;
    for (const act of handlers["change:" + name] ?? []) act();
  },
  on: (name, act) => { (handlers[name] ??= []).push(act); },
  off: (name, act) => { handlers[name] = (handlers[name] ?? []).filter((a) => a !== act); },
  save_changes: () => {},
  send: (command) => window.commands.push(command),
  tell: (message) => handlers["msg:custom"].forEach((act) => act(message)),
};
const source = new Blob([%(esm)s], { type: "text/javascript" });
const { default: widget } = await import(URL.createObjectURL(source));
window.close_widget = widget.render({ model: window.model, el: document.getElementById("widget") });
window.ready = true;
</script></body></html>"""


def browser() -> tuple[str, str] | str:
    """Paths of a browser and its driver, or why there are none."""
    for name in BROWSERS:
        if found := shutil.which(name):
            for driver in DRIVERS:
                if drives := shutil.which(driver):
                    return found, drives
            return f"{found} is installed, but no chromedriver"
    return "no Chromium is installed"


needs_browser = pytest.mark.skipif(
    isinstance(browser(), str), reason=f"no browser tests: {browser()} (apt: chromium-driver)"
)


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a short path, which a browser's profile needs: sockets live in it."""
    made = Path(tempfile.mkdtemp(prefix="browser-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def window(chrome: webdriver.Chrome, width: int, height: int) -> Iterator[None]:
    """A page of that many pixels, the browser's own frame not counted."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def driver(profile: Path, width: int = 1200, height: int = 1300) -> Iterator[webdriver.Chrome]:
    """A browser with a fresh profile."""
    found = browser()
    assert not isinstance(found, str), found
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in (*FLAGS, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    made = webdriver.Chrome(options=options, service=Service(found[1]))
    try:
        yield made
    finally:
        made.quit()


class Page:
    """An explorer in a page of its own."""

    def __init__(
        self, chrome: webdriver.Chrome, explorer: Explorer, folder: Path, *, dark: bool = False
    ) -> None:
        self.chrome = chrome
        self.explorer = explorer
        self.widget: ExplorerWidget = explorer.widget
        self._sent: list[Any] = []
        self.widget.send = lambda content, buffers=None: self._sent.append(content)
        self._told = self._state()
        self.open(folder / "page.html", style(), script(), dark=dark)

    def open(self, page: Path, css: str, esm: str, *, dark: bool) -> None:
        """Show a widget with its state in a page."""
        parts = {"css": css, "state": _script(self._told), "esm": _script(esm)}
        parts["ground"] = "#111" if dark else "#fff"
        page.write_text(PAGE % parts, encoding="utf-8")
        self.chrome.get(page.as_uri())
        self.until(lambda: self.run("return window.ready === true"))

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page."""
        return self.chrome.execute_script(script, *arguments)

    def answer(self) -> int:
        """Let Python carry out what the page has asked for; returns how many commands."""
        commands = self.run("return window.commands.splice(0)")
        for name in ("step", "selected"):
            setattr(self.widget, name, self.run("return window.model.get(arguments[0])", name))
        for command in commands:
            self.widget._handle_custom_msg(command, [])
        state = self._state()
        for name in TRAITS:
            if state[name] != self._told.get(name):
                self.run("window.model.set(arguments[0], arguments[1])", name, state[name])
        self._told = state
        for message in self._sent:
            self.run("window.model.tell(arguments[0])", message)
        self._sent.clear()
        return len(commands)

    def find(self, selector: str) -> WebElement:
        """The first element."""
        return self.chrome.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Every element."""
        return self.chrome.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Click an element, wherever it is on the page."""
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def message(self, key: str) -> WebElement:
        """A message in the diagram."""
        return self.find(f'.mx-message[data-key="{key}"]')

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        ActionChains(self.chrome).send_keys(*keys).perform()

    def until(self, condition: Callable[[], Any], seconds: float = 20.0) -> Any:
        """Wait for something."""
        end = time.monotonic() + seconds
        while True:
            if found := condition():
                return found
            assert time.monotonic() < end, "the page did not get there"
            time.sleep(0.02)

    def errors(self) -> list[str]:
        """What went wrong in the page."""
        logged = [e["message"] for e in self.chrome.get_log("browser") if e["level"] == "SEVERE"]
        return list(self.run("return window.errors")) + logged

    def overlaps(self, selector: str) -> list[str]:
        """Texts among the elements that lie over one another."""
        boxes = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((e) => {"
            " const b = e.getBoundingClientRect();"
            " return [e.textContent, b.left, b.top, b.right, b.bottom]; })",
            selector,
        )
        return [
            f"{a[0]} / {b[0]}"
            for at, a in enumerate(boxes)
            for b in boxes[at + 1 :]
            if a[1] < b[3] - 0.5 and b[1] < a[3] - 0.5 and a[2] < b[4] - 0.5 and b[2] < a[4] - 0.5
        ]

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self.widget, name) for name in TRAITS}


def _script(value: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value).replace("</", "<\\/")
