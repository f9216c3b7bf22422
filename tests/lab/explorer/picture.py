"""Takes the README's picture of the explorer: ``python -m tests.lab.explorer.picture``."""

import shutil
import sys
import tempfile
from pathlib import Path

from mpcsim.lab.explorer import Explorer
from tests.helpers.repo import ROOT
from tests.lab.explorer.page import Page, driver
from tests.lab.explorer.wallets import simulation

PICTURE = ROOT / "notebooks" / "pictures" / "explorer.png"


def take(path: Path) -> None:
    """A signature in which a field is altered, and the check that catches it."""
    folder = Path(tempfile.mkdtemp(prefix="explorer-"))
    with driver(folder / "profile", 1200, 1400) as chrome:
        page = Page(chrome, Explorer.live(simulation(), "sign", signers=(1, 3)), folder)
        page.message("1>3 Respond").click()
        page.click("[data-path='R_i']")
        page.find(".mx-form select").send_keys("+ G")
        page.click(".mx-form [type=submit]")
        page.answer()
        page.run("document.activeElement.blur()")
        page.find("body").screenshot(str(path))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    take(PICTURE)
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
